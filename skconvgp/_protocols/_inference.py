"""Seams of inference: solvers and likelihoods."""

from dataclasses import dataclass, field
from typing import Protocol, TypeVar, runtime_checkable

from torch import Tensor

from skconvgp._protocols._matrices import GramOperator

__all__ = [
    "Likelihood",
    "Solution",
    "Solver",
    "Targets",
]

State = TypeVar("State")


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

    `init` returns a frozen dataclass of tensors, numbers and such dataclasses, with an
    attribute `jitter`; it is all that a fitted model keeps of the training matrix.
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
