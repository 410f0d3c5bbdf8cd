"""Facts about a result, which the estimators turn into warnings."""

from dataclasses import dataclass
from typing import Any, TypeAlias

import torch


@dataclass(frozen=True)
class Jittered:
    """A diagonal was raised by more than the noise of a sample."""

    # Jitter and the smallest noise of a sample, both in units of the matrix.
    jitter: float
    least_noise: float
    # Precision of the covariances; None for a given matrix.
    tile_dtype: torch.dtype | None
    solve_dtype: torch.dtype  # precision of the factor


@dataclass(frozen=True)
class Unsolved:
    """A solver ended before its tolerance."""

    solver: Any
    stats: dict[str, float]  # figures of the solver, such as iterations and residual
    solve_dtype: torch.dtype  # precision of the system


@dataclass(frozen=True)
class Inexact:
    """Deviations and left-out values come from a solver that had not converged."""

    solver: Any


@dataclass(frozen=True)
class Unexplained:
    """A completion explains little of the entries that were held out."""

    completion: Any
    share: float  # explained share of their variance


@dataclass(frozen=True)
class Unfinished:
    """A completion ended before its tolerance."""

    completion: Any
    stats: dict[str, float]  # figures of the completion, such as iterations


@dataclass(frozen=True)
class NewtonStopped:
    """Newton's method ended before its tolerance."""

    likelihood: Any  # it looked for the mode of this one


@dataclass(frozen=True)
class TooFewPatches:
    """Inducing patches explain little of the prior variance; the rest is ignored."""

    share: float  # share of the mean prior variance that they explain


@dataclass(frozen=True)
class Undrawn:
    """Draws of coefficients lack the variance that the features lack."""

    share: float  # share of the posterior variance at the samples


@dataclass(frozen=True)
class BoundMoving:
    """The steps of variational inference ended while the bound still changed."""

    # Change of the bound in the last epoch, for each unit of sample weight.
    change: float
    n_epochs: int


@dataclass(frozen=True)
class Clipped:
    """Variances below zero were set to zero."""

    share: float  # the largest, of the prior variance


@dataclass(frozen=True)
class Exceeded:
    """Features explain more than the prior variance of a sample."""

    share: float  # the largest excess, as a share of the mean prior variance


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


def jitter_facts(jitter: float, least_noise: float, basis: Any, run: Any) -> list[Fact]:
    """Return a fact if jitter exceeds the least noise, as it then changes the model."""
    if jitter <= least_noise:
        return []
    solve_dtype = run.config.solve_dtype
    return [Jittered(jitter, least_noise, basis.tile_dtype, solve_dtype)]
