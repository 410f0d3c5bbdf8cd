"""Tiles of averages over orbits, computed from the tiles of another backend."""

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from skconvgp._protocols import TileBackend, TileCosts
from skconvgp._typing import Prepared
from skconvgp.backends._reference import image_shape_of
from skconvgp.kernels import FlipAverage, Kernel, OrbitAverage, Scale, Sum
from skconvgp.kernels._orbit_maps import versions_of
from skconvgp.kernels._orbits import Average, mean_cross, of_versions, terms_in
from skconvgp.kernels._prepared import take

__all__ = ["AVERAGES", "OrbitBackend", "averages_outside"]

AVERAGES: tuple[type, ...] = (FlipAverage, OrbitAverage)

LIVE_RESULTS = 2  # of a pair: the sum, and a term
FEW = 8  # images whose pairs fill the lanes of a vector
STRIP = 64  # rows of a diagonal tile that are computed at once, whole vectors


@dataclass(frozen=True)
class OrbitBackend:
    r"""Tiles of averages of :math:`k(g x, g' x')` over maps, tangents included."""

    backend: TileBackend  # computes k, with tangents or without
    average: Average  # has the maps

    def measure(self, image: Tensor) -> TileCosts:
        """Return the bytes that images like this one (1, c, h, w) need."""
        costs = self.backend.measure(image)
        n_versions = len(versions_of(image, self.average.maps))
        return replace(
            costs,
            image_bytes=n_versions * costs.image_bytes,
            pair_bytes=costs.pair_bytes + LIVE_RESULTS * costs.value_bytes,
            n_passes=self.average.n_terms(image_shape_of(image)) * costs.n_passes,
        )

    def prepare(self, images: Tensor) -> Prepared:
        """Prepare images (n, c, h, w) and what the maps make of them."""
        return of_versions(self.average, self.backend.prepare, images)

    def cross(self, one: Prepared, two: Prepared) -> Tensor:
        """Return the covariances (n1, n2) of a tile, or (n1, n2, q) with tangents."""
        return mean_cross(self.backend.cross, one, two)

    def gram(self, one: Prepared) -> Tensor:
        """Return the covariances of a diagonal tile; those below are undefined."""
        terms = terms_in(one)
        values = self.backend.gram(terms.own[0])
        for own in terms.own[1:]:
            values = values + self.backend.gram(own)
        n = len(values)
        for i in range(0, n, STRIP):
            rows, cols = slice(i, min(i + STRIP, n)), slice(i, n)
            strip = values[rows, cols]
            for pair in terms.pairs:
                for a, b in (pair, pair[::-1])[: terms.times]:
                    strip = strip + self.backend.cross(take(a, rows), take(b, cols))
            values[rows, cols] = strip / terms.n_terms
        return values

    def diag(self, one: Prepared) -> Tensor:
        """Return the prior variances (n,), or (n, q) with tangents."""
        terms = terms_in(one)
        values = self.backend.diag(terms.own[0]).clone()  # may be a view of the tables
        for own in terms.own[1:]:
            values += self.backend.diag(own)
        for i in range(0, len(values), FEW):
            part = slice(i, min(i + FEW, len(values)))
            crossed = [
                self.backend.cross(take(a, part), take(b, part)).diagonal()
                for a, b in terms.pairs
            ]
            total = sum(crossed[1:], start=crossed[0]).movedim(-1, 0)
            values[part] = terms.mean(values[part], total)
        return values


def averages_outside(kernel: Kernel) -> Kernel:
    """Return an equal kernel that is an average itself, if its parts are averages.

    The average of a scaled kernel is the scaled average, and that of a sum is the sum,
    over the same maps. The order of the hyperparameters stays.
    """
    if type(kernel) is Scale:
        inner: Any = averages_outside(kernel.kernel)
        if type(inner) in AVERAGES:
            scaled = Scale(inner.kernel, kernel.factor, kernel.factor_bounds)
            return _of(inner, scaled)
    if type(kernel) is Sum:
        terms: list[Any] = [averages_outside(term) for term in kernel.parts]
        first = terms[0]
        if type(first) in AVERAGES and all(_are_alike(first, one) for one in terms):
            return _of(first, Sum(*(term.kernel for term in terms)))
    return kernel


def _of(average: Any, kernel: Kernel) -> Kernel:
    """Return the same average of another kernel."""
    made: Kernel = replace(average, kernel=kernel)
    return made


def _are_alike(one: Any, two: Any) -> bool:
    """Return whether averages are over the same maps."""
    return type(one) is type(two) and bool(_of(one, two.kernel) == two)
