"""The seams between floors, and the values that cross them."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, TypeVar, runtime_checkable

from torch import Tensor

from skconvgp._typing import ImageShape, Prepared

__all__ = [
    "GramOperator",
    "Likelihood",
    "Solution",
    "Solver",
    "Targets",
    "TileBackend",
    "TileRunner",
    "run_serially",
]

State = TypeVar("State")
Result = TypeVar("Result")


class TileBackend(Protocol):
    """How tiles of one kernel are computed: implemented by backends, used by engine.

    ``prepare`` is called once for each image, ``cross`` once for each tile.
    """

    def prepare(self, images: Tensor) -> Prepared:
        """Compute what depends on one image alone, for images (n, c, h, w)."""
        ...

    def cross(self, one: Prepared, two: Prepared) -> Tensor:
        """Return the covariances (n1, n2) of a tile, or (n1, n2, q) with tangents."""
        ...

    def diag(self, one: Prepared) -> Tensor:
        """Return the prior variances (n,), or (n, q) with tangents."""
        ...

    def map_values(self, image_shape: ImageShape) -> int:
        """Return how many numbers the largest map of one pair has."""
        ...


class TileRunner(Protocol):
    """Runs independent jobs, in any order and place; serial by default."""

    def __call__(self, jobs: Iterable[Callable[[], Result]]) -> Iterator[Result]:
        """Yield the results of the jobs, in any order."""
        ...


class GramOperator(Protocol):
    """A symmetric matrix as solvers see it."""

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        ...

    def dense(self) -> Tensor:
        """Return the matrix (n, n)."""
        ...


@dataclass(frozen=True)
class Solution:
    """Result of a solve.

    Parameters
    ----------
    value : Tensor of shape (n, k)
        The solution, converged or not.
    converged : bool
        Whether the tolerance was met.
    stats : dict
        What happened: iterations, residual.

    Examples
    --------
    >>> import torch
    >>> from skconvgp.solvers import Solution
    >>> Solution(torch.zeros(3, 1)).converged
    True
    """

    value: Tensor
    converged: bool = True
    stats: dict[str, float] = field(default_factory=dict)


@runtime_checkable
class Solver(Protocol[State]):
    """Solves (gram + diag(noise)) x = rhs: factored once, solved many times.

    `init` returns a frozen dataclass of tensors and numbers with an attribute
    `jitter`; it is all that a fitted model keeps of the training matrix.
    """

    def init(self, gram: GramOperator, noise: Tensor) -> State:
        """Factor the matrix; `noise` (n,) is added to its diagonal."""
        ...

    def solve(self, state: State, rhs: Tensor) -> Solution:
        """Solve for right-hand sides (n, k)."""
        ...

    def half_solve(self, state: State, rhs: Tensor) -> Tensor:
        """Return R (n, k) with R^T R = rhs^T M^-1 rhs."""
        ...

    def logdet(self, state: State) -> Tensor:
        """Return log |M|."""
        ...

    def inverse_diag(self, state: State) -> Tensor:
        """Return the diagonal (n,) of M^-1."""
        ...


@dataclass(frozen=True)
class Targets:
    """What a likelihood asks the latent regression to fit.

    Parameters
    ----------
    values : Tensor of shape (n, k)
        Regression targets, one column for each class.
    offset : Tensor of shape (k,)
        Prior mean of each latent function.

    Examples
    --------
    >>> import torch
    >>> from skconvgp.likelihoods import Targets
    >>> Targets(values=torch.eye(3), offset=torch.zeros(3)).offset
    tensor([0., 0., 0.])
    """

    values: Tensor
    offset: Tensor


@runtime_checkable
class Likelihood(Protocol):
    """Pure functions of labels and latents; no linear algebra.

    Capability ``temperature(loo_mean, codes, weights) -> float``: fits a divisor of
    the latents on leave-one-out values (n, k).
    """

    def targets(self, codes: Tensor, n_classes: int) -> Targets:
        """Turn class codes (n,) into regression targets."""
        ...

    def probabilities(self, mean: Tensor, var: Tensor) -> Tensor:
        """Turn latent means and variances (n, k) into probabilities (n, k)."""
        ...

    @property
    def needs_variance(self) -> bool:
        """Whether `probabilities` reads the variance; if not, it may be empty."""
        ...


def run_serially(jobs: Iterable[Callable[[], Result]]) -> Iterator[Result]:
    """Run jobs one after the other: the default :class:`TileRunner`."""
    for job in jobs:
        yield job()
