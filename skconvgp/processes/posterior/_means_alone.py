"""MeansAlone: what is left of a posterior if latent means alone are wanted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._typing import FloatArray
from skconvgp.processes._facts import Fact
from skconvgp.processes._model import Model
from skconvgp.processes._process import Labels, LeftOutValues, Process
from skconvgp.processes._run import Resources, Run
from skconvgp.processes.basis._basis import Basis, NewRows
from skconvgp.processes.basis._folded import NOT_KEPT, FoldedBasis
from skconvgp.processes.posterior._posterior import Draws, Spread

TRIED = 16  # images whose means show what single precision costs
# Largest error of a mean by it, in deviations of left-out means over images.
SINGLE_ERROR = 1e-3
UNCERTAINTY = "deviations and covariances"


@dataclass(frozen=True)
class MeansAlone:
    """A posterior without factors: all but means is refused."""

    # Mean left-out variance of an observation, for intervals; None if there are none.
    variance: float | None

    width: ClassVar[int] = 0
    n_covariances: ClassVar[int] = 1
    is_accurate: ClassVar[bool] = True
    draws_coefficients: ClassVar[bool] = False

    @property
    def dual(self) -> FloatArray:
        """There are none."""
        raise AttributeError(NOT_KEPT.format("dual coefficients"))

    @property
    def state(self) -> NoReturn:
        """There is none."""
        raise ValueError(NOT_KEPT.format(UNCERTAINTY))

    def at(self, basis: Basis, run: Run) -> Self:  # noqa: ARG002  (nothing to place)
        """Return it."""
        return self

    def reads_variances(self, basis: Basis, *, needs_var: bool) -> bool:  # noqa: ARG002
        """Return False: there are none."""
        return False

    def spread(self, values: Tensor, prior: Tensor) -> Spread:  # noqa: ARG002
        """Raise a ValueError."""
        raise ValueError(NOT_KEPT.format(UNCERTAINTY))

    def part(self, values: Tensor, prior: Tensor) -> tuple[Any, None]:  # noqa: ARG002
        """Raise a ValueError."""
        raise ValueError(NOT_KEPT.format(UNCERTAINTY))

    def joint(self, parts: list[Any], prior: Tensor) -> Tensor:  # noqa: ARG002
        """Raise a ValueError."""
        raise ValueError(NOT_KEPT.format(UNCERTAINTY))

    def facts(self) -> list[Fact]:
        """Return nothing."""
        return []

    def has_whole_draws(self, basis: Basis) -> bool:  # noqa: ARG002  (whatever it is)
        """Return False: there are no draws."""
        return False

    def draws(
        self,
        model: Model,  # noqa: ARG002  (there are none)
        basis: Basis,  # noqa: ARG002  (there are none)
        rows: NDArray[Any],  # noqa: ARG002  (there are none)
        wanted: Draws,  # noqa: ARG002  (there are none)
        resources: Resources,  # noqa: ARG002  (there are none)
    ) -> tuple[FloatArray, list[Fact]]:
        """Raise a ValueError."""
        raise ValueError(NOT_KEPT.format("draws"))


@dataclass(frozen=True)
class NothingLeftOut:
    """Left-out predictions that are not kept."""

    known_means: ClassVar[None] = None
    keeps_features: ClassVar[bool] = False
    knows_units: ClassVar[bool] = False

    def has_gram(self, process: Process) -> bool:  # noqa: ARG002  (there is no factor)
        """Return False."""
        return False

    def values(
        self,
        process: Process,  # noqa: ARG002  (there are none)
        resources: Resources,  # noqa: ARG002  (there are none)
        *,
        is_subset_enough: bool,  # noqa: ARG002  (there are none)
    ) -> LeftOutValues:
        """Raise a ValueError."""
        raise ValueError(NOT_KEPT.format("left-out predictions"))


def fold(process: Any, rows: NDArray[Any], resources: Resources) -> Any:
    """Return a process with folded weights, if its means are then faster.

    Weights are in single precision if that changes the means of a few of its samples
    (n, d) by little. A process of another kind stays as it is.
    """
    dual = getattr(process, "dual", None)
    if dual is None or process.around is not None:
        return process
    folded: FoldedBasis | None = process.basis.fold(dual)
    if folded is None:
        return process
    few = NewRows(rows[:: max(1, len(rows) // TRIED)][:TRIED])
    single = folded.in_single()
    exact = folded.means(few, resources, is_quiet=True)
    errors = np.abs(single.means(few, resources, is_quiet=True) - exact).max(0)
    known = process.left_out.known_means
    spread = _deviation(exact if known is None else known)
    is_near = bool((errors <= SINGLE_ERROR * spread).all())
    return replace(process, folded=single if is_near else folded)


def for_prediction(process: Any, variance: float | None) -> Process:
    """Return what is left of a process of folded weights, without its samples.

    `variance` is the mean left-out variance of an observation, if it is needed.
    """
    model, labels, none = process.model, process.labels, np.empty(0)
    basis = process.folded.alone()
    return Process(
        replace(
            model,
            targets=model.targets[:0],
            weights=none,
            left_out_weights=none,
            class_left_out=none,
            n_groups=0,
            class_factors=None,
        ),
        basis,
        MeansAlone(variance),
        NothingLeftOut(),
        None if labels is None else Labels(labels.likelihood, labels.offset),
        unexplained=process.unexplained,
        has_one_latent=process.has_one_latent,
        folded=basis,
    )


def _deviation(means: FloatArray) -> FloatArray:
    """Return the deviation (k,) of means (n, k) that are known over samples."""
    known = means[np.isfinite(means).all(1)]
    return known.std(0) if len(known) else np.zeros(means.shape[1])
