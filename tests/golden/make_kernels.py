"""Make kernels.json: Gram matrices of small networks, without the package.

Run from the root of the repository: python -m tests.golden.make_kernels
"""

import json
import platform
from functools import partial
from pathlib import Path

import numpy as np

from tests.helpers import naive_kernels as naive

PATH = Path(__file__).with_name("kernels.json")


def conv_strided(images: np.ndarray) -> naive.Maps:
    maps = naive.input_maps(images)
    maps = naive.convolve(maps, (3, 3), weight=3.6, bias=0.1)
    maps = naive.activate(maps, naive.leaky_relu)
    maps = naive.convolve(maps, (3, 3), weight=3.6, bias=0.1, stride=2)
    maps = naive.activate(maps, naive.leaky_relu)
    return naive.convolve(maps, (4, 4), weight=0.4, bias=0.1, padding="valid")


def conv_dilated_circular(images: np.ndarray) -> naive.Maps:
    maps = naive.input_maps(images)
    maps = naive.convolve(
        maps, (2, 4), weight=1.3, bias=0.2, padding="circular", dilation=3
    )
    maps = naive.activate(maps, partial(naive.leaky_relu, slope=0.1))
    maps = naive.convolve(maps, (4, 3), weight=0.7, bias=0.0, padding=1, stride=2)
    maps = naive.activate(maps, partial(naive.leaky_relu, slope=-1.0))
    return naive.dense(naive.flatten(maps), weight=1.1, bias=0.3)


def resnet_block(images: np.ndarray) -> naive.Maps:
    maps = naive.convolve(naive.input_maps(images), (3, 3), weight=1.5, bias=0.1)
    maps = naive.activate(maps, naive.leaky_relu)
    short = naive.convolve(maps, (1, 1), weight=0.8, bias=0.0, stride=2)
    branch = naive.convolve(maps, (3, 3), weight=1.2, bias=0.05, stride=2)
    branch = naive.activate(branch, naive.leaky_relu)
    branch = naive.convolve(branch, (3, 3), weight=0.9, bias=0.0)
    maps = short + branch
    branch = naive.activate(maps, naive.leaky_relu)
    maps = maps + naive.convolve(branch, (3, 3), weight=2.0, bias=0.1)
    return naive.dense(naive.flatten(maps), weight=0.5, bias=0.0)


def smooth_activations(images: np.ndarray) -> naive.Maps:
    maps = naive.input_maps(images)
    for dual in (naive.erf, naive.gelu, naive.sin):
        maps = naive.convolve(maps, (3, 3), weight=2.0, bias=0.5)
        maps = naive.activate(maps, dual)
    return 3.0 * naive.dense(naive.flatten(maps), weight=1.0, bias=0.1)


NETWORKS = (conv_strided, conv_dilated_circular, resnet_block, smooth_activations)


def images() -> np.ndarray:
    """Return four images of two channels: waves, the last one mostly blank."""
    batch = naive.wave_images(4, 8, 8, 2)
    batch[3, :, 2:, :] = 0.0
    return batch


def values() -> dict[str, list[list[float]]]:
    return {net.__name__: net(images())[0, 0].tolist() for net in NETWORKS}


def main() -> None:
    versions = {"python": platform.python_version(), "numpy": np.__version__}
    content = {"versions": versions, "gram": values()}
    PATH.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
