"""The seams between floors, and the values that cross them."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, runtime_checkable

from torch import Generator, Tensor

from skconvgp._typing import FloatArray, Prepared

__all__ = [
    "Batch",
    "Coarsening",
    "CompletedGram",
    "Completion",
    "Found",
    "GramOperator",
    "GramOracle",
    "Landscape",
    "Likelihood",
    "Localization",
    "Objective",
    "Optimizer",
    "PullbackBackend",
    "Pulled",
    "Score",
    "Selection",
    "Solution",
    "Solver",
    "Step",
    "Targets",
    "TileBackend",
    "TileCosts",
    "TileRunner",
    "run_serially",
]

State = TypeVar("State")
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


class GramOperator(Protocol):
    """A symmetric matrix as solvers see it."""

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        ...

    def dense(self) -> Tensor:
        """Return the matrix (n, n)."""
        ...


class GramOracle(Protocol):
    """Entries of a Gram matrix on demand: implemented by engine, used by completion.

    Capability ``points() -> Tensor``: the samples (n, d), for strategies that look at
    distances between them.
    """

    @property
    def n_samples(self) -> int:
        """Number of samples n."""
        ...

    def diag(self) -> Tensor:
        """Return the prior variances (n,)."""
        ...

    def block(self, rows: Tensor | None, cols: Tensor | None) -> Tensor:
        """Return the covariances (n1, n2) of samples given by number; None is all."""
        ...


@dataclass(frozen=True)
class CompletedGram:
    """A Gram matrix made from some of its entries, as a product F F^T.

    Parameters
    ----------
    factor : Tensor of shape (n, r)
        F: the completed matrix is F F^T, symmetric and positive semi-definite.
    anchors : Tensor of shape (m,)
        Samples with which new ones are compared, by number.
    lift_map : Tensor of shape (m, r)
        Takes covariances of new samples with the anchors to their rows of F.
    n_evaluated : int
        Distinct entries of the matrix that were evaluated, its diagonal included.
    error : float
        Root mean square error on held-out entries, in units of the kernel; NaN where
        none were held out.
    relative_rmse : float
        The same as a share of the range of these entries.
    converged : bool
        Whether the method met its tolerance.
    stats : dict
        What happened: iterations, rank.
    """

    factor: Tensor
    anchors: Tensor
    lift_map: Tensor
    n_evaluated: int
    error: float = math.nan
    relative_rmse: float = math.nan
    converged: bool = True
    stats: dict[str, float] = field(default_factory=dict)

    def lift(self, cross: Tensor) -> Tensor:
        """Return the rows of F (n1, r) of new samples from K(X_*, anchors) (n1, m)."""
        return cross @ self.lift_map


@runtime_checkable
class Completion(Protocol):
    """Fills a Gram matrix from some of its entries."""

    def complete(
        self, oracle: GramOracle, observed_fraction: float, generator: Generator
    ) -> CompletedGram:
        """Evaluate a share of the n (n + 1) / 2 distinct entries, fill in the rest."""
        ...

    def n_values(self, n: int, observed_fraction: float) -> int:
        """Return how many numbers `complete` holds at once for n samples."""
        ...


@runtime_checkable
class Selection(Protocol):
    """Leaves the Gram matrix of some of the samples in the place of all."""

    def count(self, n: int, observed_fraction: float) -> int:
        """Return how many of n samples are selected."""
        ...

    def select(
        self, oracle: GramOracle, observed_fraction: float, generator: Generator
    ) -> Tensor:
        """Return the numbers (m,) of different samples."""
        ...


@runtime_checkable
class Coarsening(Protocol):
    """Leaves the Gram matrix of a cheaper kernel in the place of the kernel's own."""

    @property
    def pool(self) -> int:
        """Side of the squares of pixels that are averaged."""
        ...

    def coarsen(self, kernel: Any) -> Any:
        """Return the kernel of smaller images."""
        ...


@runtime_checkable
class Localization(Protocol):
    """Predicts each sample from the few that are most similar to it."""

    def count(self, n: int) -> int:
        """Return from how many of n samples each one is predicted."""
        ...

    def similarities(self, new: Tensor, points: Tensor) -> Tensor:
        """Return how similar (n1, n) new points (n1, d) are to others (n, d).

        Only the order in a row matters; no kernel is evaluated.
        """
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


@dataclass(frozen=True)
class Score:
    """Value of an objective on the Gram matrix of a batch, and its derivatives.

    Parameters
    ----------
    value : float
        The value; smaller is better.
    by_gram : Tensor of shape (n, n)
        Its derivatives by the entries of the Gram matrix, symmetric.
    by_noise : float
        Its derivative by the logarithm of the relative noise variance.

    Examples
    --------
    >>> import torch
    >>> from skconvgp.flows import Rho
    >>> score = Rho().score(torch.eye(4, dtype=torch.float64), torch.ones(4, 1))
    >>> round(score.value, 6)
    0.5
    """

    value: float
    by_gram: Tensor
    by_noise: float = 0.0


@runtime_checkable
class Objective(Protocol):
    """Judges a kernel by its Gram matrix of a batch, whose sample comes first.

    Capability ``noise_variance_bounds``: a pair (low, high) if `noise_variance` is
    learned with the kernel.
    """

    @property
    def noise_variance(self) -> Any:
        """Noise variance, as a share of the mean prior variance of the batch."""
        ...

    def count(self, n: int) -> int:
        """Return the size of the sample in a batch of n, >= 1 and < n."""
        ...

    def score(
        self, gram: Tensor, targets: Tensor, noise_variance: float | None = None
    ) -> Score:
        """Return the value for a matrix (n, n) and targets (n, k), with derivatives.

        A noise variance, if given, stands in the place of the own one.
        """
        ...


@dataclass(frozen=True)
class Batch:
    """Some of the training samples.

    Parameters
    ----------
    numbers : Tensor of shape (b,)
        Samples by number; those of the sample within the batch come first.
    """

    numbers: Tensor

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.numbers)


@dataclass(frozen=True)
class Step:
    """What an optimiser says after a step.

    Parameters
    ----------
    index, total : int
        Number of the step, from 0, and how many there will be.
    theta : ndarray of shape (p,)
        Where it is.
    value : float
        Value there, on the batch of the step; NaN where it is undefined.

    Examples
    --------
    >>> import numpy as np
    >>> from skconvgp.flows import Step
    >>> Step(index=0, total=200, theta=np.zeros(2), value=0.5).total
    200
    """

    index: int
    total: int
    theta: FloatArray
    value: float


class Landscape(Protocol):
    """What an optimiser minimises: implemented by flows, made by the estimators.

    Values of different batches differ; the fixed ones are the same for each theta.
    """

    @property
    def start(self) -> FloatArray:
        """Where to begin, logarithms (p,), within the bounds."""
        ...

    @property
    def bounds(self) -> FloatArray:
        """Smallest and largest logarithms (p, 2)."""
        ...

    @property
    def fixed(self) -> tuple[Batch, ...]:
        """The batches of the evaluation set."""
        ...

    @property
    def worst(self) -> float:
        """What stands in the place of an undefined value, if there is no other."""
        ...

    @property
    def n_evaluations(self) -> int:
        """Gram matrices of a batch evaluated so far, with derivatives or without."""
        ...

    @property
    def n_derivatives(self) -> int:
        """How many of them with derivatives."""
        ...

    def draw(self, progress: float) -> Batch:
        """Return a fresh batch; its size may grow with the progress, from 0 to 1."""
        ...

    def value(self, theta: FloatArray, batches: tuple[Batch, ...]) -> float:
        """Return the mean value over batches; NaN where it is undefined."""
        ...

    def gradient(
        self, theta: FloatArray, batches: tuple[Batch, ...], method: str = "exact"
    ) -> tuple[float, FloatArray]:
        """Return the mean value over batches and its derivatives (p,).

        The method is "exact", by tiles, or "autograd", through a stored graph.
        """
        ...

    def report(self, step: Step) -> bool:
        """Keep a step in the trace; return whether to stop."""
        ...


@dataclass(frozen=True)
class Found:
    """Where an optimiser ended.

    Parameters
    ----------
    theta : ndarray of shape (p,)
        The best of the places whose mean value over the fixed batches it looked at;
        the start if nothing was better.
    message : str
        Why it stopped.
    n_restarts : int
        How often it began again from another place.
    stats : dict
        What else happened.

    Examples
    --------
    >>> import numpy as np
    >>> from skconvgp.flows import Found
    >>> Found(np.zeros(2), "all steps done").n_restarts
    0
    """

    theta: FloatArray
    message: str
    n_restarts: int = 0
    stats: dict[str, float] = field(default_factory=dict)


@runtime_checkable
class Optimizer(Protocol):
    """Looks for the theta with the smallest mean value over the fixed batches."""

    def minimize(self, landscape: Landscape, generator: Generator) -> Found:
        """Return where the value is small; nowhere is it larger than at the start."""
        ...


def run_serially(jobs: Iterable[Callable[[], Result]]) -> Iterator[Result]:
    """Run jobs one after the other: the default :class:`TileRunner`."""
    for job in jobs:
        yield job()
