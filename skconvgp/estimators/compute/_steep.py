"""Kernels for which float32 is too imprecise, found by trying a few samples."""

import torch
from torch import Tensor

from skconvgp.kernels import Kernel

__all__ = ["why_double"]

TRIED = 4  # samples
# Images of at most so many pixels are tried at once. All pairs of them are computed, of
# which four are read: what a call costs beside its arithmetic is more than these.
FEW_POSITIONS = 48**2
# A pair of more positions than this takes torch a second: one sample is tried.
MANY_POSITION_PAIRS = 2**16
NEAR = 2.0**-18  # relative difference between the two samples of a pair
LARGEST_ERROR = 1e-5  # of the standard deviations; negligible beside a noise of 1e-4


def why_double(kernel: Kernel, images: Tensor) -> str:
    """Return why float32 is too imprecise for samples (n, c, h, w); empty if not.

    Saturated activations turn the rounding errors of samples that are close to each
    other into errors that are many times as large, whatever the formula.
    """
    channels, height, width = images.shape[1:]
    is_slow = kernel.n_position_pairs((channels, height, width)) > MANY_POSITION_PAIRS
    step = max(1, len(images) // TRIED)
    tried = images[: 1 if is_slow else step * TRIED : step]
    n_together = TRIED if height * width <= FEW_POSITIONS else 1
    errors = [
        _largest_error(kernel, tried[start : start + n_together])
        for start in range(0, len(tried), n_together)
    ]
    largest = max(errors, default=0.0)
    if largest <= LARGEST_ERROR:
        return ""
    return (
        f"covariances of samples close to each other are wrong by {largest:.0e} in "
        "float32"
    )


def _largest_error(kernel: Kernel, images: Tensor) -> float:
    """Return the largest error of float32 for samples and ones close to them.

    Errors that are not finite count as 0.
    """
    one = images.to(torch.float32)
    two = one * (1.0 + NEAR)
    with torch.no_grad():
        single = kernel.cross(kernel.prepare(one), kernel.prepare(two)).double()
        first, second = (kernel.prepare(side.double()) for side in (one, two))
        scale = (kernel.diag(first) * kernel.diag(second)).sqrt()
        errors = (single - kernel.cross(first, second)).diagonal().abs() / scale
    return float(torch.where(torch.isfinite(errors), errors, 0.0).max())
