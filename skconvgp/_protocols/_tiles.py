"""Seams of tiles: backends compute them, the engine asks for them."""

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
    """Bytes that a backend needs.

    Parameters
    ----------
    image_bytes : int
        What is kept of one image.
    pair_bytes : int
        What is held for one pair while its tile is computed.
    value_bytes : int
        Result of one pair that outlives its tile; none where tiles are summed up.
    value_shape : tuple of int
        Shape of the result of one pair: () or, with tangents, (1 + p,).
    worker_bytes : int
        Workspace of each worker, however small its tile is.
    """

    image_bytes: int
    pair_bytes: int
    value_bytes: int = 0
    value_shape: tuple[int, ...] = ()
    worker_bytes: int = 0


class TileBackend(Protocol):
    """How tiles of one kernel are computed: implemented by backends, used by engine.

    ``measure`` is called once, ``prepare`` once for each image, ``cross`` once for each
    tile and ``gram`` once for each tile on the diagonal.
    """

    def measure(self, image: Tensor) -> TileCosts:
        """Return the bytes that images like this one (1, c, h, w) need.

        It holds no more than a pair needs.
        """
        ...

    def prepare(self, images: Tensor) -> Prepared:
        """Compute what depends on one image alone, for images (n, c, h, w)."""
        ...

    def cross(self, one: Prepared, two: Prepared) -> Tensor:
        """Return the covariances (n1, n2) of a tile, or (n1, n2, q) with tangents."""
        ...

    def gram(self, one: Prepared) -> Tensor:
        """Return what ``cross(one, one)`` would; only j >= i of (i, j) must be right.

        Half of the work may so be left out; the diagonal comes from ``diag``.
        """
        ...

    def diag(self, one: Prepared) -> Tensor:
        """Return the prior variances (n,), or (n, q) with tangents."""
        ...


@dataclass(frozen=True)
class Pulled:
    """Derivatives of a weighted sum of the covariances of a tile.

    Parameters
    ----------
    by_theta : Tensor of shape (p,)
        By the logarithms of the free hyperparameters.
    by_one, by_two : Tensor of shape (n1, c, h, w) and (n2, c, h, w), or None
        By the images; None where they were not asked for, or where both sides of the
        tile are the same images: `by_one` then holds the derivative by both.
    """

    by_theta: Tensor
    by_one: Tensor | None = None
    by_two: Tensor | None = None


class PullbackBackend(Protocol):
    """How weights of a tile are pulled back: implemented by backends, used by engine.

    ``measure`` is called once, ``pull`` once for each tile.
    """

    def measure(self, image: Tensor) -> TileCosts:
        """Return the bytes held while a tile of images like this (1, c, h, w) is."""
        ...

    def pull(self, one: Tensor, two: Tensor | None, weights: Tensor) -> Pulled:
        """Return derivatives of sum(weights * covariances) of images (n, c, h, w).

        Where `two` is None, both sides are `one`: the sum is then over the upper
        triangle, with the prior variances on the diagonal; weights below are zero.
        """
        ...


class TileRunner(Protocol):
    """Runs independent jobs, in any order and place; serial by default."""

    def __call__(self, jobs: Iterable[Callable[[], Result]]) -> Iterator[Result]:
        """Yield the results of the jobs, in any order."""
        ...


def run_serially(jobs: Iterable[Callable[[], Result]]) -> Iterator[Result]:
    """Run jobs one after the other: the default :class:`TileRunner`."""
    for job in jobs:
        yield job()
