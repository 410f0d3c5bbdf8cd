"""Tiles of averages over flips, computed from the tiles of another backend."""

from dataclasses import dataclass, replace

from torch import Tensor

from skconvgp._protocols import TileBackend, TileCosts
from skconvgp._typing import Prepared
from skconvgp.kernels import FlipAverage, Kernel, Scale, Sum
from skconvgp.kernels._flips import flip
from skconvgp.kernels._prepared import take

__all__ = ["FlipBackend", "flips_outside"]

LIVE_RESULTS = 2  # of a pair: with the images, and with the flips
FEW = 8  # images whose pairs fill the lanes of a vector
STRIP = 64  # rows of a diagonal tile that are computed at once, whole vectors


@dataclass(frozen=True)
class FlipBackend:
    r"""Tiles of :math:`\frac12 (k(x, x') + k(x, \bar x'))`, tangents included."""

    backend: TileBackend  # computes k, with tangents or without

    def measure(self, image: Tensor) -> TileCosts:
        """Return the bytes that images like this one (1, c, h, w) need."""
        costs = self.backend.measure(image)
        return replace(
            costs,
            image_bytes=2 * costs.image_bytes,
            pair_bytes=costs.pair_bytes + LIVE_RESULTS * costs.value_bytes,
            n_passes=2 * costs.n_passes,
        )

    def prepare(self, images: Tensor) -> Prepared:
        """Prepare images (n, c, h, w) and their flips."""
        return self.backend.prepare(images), self.backend.prepare(flip(images))

    def cross(self, one: Prepared, two: Prepared) -> Tensor:
        """Return the covariances (n1, n2) of a tile, or (n1, n2, q) with tangents."""
        (first, _), (second, flipped) = _sides(one), _sides(two)
        return self._mean(
            self.backend.cross(first, second), self.backend.cross(first, flipped)
        )

    def gram(self, one: Prepared) -> Tensor:
        """Return the covariances of a diagonal tile; those below are undefined."""
        images, flipped = _sides(one)
        values = self.backend.gram(images)
        n = len(values)
        for i in range(0, n, STRIP):
            rows, cols = slice(i, min(i + STRIP, n)), slice(i, n)
            crossed = self.backend.cross(take(images, rows), take(flipped, cols))
            values[rows, cols] = self._mean(values[rows, cols], crossed)
        return values

    def diag(self, one: Prepared) -> Tensor:
        """Return the prior variances (n,), or (n, q) with tangents."""
        images, flipped = _sides(one)
        values = self.backend.diag(images).clone()  # it may be a view of the tables
        for i in range(0, len(values), FEW):
            part = slice(i, min(i + FEW, len(values)))
            crossed = self.backend.cross(take(images, part), take(flipped, part))
            with_itself = crossed.diagonal().movedim(-1, 0)
            values[part] = self._mean(values[part], with_itself)
        return values

    @staticmethod
    def _mean(one: Tensor, two: Tensor) -> Tensor:
        return (one + two) / 2


def flips_outside(kernel: Kernel) -> Kernel:
    """Return an equal kernel that is an average itself, if its parts are averages.

    The average of a scaled kernel is the scaled average, and that of a sum is the sum.
    The order of the hyperparameters stays.
    """
    if type(kernel) is Scale:
        inner = flips_outside(kernel.kernel)
        if type(inner) is FlipAverage:
            scaled = Scale(inner.kernel, kernel.factor, kernel.factor_bounds)
            return FlipAverage(scaled)
    if type(kernel) is Sum:
        terms = [flips_outside(term) for term in kernel.parts]
        averages = [term for term in terms if type(term) is FlipAverage]
        if len(averages) == len(terms):
            return FlipAverage(Sum(*(term.kernel for term in averages)))
    return kernel


def _sides(prepared: Prepared) -> tuple[Prepared, Prepared]:
    """Return the tables of images and of their flips."""
    assert isinstance(prepared, tuple)
    images, flipped = prepared
    return images, flipped
