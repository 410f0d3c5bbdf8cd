"""Searches for the kernel of an estimator, and the warnings about them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning

from skconvgp._protocols import Localization, Step
from skconvgp.backends import choose_backend
from skconvgp.estimators._noise import warn_of_copies
from skconvgp.estimators._resolve import (
    AUTO,
    MOST_BATCHES,
    reject,
    resolve_amplitude,
    resolve_count,
    resolve_device,
    resolve_noise,
    resolve_verbose,
)
from skconvgp.estimators._resolve_search import (
    LEAST_BATCH,
    require_room,
    resolve_batch_sizes,
    resolve_choice,
    resolve_objective,
    resolve_optimizer,
    resolve_restarts,
)
from skconvgp.estimators._warn import warn_caller
from skconvgp.estimators.compute._progress import STEPS, FitLine
from skconvgp.flows import FlowResult
from skconvgp.flows._kernel_search import EvidenceSearch, FlowSearch
from skconvgp.flows._label_evidence import AMPLITUDE_LABEL
from skconvgp.flows._landscape import NOISE_LABEL
from skconvgp.flows._local_search import LocalSearch
from skconvgp.flows._patch_search import PatchSearch
from skconvgp.flows._search import ALL_DONE
from skconvgp.kernels import Kernel
from skconvgp.processes import KernelPrior, Parts, Prior, Problem

# Pairs of positions for each position of an image, from which on torch is far behind
# compiled code. Sums of a few networks that flatten their maps have less.
FEW_DISPLACEMENTS = 4
# Remedies if a search ends at a bound of the noise or of the amplitude.
REMEDIES = {
    NOISE_LABEL: "hold the noise by a number as `noise_variance`",
    AMPLITUDE_LABEL: "fit the learned kernel with optimizer=None and a number "
    "as `amplitude`",
}


def evidence_search(
    estimator: Any, problem: Problem, prior: Prior, parts: Parts
) -> EvidenceSearch | LocalSearch | None:
    """Return the search that `optimizer` asks for, or None."""
    choice = resolve_choice(estimator, estimator.optimizer)
    n_restarts = resolve_restarts(estimator, estimator.n_restarts_optimizer)
    if choice is None:
        return None
    require_free(estimator, prior, "optimizer=None")
    require_samples(problem)
    require_plain(estimator, problem)
    if choice.criterion == "loo":
        warn_of_copies(problem)
    verbose = resolve_verbose(estimator, estimator.verbose)
    progress = FitLine(choice.criterion, verbose, unit=STEPS)

    def watch(step: Step) -> bool:
        progress.report(step.index + 1, step.total)
        return False

    # The noise is chosen again after the search if `noise_variance` names the other
    # criterion, and with a completion, whose matrix differs. If the labels determine
    # the noise, strings are refused.
    words = (AUTO, choice.criterion)
    noise = resolve_noise(estimator, estimator.noise_variance)
    if choice.criterion == "loo" and isinstance(parts.completion, Localization):
        return LocalSearch(
            parts.completion,
            choice.optimizer,
            n_restarts,
            noise,
            estimator.noise_variance in words,
            choice.is_usual,
            watch,
        )
    is_other = parts.completion is not None or bool(parts.models_of(problem))
    return EvidenceSearch(
        choice.criterion,
        choice.kind,
        choice.optimizer,
        n_restarts,
        noise,
        estimator.noise_variance in words and not is_other,
        choice.is_usual,
        watch,
    )


def flow_search(
    estimator: Any,
    problem: Problem,
    prior: Prior,
    watch: Callable[[Step], bool],
    *,
    is_watched: bool,
) -> FlowSearch:
    """Return the search on batches by the settings of Kernel Flows.

    Parameters
    ----------
    estimator : estimator
        Has the settings.
    problem, prior : object
        The problem that will be fitted, and its prior.
    watch : callable
        Called after each step; returns whether to stop.
    is_watched : bool
        Whether `watch` shows progress itself.
    """
    optimizer = copy.deepcopy(resolve_optimizer(estimator, estimator.optimizer))
    noise = resolve_noise(estimator, estimator.noise_variance)
    objective = resolve_objective(estimator, estimator.objective, noise)
    require_free(
        estimator, prior, type(estimator).__name__.replace("KernelFlows", "ConvNetGP")
    )
    objective = copy.deepcopy(objective)
    objective.count(LEAST_BATCH)  # raises for wrong settings before any work
    require_samples(problem)
    sizes = resolve_batch_sizes(estimator, estimator.batch_size, len(problem.rows))
    require_room(problem.codes, min(sizes))
    verbose = 0 if is_watched else resolve_verbose(estimator, estimator.verbose)
    progress = FitLine("flow", verbose, unit=STEPS)

    def watch_step(step: Step) -> bool:
        progress.report(step.index + 1, step.total)
        return watch(step)

    # An objective that was given as an object has its own noise.
    is_usual = estimator.objective is None or isinstance(estimator.objective, str)
    return FlowSearch(
        optimizer,
        objective,
        sizes,
        resolve_count(estimator, "n_batches", estimator.n_batches, most=MOST_BATCHES),
        isinstance(noise, str) and is_usual,
        watch_step,
    )


def warn_of_result(
    estimator: Any,
    search: EvidenceSearch | FlowSearch | LocalSearch | PatchSearch,
    result: FlowResult,
) -> None:
    """Warn if a search learned nothing, did not converge, or used a replacement."""
    if result.stats.get("is_native"):
        warn_caller(
            "scikit-optimize is not installed: Bayesian optimisation used the "
            "package's own implementation, by expected improvement. Install "
            "scikit-optimize for its implementation.",
            UserWarning,
        )
    if not np.isfinite(result.rho):
        warn_caller(
            f"{type(estimator).__name__} has learned nothing: the objective is "
            f"undefined at all points of the search ({result.message}). Scale X to "
            "numbers near 1, start from other hyperparameters, or raise "
            "`noise_variance`, or that of the objective if it has its own.",
            UserWarning,
        )
    if not isinstance(search, EvidenceSearch | LocalSearch):
        return  # it always makes all its steps, or is meant to stop early
    if search.is_usual and result.message == ALL_DONE:
        warn_caller(
            f"The search for hyperparameters has not converged in "
            f"{search.optimizer!r}: the best ones so far are used. Start from "
            "others, or hold some of them.",
            ConvergenceWarning,
        )


def warn_of_slow_derivatives(estimator: Any, prior: KernelPrior) -> None:
    """Warn if compiled code has the values of a kernel of many maps and torch the rest.

    Parameters
    ----------
    estimator : estimator
        Its `backend` may be torch, which is then as slow for values, as on a GPU.
    prior : KernelPrior
        Has the kernel, and the shape of the images.
    """
    backend = estimator.backend
    choice = choose_backend(prior.kernel, prior.map_shape, backend, torch.device("cpu"))
    is_slower = choice.is_fused and not choice.has_tangents
    if not is_slower or choice.n_displacements < FEW_DISPLACEMENTS:
        return
    if resolve_device(estimator, estimator.device).device.type == "cpu":
        warn_caller(
            "Torch computes the derivatives of tangent kernels. For networks that "
            "average over positions it takes some hundred times as long as compiled "
            "code for values: learn with kind='nngp', or on fewer images.",
            UserWarning,
        )


def warn_of_bounds(estimator: Any, at_bounds: dict[str, float]) -> None:
    """Warn of hyperparameters at a bound of the search; the bounds are by name."""
    if not at_bounds:
        return
    ends = ", ".join(f"{name} at {bound:g}" for name, bound in at_bounds.items())
    remedies = [REMEDIES[name] for name in at_bounds if name in REMEDIES]
    free = [name for name in at_bounds if name not in REMEDIES]
    if free:
        # All features or layers of a setting share one pair of bounds.
        settings = dict.fromkeys(name.partition("[")[0] for name in free)
        wider = ", ".join(f"`{name}_bounds`" for name in settings)
        remedies.insert(0, f"widen {wider} of the kernel or hold it by 'fixed'")
    warn_caller(
        f"The hyperparameters that {type(estimator).__name__} found are at a bound of "
        f"the search, and better ones may lie beyond: {ends}. Start from other "
        f"hyperparameters, or {'; '.join(remedies)}.",
        ConvergenceWarning,
    )


def require_free(
    estimator: Any, prior: Prior, alternative: str, *, has_more: bool = False
) -> None:
    """Raise if no hyperparameter is free, or one starts outside its bounds.

    Parameters
    ----------
    estimator : estimator
        Named in the message.
    prior : Prior
        Has the kernel.
    alternative : str
        Setting without a search.
    has_more : bool, default=False
        Whether more than hyperparameters is learned, so that none need be free.
    """
    if prior.kernel_prior is None:
        reject(
            estimator,
            "kernel",
            "None or a kernel of skconvgp.kernels: a precomputed matrix has no "
            "hyperparameters to learn",
            estimator.kernel,
        )
    kernel: Kernel = prior.kernel_prior.kernel
    free = [item for item in kernel.hyperparameters if item.is_free]
    if not (free or has_more):
        raise ValueError(
            f"{kernel!r} has no free hyperparameters, so that there is "
            "nothing to learn: give one of them bounds such as "
            "weight_variance_bounds=(1e-4, 1e4), or fit the kernel as it is with "
            f"{alternative}."
        )
    for item in free:
        low, high = map(float, item.bounds)
        if not low <= float(item.value) <= high:
            raise ValueError(
                f"{item.label!r} of {kernel!r} is {float(item.value):g}, "
                f"which is not within its bounds {item.bounds!r}: learning begins "
                "there, so change one of them."
            )


def require_plain(estimator: Any, problem: Problem) -> None:
    """Raise if samples have weights, or the amplitude is not profiled."""
    if not (problem.weights == 1.0).all():
        raise ValueError(
            f"optimizer={estimator.optimizer!r} takes no sample weights other than 0 "
            "and 1: repeat samples, or fit with optimizer=None and the kernel "
            "that was chosen without weights."
        )
    amplitude = resolve_amplitude(estimator, estimator.amplitude)
    if amplitude != "profile":
        expected = "'profile' with an optimizer, which maximises over it too"
        reject(estimator, "amplitude", expected, amplitude)


def require_samples(problem: Problem) -> None:
    """Raise if there are too few samples to learn from."""
    if len(problem.rows) < LEAST_BATCH:
        raise ValueError(
            f"A kernel learns from {LEAST_BATCH} samples or more, got 1 sample."
        )
