"""Searches for the kernel of an estimator, and the warnings about them."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skconvgp._protocols import Localization, Step
from skconvgp.backends import choose_backend
from skconvgp.estimators._warn import warn_caller
from skconvgp.estimators.compute._progress import SEARCH, STEPS, progress_of
from skconvgp.estimators.settings._checks import (
    AUTO,
    KERNELS,
    MOST_BATCHES,
    Given,
    as_count,
    as_placement,
)
from skconvgp.estimators.settings._compute import HOST
from skconvgp.estimators.settings._gp import GPSettings, warn_of_copies
from skconvgp.estimators.settings._search import (
    LEAST_BATCH,
    as_batch_sizes,
    as_choice,
    as_objective,
    as_optimizer,
    require_room,
)
from skconvgp.flows import FlowResult
from skconvgp.flows._bound_search import BoundSearch
from skconvgp.flows._kernel_search import EvidenceSearch, FlowSearch
from skconvgp.flows._label_evidence import AMPLITUDE_LABEL
from skconvgp.flows._landscape import NOISE_LABEL
from skconvgp.flows._local_search import LocalSearch
from skconvgp.flows._patch_search import PatchSearch
from skconvgp.flows._search import ALL_DONE
from skconvgp.kernels import Kernel
from skconvgp.processes import (
    COVARIANCES,
    NOISE,
    SOLVING,
    GramBasis,
    KernelBasis,
    Parts,
    Problem,
    Stage,
    entries,
)

# Pairs of positions for each position of an image, from which on torch is far behind
# compiled code. Sums of a few networks that flatten their maps have less.
FEW_DISPLACEMENTS = 4
USUAL_STEPS = 100  # of a search that has not told how many it may take
EARLY = 4  # the share of its steps after which one with a tolerance ends, about
SLOPES = 3  # times the time of covariances, that of their derivatives, about
# Remedies if a search ends at a bound of the noise or of the amplitude.
REMEDIES = {
    NOISE_LABEL: "hold the noise by a number as `noise_variance`",
    AMPLITUDE_LABEL: "fit the learned kernel with optimizer=None and a number "
    "as `amplitude`",
}


def evidence_search(
    settings: GPSettings, problem: Problem, basis: GramBasis, parts: Parts
) -> EvidenceSearch | LocalSearch | None:
    """Return the search that `optimizer` asks for, or None."""
    choice = settings.read("optimizer", as_choice)
    n_restarts = settings.read("n_restarts_optimizer", as_count, least=0)
    if choice is None:
        return None
    require_free(settings, basis, "optimizer=None")
    if problem.noise_variances is not None:
        raise ValueError(
            "A search for the kernel needs one noise for all samples, and "
            "`noise_variance` is an array: use optimizer=None, and compare kernels by "
            "`log_marginal_likelihood()`, or learn the kernel with a number first."
        )
    require_samples(problem)
    require_plain(settings, problem)
    if choice.criterion == "loo":
        warn_of_copies(problem)
    n_pairs = entries(len(problem.rows))
    watch = watch_steps(settings, n_pairs, Stage(COVARIANCES, n_pairs))
    # The noise is chosen again after the search if `noise_variance` names the other
    # criterion, and with a completion, whose matrix differs. If the labels determine
    # the noise, strings are refused.
    words = (AUTO, choice.criterion)
    noise, rechooses = settings.noise, settings["noise_variance"] in words
    if choice.criterion == "loo" and isinstance(parts.completion, Localization):
        return LocalSearch(
            parts.completion,
            choice.optimizer,
            n_restarts,
            noise,
            rechooses,
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
        rechooses and not is_other,
        choice.is_usual,
        watch,
    )


def watch_steps(
    settings: GPSettings,
    of_step: float,
    of_fit: Stage,
    watch: Callable[[Step], bool] = lambda _: False,
) -> Callable[[Step], bool]:
    """Return the callback of the steps of a search, which shows progress.

    A step computes the amount `of_step` of what the fit that follows computes in its
    first stage, with derivatives. After each step `watch` is called, and returns
    whether to stop.
    """
    progress = progress_of(settings.verbose)
    show = progress(SEARCH, unit=STEPS, is_fit=True)

    def stages(n_steps: int) -> list[Stage]:
        search = search_stage(n_steps, of_step, of_fit)
        return [search, of_fit, Stage(NOISE), Stage(SOLVING)]

    progress.expect(of_fit, *stages(USUAL_STEPS))  # it may begin with a fit

    def watch_step(step: Step) -> bool:
        if step.index == 0:
            progress.expect(*stages(step.total))
        show(step.index + 1, step.total)
        return watch(step)

    return watch_step


def search_stage(n_steps: int, of_step: float, of_fit: Stage) -> Stage:
    """Return the stage of a search; the other parameters are as in `watch_steps`."""
    return of_fit._replace(name=SEARCH, amount=SLOPES * of_step * n_steps)


def usual_steps(optimizer: object) -> int:
    """Return how many steps a search takes, about, before it has begun."""
    most = int(getattr(optimizer, "max_iter", USUAL_STEPS))
    return -(-most // EARLY) if hasattr(optimizer, "tolerance") else most


def flow_search(
    settings: GPSettings,
    problem: Problem,
    basis: GramBasis,
    watch: Callable[[Step], bool],
) -> FlowSearch:
    """Return the search on batches by the settings of Kernel Flows.

    `watch` is called after each step, and returns whether to stop.
    """
    optimizer, noise = settings.read("optimizer", as_optimizer), settings.noise
    objective = settings.read("objective", as_objective, noise=noise)
    require_free(settings, basis, settings.owner.replace("KernelFlows", "ConvNetGP"))
    objective = copy.deepcopy(objective)
    objective.count(LEAST_BATCH)  # raises for wrong settings before any work
    require_samples(problem)
    n = len(problem.rows)
    sizes = settings.read("batch_size", as_batch_sizes, n=n)
    require_room(problem.codes, min(sizes))
    of_fit = Stage(COVARIANCES, entries(n))
    # An objective that was given as an object has its own noise.
    is_usual = isinstance(settings["objective"], str | None)
    return FlowSearch(
        optimizer,
        objective,
        sizes,
        settings.read("n_batches", as_count, most=MOST_BATCHES),
        isinstance(noise, str) and is_usual,
        watch_steps(settings, entries(max(sizes)), of_fit, watch),
    )


def warn_of_result(
    owner: str,
    search: EvidenceSearch | FlowSearch | LocalSearch | PatchSearch | BoundSearch,
    result: FlowResult,
) -> None:
    """Warn if a search learned nothing or did not converge."""
    if not np.isfinite(result.rho):
        warn_caller(
            f"{owner} has learned nothing: the objective is "
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


def warn_of_slow_derivatives(settings: GPSettings, basis: KernelBasis) -> None:
    """Warn if compiled code has the values of a kernel of many maps and torch the rest.

    The backend may be torch, which is then as slow for values, as on a GPU.
    """
    choice = choose_backend(basis.kernel, basis.map_shape, settings["backend"], HOST)
    is_slower = choice.is_fused and not choice.has_tangents
    if not is_slower or choice.n_displacements < FEW_DISPLACEMENTS:
        return
    if settings.read("device", as_placement).device.type == "cpu":
        warn_caller(
            "Torch computes the derivatives of tangent kernels. For networks that "
            "average over positions it takes some hundred times as long as compiled "
            "code for values: learn with kind='nngp', or on fewer images.",
            UserWarning,
        )


def warn_of_bounds(owner: str, at_bounds: dict[str, float]) -> None:
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
        f"The hyperparameters that {owner} found are at a bound of "
        f"the search, and better ones may lie beyond: {ends}. Start from other "
        f"hyperparameters, or {'; '.join(remedies)}.",
        ConvergenceWarning,
    )


def require_free(
    given: Given, basis: GramBasis, alternative: str, *, has_more: bool = False
) -> None:
    """Raise if no hyperparameter is free, or one starts outside its bounds.

    The alternative is a setting without a search. If `has_more`, more is learned than
    hyperparameters, so that none need be free.
    """
    if basis.kernel_basis is None:
        why = "a precomputed matrix has no hyperparameters to learn"
        given.reject("kernel", f"{KERNELS}: {why}")
    kernel: Kernel = basis.kernel_basis.kernel
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


def require_plain(settings: GPSettings, problem: Problem) -> None:
    """Raise if samples have weights, or the amplitude is not profiled."""
    if not (problem.weights == 1.0).all():
        raise ValueError(
            f"optimizer={settings['optimizer']!r} takes no sample weights other than 0 "
            "and 1: repeat samples, or fit with optimizer=None and the kernel "
            "that was chosen without weights."
        )
    if settings.amplitude != "profile":
        expected = "'profile' with an optimizer, which maximises over it too"
        settings.reject("amplitude", expected, settings.amplitude)


def require_samples(problem: Problem) -> None:
    """Raise if there are too few samples to learn from."""
    if len(problem.rows) < LEAST_BATCH:
        raise ValueError(
            f"A kernel learns from {LEAST_BATCH} samples or more, got 1 sample."
        )
