"""Seams of learning a kernel: objectives, landscapes and optimisers."""

from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from torch import Generator, Tensor

from skconvgp._typing import FloatArray

__all__ = [
    "Batch",
    "Landscape",
    "Objective",
    "Optimizer",
    "OptimizerResult",
    "Score",
    "Step",
]


@dataclass(frozen=True)
class Score:
    """Value of an objective on the Gram matrix of a batch, and its derivatives.

    Parameters
    ----------
    value : float
        The value; smaller is better.
    by_gram : Tensor of shape (n, n)
        Its derivatives by the entries of the Gram matrix, symmetric.
    by_parameter : float
        Its derivative by the logarithm of the parameter that the objective learns with
        the kernel: the relative noise variance.

    Examples
    --------
    >>> import torch
    >>> from skconvgp.flows import Rho
    >>> score = Rho("ratio").score(torch.eye(4, dtype=torch.float64), torch.ones(4, 1))
    >>> round(score.value, 6)
    0.5
    """

    value: float
    by_gram: Tensor
    by_parameter: float = 0.0


@runtime_checkable
class Objective(Protocol):
    """Scores a kernel by its Gram matrix of a batch.

    The inner sample of a batch comes first; Kernel Flows compare the interpolant of the
    batch with that of its inner sample.

    Optional attribute ``noise_variance_bounds``: a pair (low, high) if `noise_variance`
    is learned together with the kernel.
    """

    @property
    def noise_variance(self) -> Any:
        """Noise variance, as a share of the mean prior variance of the batch."""
        ...

    def count(self, n: int) -> int:
        """Return the size of the inner sample of a batch of n, >= 1 and < n."""
        ...

    def score(
        self, gram: Tensor, targets: Tensor, noise_variance: float | None = None, /
    ) -> Score:
        """Return the value for a matrix (n, n) and targets (n, k), with derivatives.

        A noise variance, if given, replaces the one of the objective.
        """
        ...


@dataclass(frozen=True)
class Batch:
    """A batch of the training samples."""

    indices: Tensor  # (b,), of the samples; those of the inner sample come first

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.indices)


@dataclass(frozen=True)
class Step:
    """Report of an optimiser after a step.

    Parameters
    ----------
    index, total : int
        Index of the step, from 0, and the largest number of steps.
    theta : ndarray of shape (p,)
        Logarithms of the hyperparameters at this step.
    value : float
        Their value on the batch of the step; NaN if it is undefined.

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
    """The function that an optimiser minimises: implemented by flows.

    Values differ from batch to batch; the fixed batches are the same for each theta.
    """

    @property
    def start(self) -> FloatArray:
        """Logarithms (p,), within the bounds, from which a search begins."""
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
        """Value that replaces an undefined one as long as none has been defined."""
        ...

    @property
    def n_evaluations(self) -> int:
        """Gram matrices of a batch evaluated so far, with derivatives or without."""
        ...

    @property
    def n_derivatives(self) -> int:
        """Number of these that were evaluated with derivatives."""
        ...

    def draw(self, progress: float) -> Batch:
        """Return a fresh batch; its size may depend on the progress, from 0 to 1."""
        ...

    def value(self, theta: FloatArray, batches: tuple[Batch, ...]) -> float:
        """Return the mean value over batches; NaN if it is undefined."""
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
class OptimizerResult:
    """Result of an optimiser.

    Parameters
    ----------
    theta : ndarray of shape (p,)
        The best of all theta that the optimiser evaluated on the fixed batches; the
        start if none was better.
    message : str
        Why it stopped.
    n_restarts : int
        How often it began again from another theta.
    stats : dict
        Further numbers, such as those of steps and of undefined values.

    Examples
    --------
    >>> import numpy as np
    >>> from skconvgp.flows import OptimizerResult
    >>> OptimizerResult(np.zeros(2), "all steps done").n_restarts
    0
    """

    theta: FloatArray
    message: str
    n_restarts: int = 0
    stats: dict[str, float] = field(default_factory=dict)


@runtime_checkable
class Optimizer(Protocol):
    """Looks for the theta with the smallest mean value over the fixed batches."""

    def minimize(self, landscape: Landscape, generator: Generator) -> OptimizerResult:
        """Return a theta with a small value, never above the value at the start."""
        ...
