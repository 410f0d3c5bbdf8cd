"""From training samples to a fitted process: learn, plan, fit."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from skconvgp._protocols import Step
from skconvgp.engine import to_numpy
from skconvgp.estimators._augmenting import augmented
from skconvgp.estimators._callbacks import FitTasks
from skconvgp.estimators._doors import Samples
from skconvgp.estimators._repeats import warn_of_near_copies
from skconvgp.estimators._searches import (
    evidence_search,
    flow_search,
    search_stage,
    usual_steps,
    warn_of_bounds,
    warn_of_result,
    warn_of_slow_derivatives,
)
from skconvgp.estimators._series import warn_of_basis
from skconvgp.estimators._start_or_end import (
    at_start,
    is_start_better,
    judging_parts,
)
from skconvgp.estimators._warn import without_warnings
from skconvgp.estimators.compute._resources import EstimatorResources
from skconvgp.estimators.settings._gp import GPSettings, can_choose_noise
from skconvgp.exceptions import NotPSDError
from skconvgp.flows import FlowResult
from skconvgp.flows._kernel_search import (
    NOISE_START,
    EvidenceSearch,
    FlowSearch,
    Learned,
)
from skconvgp.flows._landscape import NOISE_LABEL
from skconvgp.flows._local_search import LocalSearch
from skconvgp.processes import (
    COVARIANCES,
    Fitted,
    LabelModel,
    Parts,
    Plan,
    Planner,
    Problem,
    Run,
    Settings,
    Stage,
    entries,
    fold,
    with_linear_trend,
)

STEP = "flow step"
# Number of inputs up to which "auto" uses an eigendecomposition: there its n^3
# operations take as long as n^2 covariances of images (docs/adr/noise.md).
MOST_INPUTS = 5000


@dataclass(frozen=True)
class FitData:
    """Everything that a fit reads."""

    settings: GPSettings
    problem: Problem
    samples: Samples  # from which the problem is made
    # Candidates, if labels determine their noise; none if targets share one.
    models: Sequence[LabelModel] = ()


@dataclass(frozen=True)
class PlannedFit:
    """A fit of any estimator: its settings are checked, and its kernel is learned."""

    data: FitData
    plan: Plan
    resources: EstimatorResources
    noise_reason: str  # why the data choose no noise; empty if they do
    search: FlowResult | None = None  # for the kernel
    report: dict[str, Any] = field(default_factory=dict)  # further fields, by name
    # Stages before those of the plan, which an outline has not carried out.
    before: tuple[Stage, ...] = ()

    def fit(self) -> tuple[Fitted, Run]:
        """Return the fitted process, and the run that computed it.

        A warning is given if a kernel may be wrong at the samples, or if many images
        are nearly copies of others.
        """
        if self.plan.basis is not None:
            warn_of_basis(self.plan.basis)
        fitted, run = self.plan.fit(self.data.problem, self.resources)
        self._warn_of_near_copies()
        process = fold(fitted.process, self.data.problem.rows, self.resources)
        return replace(fitted, process=process), run

    def _warn_of_near_copies(self) -> None:
        """Warn if leave-one-out predicts many images from versions of them."""
        problem, shape = self.data.problem, self.data.samples.image_shape
        if shape is not None and shape[1:] != (1, 1):
            n = problem.n_samples
            own = to_numpy(problem.inputs.left_out_with[:n])
            warn_of_near_copies(problem.rows[:n], own)

    def report_of(self, fitted: Fitted) -> dict[str, Any]:
        """Return fields of the report that neither run nor basis tells."""
        reasons = self.resources.report(self.noise_reason)
        return fitted.record.report | reasons | self.report


def plan_process_fit(
    data: FitData, parts: Parts, *, is_outline: bool = False
) -> PlannedFit:
    """Plan a fit with the kernel that `optimizer` chooses on all samples.

    An outline is not carried out: the kernel is not learned.
    """
    settings = data.settings
    problem, samples = augmented(settings, data.problem, data.samples, parts)
    data = replace(data, problem=problem, samples=samples)
    search = evidence_search(settings, problem, samples.basis, parts)
    if search is None:
        return _plan(data, parts)
    if is_outline:
        n_pairs = entries(len(problem.rows))
        return _unlearned(data, parts, search, n_pairs, keeps_noise=search.keeps_noise)
    learned, found, reason = _learn(data, parts, search)
    warn_of_bounds(settings.owner, found.at_bounds)
    return _plan(data, parts, learned, found, reason)


def outline_flows(data: FitData, parts: Parts) -> PlannedFit:
    """Plan a fit with a kernel that would be learned on batches."""
    basis, problem = data.samples.basis, data.problem
    search = flow_search(data.settings, problem, basis, lambda _: False)
    n_pairs = sum(map(entries, search.sizes)) // len(search.sizes)
    return _unlearned(data, parts, search, n_pairs, keeps_noise=False)


def _unlearned(
    data: FitData, parts: Parts, search: Any, n_pairs: int, *, keeps_noise: bool
) -> PlannedFit:
    """Plan a fit before the search for its kernel; a step has so many pairs."""
    of_fit = Stage(COVARIANCES, n_pairs, of=data.samples.basis)
    before = search_stage(usual_steps(search.optimizer), n_pairs, of_fit)
    learned, basis = None, data.samples.basis.kernel_basis
    if keeps_noise:
        learned = Learned(basis.kernel, NOISE_START)
    return replace(_plan(data, parts, learned), before=(before,))


def fit_flows(
    data: FitData,
    parts: Parts,
    tasks: FitTasks,
    fit_as: Callable[[Any, PlannedFit], object],
    density: Callable[[Any], float],
) -> None:
    """Learn a kernel on batches, and fit the estimator of the tasks by `fit_as`.

    `density` returns the mean log density of left-out samples of a fitted estimator.
    The tasks are told of each step, with the attributes of a copy of the estimator that
    stops there.
    """
    settings, basis = data.settings, data.samples.basis

    def watch(step: Step) -> bool:
        def fitted() -> dict[str, Any]:
            # The copy must not advance the random state of the fit.
            apart = settings.but(random_state=copy.deepcopy(settings["random_state"]))
            learned = search.learned_at(basis.kernel_basis.kernel, step.theta)
            model = tasks.copy()
            fit_as(model, _plan(replace(data, settings=apart), parts, learned))
            return dict(vars(model))

        return tasks.step(STEP, reconstruction_attributes=fitted)

    search = flow_search(settings, data.problem, basis, watch)
    learned, found, reason = _learn(data, parts, search)
    if settings["objective"] is None and can_choose_noise(data.problem):

        def judge(one: Learned) -> tuple[float, float]:
            return _judged(data, parts, tasks, fit_as, density, one)

        first = basis.kernel_basis.kernel
        start, end = judge(replace(learned, kernel=first)), judge(learned)
        found = replace(found, left_out={"start": start[0], "end": end[0]})
        if is_start_better(start[0], end[0]):
            found = at_start(found, start[1])
            learned = search.learned_at(first, found.theta)
    fit_as(tasks.estimator, _plan(data, parts, learned, found, reason))
    at_bounds = found.at_bounds
    if tasks.estimator.noise_variance_ != learned.usual_noise:
        at_bounds.pop(NOISE_LABEL, None)  # the process chose another noise
    warn_of_bounds(settings.owner, at_bounds)


def _judged(
    data: FitData,
    parts: Parts,
    tasks: FitTasks,
    fit_as: Callable[[Any, PlannedFit], object],
    density: Callable[[Any], float],
    learned: Learned,
) -> tuple[float, float]:
    """Fit to the samples, or to a subset of them, that judge a kernel.

    Return the density of left-out samples, and the noise of the process. The subset is
    the same for each kernel, and none advances the random state.
    """
    apart = data.settings.but(random_state=0, cache_dir=None, verbose=0)
    parts, model = judging_parts(parts, len(data.problem.rows)), tasks.copy()
    try:
        with without_warnings():
            fit_as(model, _plan(replace(data, settings=apart), parts, learned))
            return density(model), model.noise_variance_
    except (NotPSDError, ValueError):  # no process has this kernel
        return math.nan, math.nan


def _learn(
    data: FitData, parts: Parts, search: EvidenceSearch | FlowSearch | LocalSearch
) -> tuple[Learned, FlowResult, str]:
    """Run a search; warn if it failed. The text is why the data chose no noise."""
    settings, problem, samples = data.settings, data.problem, data.samples
    basis, known = samples.basis.kernel_basis, None
    warn_of_slow_derivatives(settings, basis)
    planner = Planner(basis, parts, EstimatorResources(settings))
    if isinstance(search, EvidenceSearch | LocalSearch) and search.keeps_noise:
        known = Learned(basis.kernel, NOISE_START)
    start, reason = _noise_and_amplitude(data, planner, known)
    learned, result = search.learn(problem.informative, basis, planner, start)
    warn_of_result(settings.owner, search, result)
    return learned, result, reason


def _plan(
    data: FitData,
    parts: Parts,
    learned: Learned | None = None,
    found: FlowResult | None = None,
    reason: str = "",
) -> PlannedFit:
    """Plan a fit. The text is why the data chose no noise for a search."""
    settings, problem, samples = data.settings, data.problem, data.samples
    resources, basis = EstimatorResources(settings), samples.basis
    if learned is not None:
        basis = replace(basis.kernel_basis, kernel=learned.kernel)
    planner = Planner(basis, parts, resources)
    used, why_not = _noise_and_amplitude(data, planner, learned)
    plan = planner.plan(problem, used)
    if problem.trend is not None:
        plan = with_linear_trend(plan, used)
    return PlannedFit(data, plan, resources, why_not or reason, found)


def _noise_and_amplitude(
    data: FitData, planner: Planner, learned: Learned | None
) -> tuple[Settings, str]:
    """Return noise and amplitude, and why the data choose no noise."""
    return data.settings.for_problem(
        data.problem,
        data.samples.training,
        has_labels=bool(data.models),
        affords_choice=lambda: planner.affords_choice(data.problem, MOST_INPUTS),
        learned=learned,
    )
