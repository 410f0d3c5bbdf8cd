"""How each kind of process is fitted at a place, once it is planned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skconvgp._protocols import (
    Coarsening,
    Completion,
    Localization,
    Selection,
    Solver,
)
from skconvgp.engine import to_numpy, to_tensor
from skconvgp.inference import mean_variance
from skconvgp.processes._exact import ExactProcess, fit_exact
from skconvgp.processes._features import (
    FeatureProcess,
    complete,
    fit_features,
    sample_oracle,
)
from skconvgp.processes._label_models import LabelModel
from skconvgp.processes._labels import LabelProcess, fit_labels_of
from skconvgp.processes._neighbors import NeighborProcess, fit_neighbors
from skconvgp.processes._prior import (
    KernelPrior,
    MatrixPrior,
    PlainPrior,
    Prior,
    SummedPrior,
)
from skconvgp.processes._problem import Problem, Record, Settings, entries
from skconvgp.processes._routes import Route
from skconvgp.processes._run import Resources, Run, clock
from skconvgp.solvers import Cholesky

__all__ = [
    "DenseFit",
    "Fit",
    "Fitted",
    "Parts",
    "Process",
    "fit_all",
    "fit_completed",
    "fit_landmarks",
    "fit_local",
    "fit_models",
    "fit_selected",
    "fit_sum",
    "fit_whole",
]

Process: TypeAlias = ExactProcess | FeatureProcess | NeighborProcess | LabelProcess
Strategy: TypeAlias = Completion | Selection | Coarsening | Localization | None


class Fit(Protocol):
    """Fits a process at a place."""

    def __call__(self, problem: Problem, prior: Prior, run: Run, /) -> Fitted:
        """Return the process."""
        ...


class DenseFit(Protocol):
    """Fits a process by a whole Gram matrix."""

    def __call__(
        self,
        problem: Problem,
        prior: Prior,
        run: Run,
        /,
        *,
        gram_seconds: float = 0.0,
        least_noise: float = 0.0,
    ) -> tuple[ExactProcess | LabelProcess, Record]:
        """Return the process, and what the fit did."""
        ...


@dataclass(frozen=True)
class Parts:
    """What a process is made of.

    Parameters
    ----------
    solver : Solver
        Solves with a Gram matrix.
    solver_setting : object
        How it was asked for, for messages.
    completion : object or None
        What completes or replaces the Gram matrix.
    fraction : float
        Share of its distinct entries that may be evaluated.
    models_of : callable
        Returns what may be fitted to the labels of a problem if they have a noise of
        their own; nothing if targets share one.
    keeps_left_out : bool
        Whether leave-one-out values are used after the fit.
    """

    solver: Solver[Any]
    solver_setting: object
    completion: Strategy
    fraction: float
    models_of: Callable[[Problem], list[LabelModel]]
    keeps_left_out: bool

    @property
    def is_auto(self) -> bool:
        """Whether an iterative solver may take the place of the direct one."""
        return isinstance(self.solver_setting, str) and self.solver_setting == "auto"

    @property
    def is_direct(self) -> bool:
        """Whether the solver stands for factors of whatever the process has."""
        return type(self.solver) is Cholesky


@dataclass(frozen=True)
class Fitted:
    """A fitted process, and how it came about.

    Parameters
    ----------
    process : Process
        The process.
    record : Record
        What the fit did.
    used : ndarray of shape (m,)
        Indices of the samples of the problem that it is fitted to.
    landmarks : ndarray of shape (m,) or None
        Indices, among the samples given to `fit`, of those that new ones are compared
        with, if a completion took them.
    """

    process: Process
    record: Record
    used: NDArray[np.intp]
    landmarks: NDArray[np.intp] | None = None


def fit_whole(
    settings: Settings,
    route: Route,
    keeps_left_out: bool,
    problem: Problem,
    prior: Prior,
    run: Run,
    **known: Any,
) -> tuple[ExactProcess, Record]:
    return fit_exact(
        problem, prior, settings, route, run, keeps_left_out=keeps_left_out, **known
    )


def fit_models(
    models_of: Callable[[Problem], list[LabelModel]],
    settings: Settings,
    problem: Problem,
    prior: Prior,
    run: Run,
    **known: Any,
) -> tuple[LabelProcess, Record]:
    models = models_of(problem)
    return fit_labels_of(models, problem, prior, settings, run, **known)


def fit_all(fit: DenseFit, problem: Problem, prior: Prior, run: Run) -> Fitted:
    """Fit to all samples."""
    return Fitted(*fit(problem, prior, run), np.arange(len(problem.rows)))


def fit_selected(
    selection: Selection,
    n_wanted: int,
    fit: DenseFit,
    parts: Parts,
    resources: Resources,
    problem: Problem,
    prior: PlainPrior,
    run: Run,
) -> Fitted:
    """Fit to some of the samples."""
    n = len(problem.rows)
    oracle = sample_oracle(problem, prior, run, n_wanted * n)
    found = selection.select(oracle, parts.fraction, resources.generator())
    chosen = np.sort(to_numpy(found))
    some = problem.take(chosen, is_precomputed=isinstance(prior, MatrixPrior))
    selected = prior.select(chosen)
    process, record = fit(some, selected, run)
    share = {"observed_fraction": entries(len(chosen)) / entries(n)}
    record = replace(record, report=record.report | share)
    return Fitted(process, record, chosen, selected.indices)


def fit_completed(
    completion: Completion,
    settings: Settings,
    parts: Parts,
    resources: Resources,
    problem: Problem,
    prior: PlainPrior,
    run: Run,
) -> Fitted:
    """Fit through the factor of a completed matrix."""
    device, n = run.config.device, len(problem.rows)
    start = clock(device)
    n_allowed = max(n, int(parts.fraction * n * (n + 1) / 2))
    oracle = sample_oracle(problem, prior, run, n_allowed)
    generator = resources.generator()
    completed, facts = complete(completion, oracle, parts.fraction, generator)
    diag = oracle.diag()
    weights = to_tensor(problem.weights, diag.device, diag.dtype)
    least = completed.error / mean_variance(diag, weights)
    least_noise = 0.0 if np.isnan(least) else least
    seconds = clock(device) - start
    models = parts.models_of(problem)
    process: Process
    if models:
        process, record = fit_labels_of(
            models,
            problem,
            prior,
            settings,
            run,
            completed=completed,
            gram_seconds=seconds,
            least_noise=least_noise,
        )
        figures = {
            "relative_rmse": completed.relative_rmse,
            "observed_fraction": completed.n_evaluated / entries(n),
        }
        record = replace(record, report=record.report | figures)
    else:
        process, record = fit_features(
            completed,
            diag,
            problem,
            prior,
            settings,
            run,
            variance="dtc",
            least_noise=least_noise,
            gram_seconds=seconds,
        )
    record = replace(record, facts=[*facts, *record.facts])
    return Fitted(process, record, np.arange(n), process.prior.indices)


def fit_local(
    localization: Localization,
    settings: Settings,
    resources: Resources,
    problem: Problem,
    prior: PlainPrior,
    run: Run,
) -> Fitted:
    """Fit a process that predicts each sample from its neighbours."""
    if isinstance(prior, MatrixPrior):  # predictions look at parts of it
        prior = replace(prior, rows=problem.rows.copy())
    process, record = fit_neighbors(
        localization, problem, prior, settings, run, resources.generator
    )
    return Fitted(process, record, np.arange(len(problem.rows)))


def fit_sum(
    coarsening: Any,
    exact: KernelPrior,
    fit: DenseFit,
    parts: Parts,
    resources: Resources,
    problem: Problem,
    coarse: KernelPrior,
    run: Run,
) -> Fitted:
    """Fit with the sum of the coarse kernel and of one that is completed."""
    device, n = run.config.device, len(problem.rows)
    start = clock(device)
    exact = resources.with_precision(exact, run)
    n_allowed = max(n, int(parts.fraction * entries(n)))
    oracle = sample_oracle(problem, exact, run, n_allowed)
    generator = resources.generator()
    completed, facts = complete(coarsening.exact, oracle, parts.fraction, generator)
    diag = oracle.diag()
    fine, rough = (
        mean_variance(one, to_tensor(problem.weights, one.device, one.dtype))
        for one in (diag, coarse.oracle(run, "fit").diag())
    )
    share = coarsening.exact_weight
    prior = SummedPrior.of(
        coarse,
        exact,
        completed,
        diag,
        scale=share,
        coarse_scale=(1.0 - share) * fine / rough,
    )
    process, record = fit(
        problem,
        prior,
        run,
        gram_seconds=clock(device) - start,
        least_noise=share * np.nan_to_num(completed.error) / fine,
    )
    figures = {
        "relative_rmse": completed.relative_rmse,
        "observed_fraction": completed.n_evaluated / entries(n),
    }
    record = replace(
        record,
        n_pairs=record.n_pairs + completed.n_evaluated,
        report=record.report | figures,
        facts=[*facts, *record.facts],
    )
    return Fitted(process, record, np.arange(n), prior.exact.indices)


def fit_landmarks(
    strategy: Any,
    variance: str,
    settings: Settings,
    resources: Resources,
    problem: Problem,
    prior: PlainPrior,
    run: Run,
) -> Fitted:
    device, n = run.config.device, len(problem.rows)
    start = clock(device)
    n_allowed = n * min(n, strategy.n_landmarks or n)
    oracle = sample_oracle(problem, prior, run, n_allowed)
    completed = strategy.complete(oracle, 1.0, resources.generator())
    process, record = fit_features(
        completed,
        oracle.diag(),
        problem,
        prior,
        settings,
        run,
        variance=variance,
        gram_seconds=clock(device) - start,
        grows_with=resources.generator(),
    )
    return Fitted(process, record, np.arange(n), process.prior.indices)
