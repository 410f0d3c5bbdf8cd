"""Time of a pair of networks that average over positions, and errors beside torch."""

from argparse import Namespace
from typing import Any

import numpy as np

import skconvgp
from benchmarks.data import load_images
from benchmarks.gpu.pairs import timed
from benchmarks.measure import difference
from benchmarks.report import Figures
from skconvgp.backends import choose_backend
from skconvgp.kernels import convnet, convnet_gap, myrtle

POOLED_NETWORKS = {
    "myrtle(5)": lambda: myrtle(5),
    "myrtle(7)": lambda: myrtle(7),
    "local, radius 2": lambda: convnet(5, kernel_size=3, pooling="local", radius=2),
    "all positions": lambda: convnet_gap(5),
    "myrtle(5), tangent kernel": lambda: myrtle(5, kind="ntk"),
}
SIDES = (32, 16)
N_IMAGES = {"float32": 512, "float64": 192}  # pairs take microseconds
# Torch takes a thousand times as long, and is timed once.
N_TORCH, N_COMPARED = 32, 8
TORCH_SIDE, TORCH_DTYPE = 32, "float32"


def load_pooled(n: int, side: int) -> tuple[Any, str]:
    """Return n images of 32 x 32 pixels, or of the means of 2 x 2 of them."""
    images, source = load_images("cifar10", n)
    factor = images.shape[2] // side
    small = images.reshape(len(images), -1, side, factor, side, factor)
    return np.ascontiguousarray(small.mean((3, 5))), source


def measure_pools(network: str, side: int, dtype: str, options: Any) -> Figures:
    """Time a matrix, and compare a smaller one with torch in float64."""
    kernel = POOLED_NETWORKS[network]()
    images, source = load_pooled(min(N_IMAGES[dtype], *options.n), side)
    row = {"network": network, "side": side, "dtype": dtype, "source": source}
    row |= timed(kernel, images, dtype, options.backend, options)
    if not options.skip_torch and (side, dtype) == (TORCH_SIDE, TORCH_DTYPE):
        once = Namespace(**vars(options) | {"repeat": 1})
        row["torch"] = timed(kernel, images[:N_TORCH], dtype, "torch", once)
        row["ratio"] = row["torch"]["nanoseconds"] / row["nanoseconds"]
    row["n_position_pairs"] = kernel.n_position_pairs(images.shape[1:])
    return row | {"error": _error(kernel, images[:N_COMPARED], dtype, options)}


def _error(kernel: Any, images: Any, dtype: str, options: Any) -> float:
    """Return the largest error against torch in float64 on the same device."""
    device = str(options.device)
    exact = skconvgp.gram_matrix(
        kernel, images, device=device, backend="torch", dtype="float64"
    )
    found = skconvgp.gram_matrix(
        kernel, images, device=device, backend=options.backend, dtype=dtype
    )
    return difference(np.asarray(found, dtype=np.float64), exact)


def print_pools(row: Figures) -> None:
    """Print one network in one precision."""
    told = f"{row['network']}, {row['side']} x {row['side']}, {row['dtype']}"
    line = f"{told:<40}{row['nanoseconds'] / 1e3:>10.2f} us a pair, n = {row['n']}"
    if "torch" in row:
        line += f"   torch {row['torch']['nanoseconds'] / 1e3:>9.1f}"
    print(f"{line}   error {row['error']:.1e}")


def why_not_fused_pools(network: str, side: int, options: Any) -> str:
    """Say why the backend that is asked for cannot run a network; empty if it can."""
    kernel, shape = POOLED_NETWORKS[network](), (3, side, side)
    kernel.check(shape)
    try:
        choice = choose_backend(kernel, shape, options.backend, options.device)
    except ValueError as error:
        return str(error)
    return choice.reason
