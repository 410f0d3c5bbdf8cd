"""The warning that a kernel does not see the differences of samples."""

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from skconvgp._protocols import TileBackend
from skconvgp._typing import ImageShape
from skconvgp.backends import choose_backend
from skconvgp.engine import slices
from skconvgp.estimators._warn import warn_caller
from skconvgp.estimators.compute._steep import different_samples
from skconvgp.exceptions import ScaleWarning
from skconvgp.kernels import Kernel, PatchKernel

TRIED = 4  # samples
# A pair of more positions than this takes torch too long to try.
MANY_POSITION_PAIRS = 2**16
FEW_PATCHES = 12  # along a side: as many are tried if all are too many
# Half the squared distance of samples, by their variance, if the least noise hides it.
LEAST_DIFFERENCE = 1e-10
# A covariance below it, by the variances, adds nothing to a prediction.
LEAST_COVARIANCE = 1e-100
AT_ONCE = 256  # samples
REMEDY = (
    "Scale X to numbers near 1, such as by dividing it by its standard deviation, or "
    "use another lengthscale: rbf() has the median distance of the samples."
)


def warn_of_blindness(kernel: Kernel, images: Tensor) -> None:
    """Warn if samples (n, c, h, w) are all the same to a kernel, or all unrelated.

    This is so for samples that are equal, for a given lengthscale that is far from the
    distances of the samples, and for small numbers beside the variance of a bias. A few
    samples are tried.
    """
    _warn_of_equals(images)
    shape = cast(ImageShape, tuple(images.shape[1:]))
    choice = choose_backend(kernel, shape, "auto", torch.device("cpu"))
    if not choice.is_fused and kernel.n_position_pairs(shape) > MANY_POSITION_PAIRS:
        images = _middle(kernel, images)
    tried = different_samples(images, TRIED)
    if len(tried) < 2:
        return
    tiles = choice.tiles() if choice.is_fused else kernel
    few = _seen(tiles, tried)
    found = _closeness(tiles, few, few)
    if not bool(found.isfinite().all()):
        return  # covariances say so themselves
    if float((1.0 - found).max()) < LEAST_DIFFERENCE:
        seen = "are as large as their variances: they look the same"
    elif _are_tiny(found) and all(
        _are_tiny(_closeness(tiles, few, _seen(tiles, images[part])))
        for part in slices(len(images), AT_ONCE)
    ):
        seen = "are 0: they are unrelated"
    else:
        return
    warn_caller(
        f"All covariances of different samples {seen} to {kernel!r}. {REMEDY}",
        ScaleWarning,
    )


def _warn_of_equals(images: Tensor) -> None:
    """Warn if samples are all equal, such as numbers that became 0."""
    others = range(1, len(images))
    if others and all(torch.equal(images[i], images[0]) for i in others):
        warn_caller(
            f"All {len(images)} training samples are equal: predictions cannot depend "
            "on X. Look at what was read, and at what a step before this one made.",
            ScaleWarning,
        )


def _middle(kernel: Kernel, images: Tensor) -> Tensor:
    """Return the middle of images if a kernel sees patches of it as it does of all."""
    if not isinstance(kernel, PatchKernel) or kernel.weights is not None:
        return images[:0]
    grid = kernel.grid(cast(ImageShape, tuple(images.shape[1:])))
    for axis, size in enumerate(grid.size, start=2):
        kept = min(images.shape[axis], size + grid.stride * (FEW_PATCHES - 1))
        images = images.narrow(axis, (images.shape[axis] - kept) // 2, kept)
    return images


@dataclass(frozen=True)
class _Seen:
    """Samples as a kernel sees them."""

    images: Tensor  # (n, c, h, w)
    prepared: Any  # for covariances
    variances: Tensor  # (n,)


def _seen(tiles: TileBackend | Kernel, images: Tensor) -> _Seen:
    with torch.no_grad():
        prepared = tiles.prepare(images.double())
        return _Seen(images, prepared, tiles.diag(prepared))


def _closeness(tiles: TileBackend | Kernel, few: _Seen, several: _Seen) -> Tensor:
    """Return the covariances of samples that differ, by the mean of both variances."""
    is_other = (few.images[:, None] != several.images).flatten(2).any(2)
    with torch.no_grad():
        variances = (few.variances[:, None] + several.variances) / 2.0
        return (tiles.cross(few.prepared, several.prepared) / variances)[is_other]


def _are_tiny(closeness: Tensor) -> bool:
    return bool(closeness.abs().lt(LEAST_COVARIANCE).all())
