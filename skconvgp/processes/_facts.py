"""Facts about a result, which the estimators turn into warnings."""

from dataclasses import dataclass
from typing import Any, TypeAlias

import torch


@dataclass(frozen=True)
class Jittered:
    """A diagonal was raised by more than the noise of a sample.

    Parameters
    ----------
    jitter, least_noise : float
        Jitter and the smallest noise of a sample, both in units of the matrix.
    tile_dtype : torch.dtype or None
        Precision of the covariances; None for a given matrix.
    solve_dtype : torch.dtype
        Precision of the factor.
    """

    jitter: float
    least_noise: float
    tile_dtype: torch.dtype | None
    solve_dtype: torch.dtype


@dataclass(frozen=True)
class Unsolved:
    """A solver ended before its tolerance.

    Parameters
    ----------
    solver : object
        The solver.
    stats : dict
        Figures of the solver, such as iterations and residual.
    solve_dtype : torch.dtype
        Precision of the system.
    """

    solver: Any
    stats: dict[str, float]
    solve_dtype: torch.dtype


@dataclass(frozen=True)
class Inexact:
    """Deviations and left-out values come from a solver that had not converged.

    Parameters
    ----------
    solver : object
        The solver.
    """

    solver: Any


@dataclass(frozen=True)
class Unexplained:
    """A completion explains little of the entries that were held out.

    Parameters
    ----------
    completion : object
        The strategy.
    share : float
        Explained share of their variance.
    """

    completion: Any
    share: float


@dataclass(frozen=True)
class Unfinished:
    """A completion ended before its tolerance.

    Parameters
    ----------
    completion : object
        The strategy.
    stats : dict
        Figures of the completion, such as iterations.
    """

    completion: Any
    stats: dict[str, float]


@dataclass(frozen=True)
class NewtonStopped:
    """Newton's method ended before its tolerance.

    Parameters
    ----------
    likelihood : object
        The likelihood whose mode it looked for.
    """

    likelihood: Any


@dataclass(frozen=True)
class TooFewPatches:
    """Inducing patches explain little of the prior variance, and the rest is ignored.

    Parameters
    ----------
    share : float
        Share of the mean prior variance that they explain.
    """

    share: float


@dataclass(frozen=True)
class Undrawn:
    """Draws of coefficients lack the variance that the features lack.

    Parameters
    ----------
    share : float
        Share of the posterior variance at the samples.
    """

    share: float


@dataclass(frozen=True)
class BoundMoving:
    """The steps of variational inference ended while the bound still changed.

    Parameters
    ----------
    change : float
        Change of the bound in the last epoch, for each unit of sample weight.
    n_epochs : int
        How many there were.
    """

    change: float
    n_epochs: int


@dataclass(frozen=True)
class Clipped:
    """Variances below zero were set to zero.

    Parameters
    ----------
    share : float
        Size of the largest, as a share of the prior variance.
    """

    share: float


@dataclass(frozen=True)
class Exceeded:
    """Features explain more than the prior variance of a sample.

    Parameters
    ----------
    share : float
        The largest excess, as a share of the mean prior variance.
    """

    share: float


Fact: TypeAlias = (
    Jittered
    | Unsolved
    | Inexact
    | Unexplained
    | Unfinished
    | NewtonStopped
    | TooFewPatches
    | BoundMoving
    | Clipped
    | Exceeded
    | Undrawn
)
