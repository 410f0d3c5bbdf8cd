"""Kernels for which float32 is too imprecise, found by trying a few samples."""

import torch
from torch import Tensor

from skconvgp._protocols import TileBackend
from skconvgp.backends import choose_backend
from skconvgp.kernels import Kernel
from skconvgp.kernels._map_layer import has_tangent_kernel

__all__ = ["why_double"]

TRIED = 4  # samples
# If a pair has at most so many positions, all samples are tried at once. All pairs of
# them are computed, of which four are read: what a call costs beside its arithmetic is
# more than these.
FEW_POSITIONS = 48**2
# A pair of more positions than this takes torch a second: one sample is tried.
MANY_POSITION_PAIRS = 2**16
NEAR = 2.0**-18  # relative difference between the two samples of a pair
LARGEST_ERROR = 1e-5  # of the standard deviations; negligible beside a noise of 1e-4
# A tangent kernel has the angle between two samples, and the rounding of a small one
# makes their covariance smaller, as a noise of this size would. ADR 0087 has what it
# does to predictions.
LARGEST_TANGENT_ERROR = 1e-3


def why_double(kernel: Kernel, images: Tensor) -> str:
    """Return why float32 is too imprecise for samples (n, c, h, w); empty if not.

    Saturated activations turn the rounding errors of samples that are close to each
    other into errors that are many times as large, whatever the formula.
    """
    _, channels, height, width = images.shape
    shape = channels, height, width
    choice = choose_backend(kernel, shape, "auto", torch.device("cpu"))
    is_compiled = choice.is_fused
    tiles = choice.tiles() if is_compiled else kernel
    n_position_pairs = kernel.n_position_pairs(shape)
    is_slow = n_position_pairs > MANY_POSITION_PAIRS and not is_compiled
    step = max(1, len(images) // TRIED)
    tried = images[: 1 if is_slow else step * TRIED : step]
    # Torch computes maps of all positions at once.
    n_positions = n_position_pairs if is_compiled else height * width
    n_together = TRIED if n_positions <= FEW_POSITIONS else 1
    errors = [
        _largest_error(tiles, tried[start : start + n_together])
        for start in range(0, len(tried), n_together)
    ]
    largest = max(errors, default=0.0)
    is_tangent = has_tangent_kernel(kernel)
    if largest <= (LARGEST_TANGENT_ERROR if is_tangent else LARGEST_ERROR):
        return ""
    return (
        f"covariances of samples close to each other are wrong by {largest:.0e} in "
        "float32"
    )


def _largest_error(tiles: TileBackend | Kernel, images: Tensor) -> float:
    """Return the largest error of float32 for samples and ones close to them.

    Errors that are not finite count as 0.
    """
    one = images.to(torch.float32)
    two = one * (1.0 + NEAR)
    with torch.no_grad():
        single = tiles.cross(tiles.prepare(one), tiles.prepare(two)).double()
        first, second = (tiles.prepare(side.double()) for side in (one, two))
        scale = (tiles.diag(first) * tiles.diag(second)).sqrt()
        errors = (single - tiles.cross(first, second)).diagonal().abs() / scale
    return float(torch.where(torch.isfinite(errors), errors, 0.0).max())
