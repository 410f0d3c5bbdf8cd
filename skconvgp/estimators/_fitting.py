"""From training samples to a fitted process: plan, learn, fit, publish."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from skconvgp._protocols import Step
from skconvgp.estimators._augmenting import augmented
from skconvgp.estimators._callbacks import FitTasks
from skconvgp.estimators._doors import Samples
from skconvgp.estimators._gp import BaseGP
from skconvgp.estimators._searches import (
    evidence_search,
    flow_search,
    warn_of_bounds,
    warn_of_result,
    warn_of_slow_derivatives,
)
from skconvgp.estimators._series import warn_of_prior
from skconvgp.estimators._settings import settings_of
from skconvgp.estimators.compute._resources import EstimatorResources
from skconvgp.flows import FlowResult
from skconvgp.flows._kernel_search import (
    NOISE_START,
    EvidenceSearch,
    FlowSearch,
    Learned,
)
from skconvgp.flows._landscape import NOISE_LABEL
from skconvgp.flows._local_search import LocalSearch
from skconvgp.processes import Parts, Planner, Problem

STEP = "flow step"


def fit_process(
    estimator: Any, problem: Problem, samples: Samples, parts: Parts
) -> None:
    """Fit a process, with the kernel that `optimizer` chooses on all samples.

    Parameters
    ----------
    estimator : BaseGP
        Provides the settings, and gets the fitted attributes.
    problem : Problem
        The problem to fit.
    samples : Samples
        Its samples, as they were given.
    parts : Parts
        The parts of the process.
    """
    problem, samples = augmented(estimator, problem, samples, parts)
    estimator.__dict__.pop("optimizer_result_", None)  # of another fit
    search = evidence_search(estimator, problem, samples.prior, parts)
    if search is None:
        _fit(estimator, problem, samples, parts)
        return
    learned, result = _learn(estimator, problem, samples, parts, search)
    warn_of_bounds(estimator, result.at_bounds)
    _fit(estimator, problem, samples, parts, learned)
    estimator.optimizer_result_ = result


def fit_flows(
    estimator: Any,
    problem: Problem,
    samples: Samples,
    parts: Parts,
    finish: Callable[[Any], object] | None = None,
) -> None:
    """Learn a kernel on batches, and fit a process.

    Parameters
    ----------
    estimator, problem, samples, parts : object
        As in `fit_process`.
    finish : callable, optional
        Sets the attributes that follow from the process, for the estimator and for the
        models that callbacks see.
    """
    tasks = FitTasks(estimator)

    def watch(step: Step) -> bool:
        def fitted() -> dict[str, Any]:
            model = copy.copy(estimator)
            # The copy must not advance the random state of the fit.
            model.random_state = copy.deepcopy(estimator.random_state)
            kernel = samples.prior.kernel_prior.kernel
            learned = search.learned_at(kernel, step.theta)
            _fit(model, problem, samples, parts, learned)
            if finish is not None:
                finish(model)
            return dict(vars(model))

        return tasks.step(STEP, reconstruction_attributes=fitted)

    search = flow_search(
        estimator, problem, samples.prior, watch, is_watched=tasks.is_watched
    )
    learned, result = _learn(estimator, problem, samples, parts, search)
    _fit(estimator, problem, samples, parts, learned)
    if finish is not None:
        finish(estimator)
    ended = result.at_bounds
    if estimator.noise_variance_ != learned.usual_noise:
        ended.pop(NOISE_LABEL, None)  # the process chose another noise
    warn_of_bounds(estimator, ended)
    estimator.flow_result_ = result
    tasks.end()


def _learn(
    estimator: Any,
    problem: Problem,
    samples: Samples,
    parts: Parts,
    search: EvidenceSearch | FlowSearch | LocalSearch,
) -> tuple[Learned, FlowResult]:
    """Run a search; warn if it failed."""
    prior, known = samples.prior.kernel_prior, None
    warn_of_slow_derivatives(estimator, prior)
    planner = Planner(prior, parts, EstimatorResources(estimator))
    if isinstance(search, EvidenceSearch | LocalSearch) and search.keeps_noise:
        known = Learned(prior.kernel, NOISE_START)
    settings = settings_of(estimator, problem, planner, known, samples.training)
    learned, result = search.learn(problem.informative, prior, planner, settings)
    warn_of_result(estimator, search, result)
    return learned, result


def _fit(
    estimator: BaseGP,
    problem: Problem,
    samples: Samples,
    parts: Parts,
    learned: Learned | None = None,
) -> None:
    """Fit a process, and publish it."""
    resources, prior = EstimatorResources(estimator), samples.prior
    if learned is not None:
        prior = replace(prior.kernel_prior, kernel=learned.kernel)
    planner = Planner(prior, parts, resources)
    settings = settings_of(estimator, problem, planner, learned, samples.training)
    plan = planner.plan(problem, settings)
    warn_of_prior(plan.prior, plan.prior.rows)
    fitted, run = plan.fit(problem, resources)
    estimator.solver_ = plan.solver
    estimator._publish(samples.training, fitted, run, resources)
