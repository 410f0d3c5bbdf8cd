"""Protocols of tiles, blocks of a Gram matrix: backends compute, the engine asks."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

from torch import Tensor

from skconvgp._typing import Prepared

__all__ = [
    "PullbackBackend",
    "Pulled",
    "TileBackend",
    "TileCosts",
    "TileRunner",
    "run_serially",
]

Result = TypeVar("Result")


@dataclass(frozen=True)
class TileCosts:
    """Bytes that a backend needs."""

    image_bytes: int  # held for each image by the result of `prepare`
    pair_bytes: int  # held for each pair of images while its tile is computed
    # Result of a pair that outlives its tile; 0 if tiles are summed up.
    value_bytes: int = 0
    # Shape of the result of one pair: () or, with tangents, (1 + p,).
    value_shape: tuple[int, ...] = ()
    worker_bytes: int = 0  # workspace of each worker, whatever the size of its tile
    # How often the maps of a pair are computed one after another: for each layer, and
    # for each displacement in front of a pool.
    n_passes: int = 1


class TileBackend(Protocol):
    """Computes tiles of one kernel: implemented by backends, used by the engine.

    ``measure`` is called once, ``prepare`` once for each image, ``cross`` once for each
    tile and ``gram`` once for each tile on the diagonal.
    """

    def measure(self, image: Tensor) -> TileCosts:
        """Return the bytes that images like this one (1, c, h, w) need.

        To find out, it holds at most the bytes of one pair.
        """
        ...

    def prepare(self, images: Tensor) -> Prepared:
        """Compute the quantities of single images (n, c, h, w) that all tiles share."""
        ...

    def cross(self, one: Prepared, two: Prepared) -> Tensor:
        """Return the covariances (n1, n2) of a tile, or (n1, n2, q) with tangents."""
        ...

    def gram(self, one: Prepared) -> Tensor:
        """Return ``cross(one, one)``, of which only the upper triangle must be right.

        A backend can so skip half of the pairs. The engine takes the diagonal from
        ``diag``.
        """
        ...

    def diag(self, one: Prepared) -> Tensor:
        """Return the prior variances (n,), or (n, q) with tangents."""
        ...


@dataclass(frozen=True)
class Pulled:
    """Derivatives of a weighted sum of the covariances of a tile."""

    by_theta: Tensor  # (p,), by the logarithms of the free hyperparameters
    # Derivatives (n1, c, h, w) and (n2, c, h, w) by the images; None if not requested.
    # `by_two` is also None if both sides of the tile are the same images: `by_one` then
    # holds the derivative by both.
    by_one: Tensor | None = None
    by_two: Tensor | None = None


class PullbackBackend(Protocol):
    """Differentiates weighted sums of tiles: implemented by backends, used by engine.

    ``measure`` is called once, ``pull`` once for each tile.
    """

    def measure(self, image: Tensor) -> TileCosts:
        """Return the bytes to differentiate a tile of images like this (1, c, h, w)."""
        ...

    def pull(self, one: Tensor, two: Tensor | None, weights: Tensor) -> Pulled:
        """Return derivatives of sum(weights * covariances) of images (n, c, h, w).

        If `two` is None, both sides are `one`. The sum is then over the upper triangle
        and has the prior variances on the diagonal; weights below the diagonal are
        zero.
        """
        ...


class TileRunner(Protocol):
    """Runs independent jobs, in any order, thread or process; serial by default."""

    def __call__(self, jobs: Iterable[Callable[[], Result]]) -> Iterator[Result]:
        """Yield the results of the jobs, in any order."""
        ...


def run_serially(jobs: Iterable[Callable[[], Result]]) -> Iterator[Result]:
    """Run jobs one after the other: the default :class:`TileRunner`."""
    for job in jobs:
        yield job()
