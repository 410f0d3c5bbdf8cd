"""Tiles of sums and multiples of kernels, from the tiles of their terms."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce

import torch
from torch import Tensor

from skconvgp._protocols import TileBackend, TileCosts
from skconvgp._typing import Prepared

__all__ = ["ScaledTangents", "SumBackend"]

LIVE_RESULTS = 2  # of a pair: the sum, and a term


@dataclass(frozen=True)
class SumBackend:
    """Tiles of a sum, tangents included.

    With tangents the value is followed by the derivatives of all terms, one term after
    the other.
    """

    terms: tuple[TileBackend, ...]  # all of them with tangents, or all without

    def measure(self, image: Tensor) -> TileCosts:
        """Return the bytes that images like this one (1, c, h, w) need."""
        costs = [term.measure(image) for term in self.terms]
        first = costs[0]
        a_value = first.value_bytes // math.prod(first.value_shape)
        n_tangents = sum(math.prod(one.value_shape) - 1 for one in costs)
        value_bytes = (1 + n_tangents) * a_value
        most = max(one.pair_bytes for one in costs)
        return TileCosts(
            image_bytes=sum(one.image_bytes for one in costs),
            pair_bytes=most + LIVE_RESULTS * value_bytes,
            value_bytes=value_bytes,
            value_shape=(1 + n_tangents,) if first.value_shape else (),
            worker_bytes=max(one.worker_bytes for one in costs),
            n_passes=sum(one.n_passes for one in costs),
        )

    def prepare(self, images: Tensor) -> Prepared:
        """Prepare images (n, c, h, w) for each term."""
        return tuple(term.prepare(images) for term in self.terms)

    def cross(self, one: Prepared, two: Prepared) -> Tensor:
        """Return the covariances (n1, n2) of a tile, or (n1, n2, q) with tangents."""
        sides = zip(self.terms, _of_terms(one), _of_terms(two), strict=True)
        return _added([term.cross(first, second) for term, first, second in sides], 2)

    def gram(self, one: Prepared) -> Tensor:
        """Return the covariances of a diagonal tile; those below are undefined."""
        return self._each(one, lambda term, side: term.gram(side), 2)

    def diag(self, one: Prepared) -> Tensor:
        """Return the prior variances (n,), or (n, q) with tangents."""
        return self._each(one, lambda term, side: term.diag(side), 1)

    def _each(
        self,
        one: Prepared,
        compute: Callable[[TileBackend, Prepared], Tensor],
        n_axes: int,
    ) -> Tensor:
        sides = zip(self.terms, _of_terms(one), strict=True)
        return _added([compute(term, side) for term, side in sides], n_axes)


@dataclass(frozen=True)
class ScaledTangents:
    """Tiles of a multiple of a kernel with tangents; the last is by the factor."""

    backend: TileBackend  # computes the kernel with tangents
    factor: float
    is_free: bool  # whether the derivative by the logarithm of the factor is wanted

    def measure(self, image: Tensor) -> TileCosts:
        """Return the bytes that images like this one (1, c, h, w) need."""
        costs = self.backend.measure(image)
        (columns,) = costs.value_shape
        wider = columns + self.is_free
        value_bytes = costs.value_bytes // columns * wider
        return replace(
            costs,
            pair_bytes=costs.pair_bytes + LIVE_RESULTS * value_bytes,
            value_bytes=value_bytes,
            value_shape=(wider,),
        )

    def prepare(self, images: Tensor) -> Prepared:
        """Prepare images (n, c, h, w) for the kernel."""
        return self.backend.prepare(images)

    def cross(self, one: Prepared, two: Prepared) -> Tensor:
        """Return the covariances and derivatives (n1, n2, q) of a tile."""
        return self._scaled(self.backend.cross(one, two))

    def gram(self, one: Prepared) -> Tensor:
        """Return the covariances of a diagonal tile; the lower half is undefined."""
        return self._scaled(self.backend.gram(one))

    def diag(self, one: Prepared) -> Tensor:
        """Return the prior variances and derivatives (n, q)."""
        return self._scaled(self.backend.diag(one))

    def _scaled(self, values: Tensor) -> Tensor:
        scaled = values * self.factor
        by_factor = scaled[..., :1]
        return torch.cat([scaled, by_factor], dim=-1) if self.is_free else scaled


def _added(values: list[Tensor], n_axes: int) -> Tensor:
    """Add values with so many axes; one more has tangents, which are joined."""
    if values[0].ndim == n_axes:
        return reduce(torch.add, values)
    total = reduce(torch.add, [value[..., :1] for value in values])
    return torch.cat([total, *(value[..., 1:] for value in values)], dim=-1)


def _of_terms(prepared: Prepared) -> tuple[Prepared, ...]:
    assert isinstance(prepared, tuple)
    return prepared
