"""The warning that a kernel sees nothing of what samples differ by."""

import torch
from torch import Tensor

from skconvgp._protocols import TileBackend
from skconvgp.backends import choose_backend
from skconvgp.engine import slices
from skconvgp.estimators._warn import warn_caller
from skconvgp.estimators.compute._steep import different_samples
from skconvgp.exceptions import ScaleWarning
from skconvgp.kernels import Kernel

__all__ = ["warn_of_blindness"]

TRIED = 4  # samples
# A pair of more positions than this takes torch too long to try.
MANY_POSITION_PAIRS = 2**16
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

    This is so for a given lengthscale that is far from the distances of the samples,
    and for small numbers beside the variance of a bias. A few samples are tried.
    """
    _, channels, height, width = images.shape
    shape = channels, height, width
    choice = choose_backend(kernel, shape, "auto", torch.device("cpu"))
    is_slow = kernel.n_position_pairs(shape) > MANY_POSITION_PAIRS
    tried = different_samples(images, TRIED)
    if len(tried) < 2 or (is_slow and not choice.is_fused):
        return
    tiles = choice.tiles() if choice.is_fused else kernel
    found = _closeness(tiles, tried, tried)
    if not bool(found.isfinite().all()):
        return  # covariances say so themselves
    if float((1.0 - found).max()) < LEAST_DIFFERENCE:
        seen = "are as large as their variances: they look the same"
    elif all(
        _closeness(tiles, tried, images[part]).abs().lt(LEAST_COVARIANCE).all()
        for part in (slice(TRIED), *slices(len(images), AT_ONCE))
    ):
        seen = "are 0: they are unrelated"
    else:
        return
    warn_caller(
        f"All covariances of different samples {seen} to {kernel!r}. {REMEDY}",
        ScaleWarning,
    )


def _closeness(tiles: TileBackend | Kernel, few: Tensor, several: Tensor) -> Tensor:
    """Return the covariances of samples that differ, by the mean of both variances."""
    is_other = (few[:, None] != several).flatten(2).any(2)
    with torch.no_grad():
        one, two = (tiles.prepare(side.double()) for side in (few, several))
        variances = (tiles.diag(one)[:, None] + tiles.diag(two)) / 2.0
        return (tiles.cross(one, two) / variances)[is_other]
