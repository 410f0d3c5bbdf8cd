"""Runner of cambridge-mlg/cnn-gp, from a checkout: float32, square blocks."""

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

from benchmarks.peers.networks import (
    BIAS_VARIANCE,
    BLOCKS,
    DEPTH,
    GROUPS,
    KERNEL_SIZE,
    WEIGHT_VARIANCE,
)
from benchmarks.peers.pipe import serve_blocks, settings


def import_kernels(checkout: Path) -> Any:
    """Import `cnn_gp.kernels` without the data loaders, which need torchvision."""
    package = ModuleType("cnn_gp")
    package.__path__ = [str(checkout / "cnn_gp")]
    sys.modules["cnn_gp"] = package
    return importlib.import_module("cnn_gp.kernels")


def convnet(kernels: Any, side: int) -> Any:
    """Return its `configs/mnist_paper_convnet_gp.py`, for any size of image."""
    layers = []
    for _ in range(DEPTH):
        layers += [
            kernels.Conv2d(
                kernel_size=KERNEL_SIZE,
                padding="same",
                var_weight=WEIGHT_VARIANCE * KERNEL_SIZE**2,
                var_bias=BIAS_VARIANCE,
            ),
            kernels.ReLU(),
        ]
    head = kernels.Conv2d(
        kernel_size=side, padding=0, var_weight=WEIGHT_VARIANCE, var_bias=BIAS_VARIANCE
    )
    return kernels.Sequential(*layers, head)


def resnet32(kernels: Any, side: int) -> Any:
    """Return its `configs/mnist.py`."""
    layers = [kernels.Conv2d(kernel_size=3)]
    for group in range(GROUPS):
        stride = 1 if group == 0 else 2
        layers.append(kernels.resnet_block(stride=stride, projection_shortcut=True))
        layers += [kernels.resnet_block() for _ in range(BLOCKS - 1)]
        side = -(-side // stride)
    return kernels.Sequential(
        *layers,
        kernels.Conv2d(kernel_size=side, padding=0),
        kernels.ReLU(),
        kernels.Conv2d(kernel_size=1, padding=0),
    )


def main() -> None:
    """Serve one network on one set of images."""
    given = settings()
    torch.set_num_threads(given["n_threads"])
    images = torch.from_numpy(np.load(given["images"]))
    build = {"convnet": convnet, "resnet32": resnet32}[given["network"]]
    model = build(import_kernels(Path(given["checkout"])), images.shape[-1])

    def compute(rows: slice, columns: slice) -> Any:
        is_same = rows == columns
        with torch.no_grad():
            K = model(images[rows], images[columns], same=is_same, diag=False)
        return K.numpy()

    serve_blocks(compute, np.save, len(images), {"torch": torch.__version__})


if __name__ == "__main__":
    main()
