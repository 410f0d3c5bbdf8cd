"""Posterior: means and variances, given values that a basis gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, Self

from torch import Generator, Tensor

from skconvgp._typing import FloatArray
from skconvgp.processes._facts import Fact
from skconvgp.processes._model import Model
from skconvgp.processes._run import Resources, Run
from skconvgp.processes.basis._basis import Basis


@dataclass(frozen=True)
class Spread:
    """Posterior variances of b new samples, as shares of the mean prior variance."""

    var: Tensor  # (b, 1) if all outputs have the same, else (b, k)
    between: Tensor | None = None  # (b, k, k), if outputs of a sample are correlated
    # How far below zero rounding had taken a variance, and what features explain beyond
    # the prior variance: of no dimension.
    clipped: Tensor | None = None
    excess: Tensor | None = None


@dataclass(frozen=True)
class Draws:
    """Which draws of functions are wanted."""

    count: int
    generator: Generator
    n_features: int = 0  # random ones, of which a draw from the prior is a sum
    is_bootstrap: bool = False  # coefficients of perturbed targets


class Posterior(Protocol):
    """The posterior that follows from the data.

    It is a frozen dataclass of arrays. Means are the values that a basis gives (b, m)
    times `dual`; variances need the state, on the device of a computation.
    """

    @property
    def dual(self) -> FloatArray:
        """Dual coefficients (m, n_outputs)."""
        ...

    @property
    def state(self) -> Any:
        """Factors for variances: arrays, or a dataclass of them."""
        ...

    @property
    def is_accurate(self) -> bool:
        """Whether left-out predictions are exact enough to be used."""
        ...

    @property
    def n_covariances(self) -> int:
        """Number of different covariances between samples: functions, or 1."""
        ...

    @property
    def width(self) -> int:
        """Numbers held for each new sample, if these are more than its values; or 0."""
        ...

    def at(self, basis: Basis, run: Run) -> Self:
        """Return the posterior with its state on the device of a run."""
        ...

    def reads_variances(self, basis: Basis, *, needs_var: bool) -> bool:
        """Return whether prior variances of new samples are read."""
        ...

    def spread(self, values: Tensor, prior: Tensor) -> Spread:
        """Return variances, given values (b, m) and prior variances (b,) in a unit."""
        ...

    def part(self, values: Tensor, prior: Tensor) -> tuple[Any, Tensor | None]:
        """Return the values of a block for a joint covariance, and `Spread.excess`."""
        ...

    def joint(self, parts: list[Any], prior: Tensor) -> Tensor:
        """Return covariances (n, n, 1 or k), given prior covariances in a unit."""
        ...

    def facts(self) -> list[Fact]:
        """Return facts that hold for any prediction."""
        ...

    @property
    def draws_coefficients(self) -> bool:
        """Whether draws of functions are draws of coefficients of features."""
        ...

    def has_whole_draws(self, basis: Basis) -> bool:
        """Return whether draws of functions have all of the posterior variance."""
        ...

    def draws(
        self,
        model: Model,
        basis: Basis,
        rows: Any,
        wanted: Draws,
        resources: Resources,
    ) -> tuple[FloatArray, list[Fact]]:
        """Return draws (n, k, count) of functions at rows (n, d), and their facts."""
        ...
