"""Time of a pair, beside torch on the same card, and errors beside the processor."""

from typing import Any

import numpy as np
import torch

import skconvgp
from benchmarks.data import load_images
from benchmarks.gpu.card import DTYPES, seconds_of
from benchmarks.measure import difference
from benchmarks.models import NETWORKS
from benchmarks.peers.networks import LANES, n_warp_instructions
from benchmarks.peers.ours import n_pairs
from benchmarks.report import Figures
from skconvgp._config import ComputeConfig
from skconvgp.backends import choose_backend
from skconvgp.engine import KernelOracle, free_memory

N_FIRST = 8  # images of the call that compiles
N_TORCH, TORCH_SHARE = 1024, 8  # torch takes fewer images
N_COMPARED = 200


def measure_pairs(network: str, data: str, dtype: str, n: int, options: Any) -> Figures:
    """Time a matrix of n images: what comes before it, its pairs, and all together."""
    images, source = load_images(data, n)
    figures = {
        "network": network,
        "data": data,
        "dtype": dtype,
        "source": source,
        "image_shape": images.shape[1:],
    }
    kernel = NETWORKS[network]()
    figures |= timed(kernel, images, dtype, options.backend, options)
    fewer = images[: min(max(n // TORCH_SHARE, 2), N_TORCH)]
    if not options.skip_torch:
        figures["torch"] = timed(kernel, fewer, dtype, "torch", options)
        figures["ratio"] = figures["torch"]["nanoseconds"] / figures["nanoseconds"]
    return figures


def timed(kernel: Any, images: Any, dtype: str, backend: str, options: Any) -> Figures:
    """Time one backend.

    ``compile_seconds`` is what the very first call takes more than the second,
    ``table_seconds`` what is computed for each image alone, ``whole_seconds`` all from
    arrays to an array.
    """
    device = options.device
    settings = {"device": str(device), "dtype": dtype, "backend": backend}

    def first() -> object:
        return skconvgp.gram_matrix(kernel, images[:N_FIRST], **settings)

    def whole() -> object:
        return skconvgp.gram_matrix(kernel, images, **settings)

    cold, warm = seconds_of(first, device), seconds_of(first, device)
    oracle = _oracle(kernel, images, dtype, backend, device)
    tables = seconds_of(oracle.diag, device)
    oracle.gram()  # torch gets its memory
    runs = [seconds_of(oracle.gram, device) for _ in range(options.repeat)]
    del oracle
    best, pairs = min(runs), n_pairs(images)
    return {
        "backend": backend,
        "n": len(images),
        "compile_seconds": max(cold - warm, 0.0),
        "table_seconds": tables,
        "runs": runs,
        "whole_seconds": min(seconds_of(whole, device) for _ in range(options.repeat)),
        "nanoseconds": 1e9 * best / pairs,
        "pairs_per_second": pairs / best,
    }


def _oracle(
    kernel: Any, images: Any, dtype: str, backend: str, device: torch.device
) -> KernelOracle:
    """Return what computes the matrix and leaves it on the card."""
    choice = choose_backend(kernel, images.shape[1:], backend, device)
    precision = DTYPES[dtype]
    matrix = precision.itemsize * len(images) ** 2
    budget = max(free_memory(device) - matrix, 0) // 2
    config = ComputeConfig(device, precision, precision, budget)
    return KernelOracle(choice.tiles(), torch.from_numpy(images), config)


def why_not_fused(network: str, data: str, options: Any) -> str:
    """Say why the backend that is asked for cannot run a network; empty if it can."""
    kernel, shape = NETWORKS[network](), load_images(data, 1)[0].shape[1:]
    kernel.check(shape)
    try:
        return choose_backend(kernel, shape, options.backend, options.device).reason
    except ValueError as error:
        return str(error)


def share_of_peak(row: Figures, peak: Figures, *, is_card: bool) -> float | None:
    """Return the part of the card's arithmetic that float32 pairs take.

    A lane's instruction counts as one multiply-add, two operations of the peak. They
    were counted in the compiled kernel for float32; a processor has no warps.
    """
    if row["dtype"] != "float32" or row["backend"] != "fused" or not is_card:
        return None
    lanes = LANES * n_warp_instructions(row["network"], tuple(row["image_shape"]))
    return row["pairs_per_second"] * 2 * lanes / peak["float32"]["operations"]


def measure_errors(network: str, options: Any) -> Figures:
    """Return the largest errors against torch in float64 on the processor."""
    images, source = load_images("mnist", min(N_COMPARED, max(options.n)))
    kernel = NETWORKS[network]()
    exact = skconvgp.gram_matrix(
        kernel, images, device="cpu", backend="torch", dtype="float64"
    )
    settings = {"device": str(options.device), "backend": options.backend}
    errors = {
        dtype: difference(
            skconvgp.gram_matrix(kernel, images, dtype=dtype, **settings).astype(
                np.float64
            ),
            exact,
        )
        for dtype in DTYPES
    }
    row = {"network": network, "source": source, "backend": options.backend}
    return row | {"n": len(images)} | errors
