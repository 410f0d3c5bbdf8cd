"""Kernels for which float32 is too imprecise, found by trying a few samples."""

import torch
from torch import Tensor

from skconvgp.kernels import Kernel

__all__ = ["why_double"]

TRIED = 4  # samples
NEAR = 2.0**-18  # relative difference between the two samples of a pair
LARGEST_ERROR = 1e-5  # of the standard deviations; negligible beside a noise of 1e-4


def why_double(kernel: Kernel, images: Tensor) -> str:
    """Return why float32 is too imprecise for samples (n, c, h, w); empty if not.

    Saturated activations turn the rounding errors of samples that are close to each
    other into errors that are many times as large, whatever the formula.
    """
    step = max(1, len(images) // TRIED)
    errors = [
        _error(kernel, images[i : i + 1])
        for i in range(0, min(len(images), step * TRIED), step)
    ]
    largest = max(errors, default=0.0)
    if largest <= LARGEST_ERROR:
        return ""
    return (
        f"covariances of samples close to each other are wrong by {largest:.0e} in "
        "float32"
    )


def _error(kernel: Kernel, image: Tensor) -> float:
    """Return the error of float32 for a sample and one close to it; 0 if not finite."""
    one = image.to(torch.float32)
    two = one * (1.0 + NEAR)
    with torch.no_grad():
        single = kernel.cross(kernel.prepare(one), kernel.prepare(two)).double()
        first, second = (kernel.prepare(side.double()) for side in (one, two))
        scale = (kernel.diag(first) * kernel.diag(second)).sqrt()
        share = (single - kernel.cross(first, second)).abs() / scale
    return float(share) if bool(torch.isfinite(share).all()) else 0.0
