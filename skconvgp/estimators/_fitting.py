"""From training samples to a fitted process: plan, learn, fit."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from skconvgp._protocols import Solver, Step
from skconvgp.estimators._augmenting import augmented
from skconvgp.estimators._callbacks import FitTasks
from skconvgp.estimators._doors import Samples
from skconvgp.estimators._searches import (
    evidence_search,
    flow_search,
    warn_of_bounds,
    warn_of_result,
    warn_of_slow_derivatives,
)
from skconvgp.estimators._series import warn_of_basis
from skconvgp.estimators.compute._resources import EstimatorResources
from skconvgp.estimators.settings._gp import GPSettings
from skconvgp.flows import FlowResult
from skconvgp.flows._kernel_search import (
    NOISE_START,
    EvidenceSearch,
    FlowSearch,
    Learned,
)
from skconvgp.flows._landscape import NOISE_LABEL
from skconvgp.flows._local_search import LocalSearch
from skconvgp.processes import Fitted, Parts, Planner, Problem, Run

STEP = "flow step"


@dataclass(frozen=True)
class Result:
    """A fit, for an estimator to publish."""

    fitted: Fitted
    run: Run  # how it was computed
    report: dict[str, Any]  # further fields of the report, by name
    solver: Solver[Any] | None = None  # if there was a choice
    search: FlowResult | None = None  # for the kernel


def fit_process(
    settings: GPSettings, problem: Problem, samples: Samples, parts: Parts
) -> Result:
    """Fit a process, with the kernel that `optimizer` chooses on all samples.

    The samples of the problem are as they were given.
    """
    problem, samples = augmented(settings, problem, samples, parts)
    search = evidence_search(settings, problem, samples.basis, parts)
    if search is None:
        return _fit(settings, problem, samples, parts)
    learned, found, reason = _learn(settings, problem, samples, parts, search)
    warn_of_bounds(settings.owner, found.at_bounds)
    result = _fit(settings, problem, samples, parts, learned, reason)
    return replace(result, search=found)


def fit_flows(
    settings: GPSettings,
    problem: Problem,
    samples: Samples,
    parts: Parts,
    tasks: FitTasks,
    take: Callable[[Any, Samples, Result], object],
) -> None:
    """Learn a kernel on batches, and let the estimator of the tasks take the process.

    The first parameters are those of `fit_process`. The tasks are told of each step,
    with the attributes of a copy of the estimator that stops there.
    """

    def watch(step: Step) -> bool:
        def fitted() -> dict[str, Any]:
            # The copy must not advance the random state of the fit.
            apart = settings.but(random_state=copy.deepcopy(settings["random_state"]))
            learned = search.learned_at(samples.basis.kernel_basis.kernel, step.theta)
            model = tasks.copy()
            take(model, samples, _fit(apart, problem, samples, parts, learned))
            return dict(vars(model))

        return tasks.step(STEP, reconstruction_attributes=fitted)

    search = flow_search(
        settings, problem, samples.basis, watch, is_watched=tasks.is_watched
    )
    learned, found, reason = _learn(settings, problem, samples, parts, search)
    result = _fit(settings, problem, samples, parts, learned, reason)
    if result.fitted.process.model.noise != learned.usual_noise:
        found.at_bounds.pop(NOISE_LABEL, None)  # the process chose another noise
    take(tasks.estimator, samples, replace(result, search=found))
    warn_of_bounds(settings.owner, found.at_bounds)
    tasks.end()


def _learn(
    settings: GPSettings,
    problem: Problem,
    samples: Samples,
    parts: Parts,
    search: EvidenceSearch | FlowSearch | LocalSearch,
) -> tuple[Learned, FlowResult, str]:
    """Run a search; warn if it failed. The text is why the data chose no noise."""
    basis, known = samples.basis.kernel_basis, None
    warn_of_slow_derivatives(settings, basis)
    planner = Planner(basis, parts, EstimatorResources(settings))
    if isinstance(search, EvidenceSearch | LocalSearch) and search.keeps_noise:
        known = Learned(basis.kernel, NOISE_START)
    start, reason = settings.for_process(problem, planner, known, samples.training)
    learned, result = search.learn(problem.informative, basis, planner, start)
    warn_of_result(settings.owner, search, result)
    return learned, result, reason


def _fit(
    settings: GPSettings,
    problem: Problem,
    samples: Samples,
    parts: Parts,
    learned: Learned | None = None,
    reason: str = "",
) -> Result:
    """Fit a process. The text is why the data chose no noise for a search."""
    resources, basis = EstimatorResources(settings), samples.basis
    if learned is not None:
        basis = replace(basis.kernel_basis, kernel=learned.kernel)
    planner = Planner(basis, parts, resources)
    used, why_not = settings.for_process(problem, planner, learned, samples.training)
    plan = planner.plan(problem, used)
    warn_of_basis(plan.basis, plan.basis.rows)
    fitted, run = plan.fit(problem, resources)
    return Result(fitted, run, resources.report(why_not or reason), plan.solver)
