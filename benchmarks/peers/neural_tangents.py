"""Runner of neural-tangents, in its own environment: compiled, square blocks."""

import warnings
from collections.abc import Callable
from typing import Any

import jax
import neural_tangents as nt
import numpy as np
from neural_tangents import stax

from benchmarks.peers.networks import (
    BIAS_VARIANCE,
    BLOCKS,
    DEPTH,
    GROUPS,
    KERNEL_SIZE,
    WEIGHT_VARIANCE,
)
from benchmarks.peers.pipe import serve_blocks, settings
from benchmarks.peers.pooled import POOLED, POOLED_SIZE, POOLED_VARIANCE


def convnet() -> Any:
    """Return the kernel of our `convnet()`; its standard deviations are fan-in."""
    bias = BIAS_VARIANCE**0.5
    hidden = (WEIGHT_VARIANCE * KERNEL_SIZE**2) ** 0.5
    layers = []
    for _ in range(DEPTH):
        layers += [conv(KERNEL_SIZE, W_std=hidden, b_std=bias), stax.Relu()]
    head = stax.Dense(1, W_std=WEIGHT_VARIANCE**0.5, b_std=bias)
    return stax.serial(*layers, stax.Flatten(), head)[2]


def resnet32() -> Any:
    """Return the kernel of our `resnet32()`."""
    layers = [conv(3)]
    for group in range(GROUPS):
        stride = 1 if group == 0 else 2
        layers += [stax.Relu(), sum_of(conv(1, stride), chain(stride))]
        layers += [
            sum_of(stax.Identity(), stax.serial(stax.Relu(), chain(1)))
            for _ in range(BLOCKS - 1)
        ]
    head = (dense(), stax.Relu(), dense())
    return stax.serial(*layers, stax.Flatten(), *head)[2]


def pooled(name: str) -> Any:
    """Return the kernel of a network that averages over positions."""
    layers = []
    for kind, *sizes in POOLED[name]:
        layers += POOLED_LAYERS[kind](*sizes)
    return stax.serial(*layers, dense())[2]


def convolutions(n: int) -> list[Any]:
    """Return convolutions with ReLU."""
    return [conv(POOLED_SIZE, W_std=POOLED_VARIANCE**0.5), stax.Relu()] * n


def average(radius: int, _step: int) -> list[Any]:
    """Return the mean of positions around each position; there are no steps here."""
    return [stax.AvgPool((2 * radius + 1,) * 2, (1, 1), "SAME")]


POOLED_LAYERS: dict[str, Callable[..., list[Any]]] = {
    "layers": convolutions,
    "pool": lambda side: [stax.AvgPool((side, side), (side, side))],
    "average": average,
    "global": lambda _lattice: [stax.GlobalAvgPool()],
    "flatten": lambda: [stax.Flatten()],
}


def conv(size: int, stride: int = 1, **scales: float) -> Any:
    """Return a convolution; images are (n, h, w, channels) here."""
    return stax.Conv(1, (size, size), (stride, stride), "SAME", **scales)


def dense() -> Any:
    """Return a dense layer of variance 1 without bias."""
    return stax.Dense(1)


def chain(stride: int) -> Any:
    """Return the two convolutions inside a block."""
    return stax.serial(conv(3, stride), stax.Relu(), conv(3))


def sum_of(*branches: Any) -> Any:
    """Return the sum of branches on the same input."""
    return stax.serial(
        stax.FanOut(len(branches)), stax.parallel(*branches), stax.FanInSum()
    )


NETWORKS = {"convnet": convnet, "resnet32": resnet32}


def main() -> None:
    """Serve one network on one set of images."""
    given = settings()
    # The identity branch of a block is independent of the other, as it asks for.
    warnings.filterwarnings("ignore", message="`FanIn` layers assume independent")
    jax.config.update("jax_enable_x64", given["dtype"] == "float64")
    images = np.load(given["images"]).astype(given["dtype"]).transpose(0, 2, 3, 1)
    name = given["network"]
    kernel = pooled(name) if name in POOLED else NETWORKS[name]()
    block = jax.jit(lambda one, two: kernel(one, two, "nngp"))

    def compute(rows: slice, columns: slice) -> Any:
        return np.asarray(block(images[rows], images[columns]))

    versions = {"neural-tangents": nt.__version__, "jax": jax.__version__}
    serve_blocks(compute, np.save, len(images), versions)


if __name__ == "__main__":
    main()
