"""Kernels and samples for which float32 is too imprecise, found by trying a few."""

import torch
from torch import Tensor

from skconvgp._protocols import TileBackend
from skconvgp._tensors import permutation
from skconvgp.backends import choose_backend
from skconvgp.kernels import Kernel
from skconvgp.kernels._map_layer import has_tangent_kernel

TRIED = 4  # samples
DRAWN = 32  # samples among which these are looked for
# If a pair has at most so many positions, all samples are tried at once. All pairs of
# them are computed, of which four are read: what a call costs beside its arithmetic is
# more than these.
FEW_POSITIONS = 48**2
# A pair of more positions than this takes torch a second: one sample is tried.
MANY_POSITION_PAIRS = 2**16
NEAR = 2.0**-18  # relative difference between the two samples of a pair
LARGEST_ERROR = 1e-5  # of the standard deviations; negligible beside a noise of 1e-4
# A tangent kernel has the angle between two samples, and the rounding of a small one
# makes their covariance smaller, as a noise of this size would. docs/adr/precision.md
# has what it does to predictions.
LARGEST_TANGENT_ERROR = 1e-3
# Error of a covariance, as a share of what samples differ by: the square of a distance
# in the space of features. Digits whose pixels are divided by 30 have 8e-5 and as many
# right as in float64; divided by 100 they have 7e-4, and six points less. Averages over
# all positions of photographs, with 20 layers, have 6e-5.
LARGEST_SHARE = 2e-4


def why_double(kernel: Kernel, images: Tensor) -> str:
    """Return why float32 is too imprecise for samples (n, c, h, w); empty if not.

    Saturated activations turn the rounding errors of samples that are close to each
    other into errors that are many times as large, whatever the formula. And samples
    may differ by so little that the covariances of all are the same but for their last
    digits: small numbers beside the variance of a bias, or numbers around a large mean.
    """
    _, channels, height, width = images.shape
    shape = channels, height, width
    choice = choose_backend(kernel, shape, "auto", torch.device("cpu"))
    is_compiled = choice.is_fused
    tiles = choice.tiles() if is_compiled else kernel
    n_position_pairs = kernel.n_position_pairs(shape)
    is_slow = n_position_pairs > MANY_POSITION_PAIRS and not is_compiled
    tried = different_samples(images, 1 if is_slow else TRIED)
    # Torch computes maps of all positions at once.
    n_positions = n_position_pairs if is_compiled else height * width
    n_together = TRIED if n_positions <= FEW_POSITIONS else 2
    errors = [
        _errors(tiles, tried[start : start + n_together])
        for start in range(0, len(tried), n_together)
    ]
    if not errors:
        return ""
    near, far, distances = (torch.cat(parts) for parts in zip(*errors, strict=True))
    largest = float(near.max())
    allowed = LARGEST_TANGENT_ERROR if has_tangent_kernel(kernel) else LARGEST_ERROR
    if largest > allowed:
        return (
            f"covariances of samples close to each other are wrong by {largest:.0e} in "
            "float32"
        )
    differ = float(distances.median()) if len(distances) else 0.0
    share = float(far.max()) / differ if differ > 0.0 else 0.0
    if share > LARGEST_SHARE:
        return (
            f"float32 is wrong by {share:.0e} of what covariances of samples differ by"
        )
    return ""


def different_samples(images: Tensor, n: int) -> Tensor:
    """Return up to n samples of which none is equal to another one.

    They are drawn, since samples may lie in the order of their classes, or repeat.
    """
    order = permutation(len(images), torch.Generator().manual_seed(0))
    kept: list[Tensor] = []
    for index in order[:DRAWN].tolist():
        if len(kept) == n:
            break
        if not any(torch.equal(images[index], other) for other in kept):
            kept.append(images[index])
    return torch.stack(kept) if kept else images


def _errors(
    tiles: TileBackend | Kernel, images: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return errors of float32, all in shares of the standard deviations.

    Those for samples and ones close to them, those for pairs of different samples, and
    the squared distances of these pairs. Errors that are not finite count as 0.
    """
    one = images.to(torch.float32)
    two = one * (1.0 + NEAR)
    with torch.no_grad():
        single = tiles.cross(tiles.prepare(one), tiles.prepare(two)).double()
        first, second = (tiles.prepare(side.double()) for side in (one, two))
        exact = tiles.cross(first, second)
        before, behind = tiles.diag(first)[:, None], tiles.diag(second)
        scale = (before * behind).sqrt()
        errors = ((single - exact).abs() / scale).nan_to_num(0.0, 0.0, 0.0)
        distances = (before + behind - 2.0 * exact) / scale
    is_other = (images[:, None] != images).flatten(2).any(2)
    return errors.diagonal(), errors[is_other], distances[is_other].nan_to_num(0.0)
