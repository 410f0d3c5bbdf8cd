"""Learning of the kernel and of the inducing patches of an estimator for patches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from skconvgp._protocols import Step
from skconvgp.estimators._resolve import resolve_noise, resolve_verbose
from skconvgp.estimators._resolve_search import (
    PATCH_KINDS,
    USUAL_PATCHES,
    resolve_choice,
)
from skconvgp.estimators._searches import (
    require_free,
    require_plain,
    require_samples,
    warn_of_bounds,
    warn_of_result,
)
from skconvgp.estimators.compute._progress import STEPS, FitLine
from skconvgp.estimators.compute._resources import EstimatorResources
from skconvgp.flows._landscape import NOISE_LABEL
from skconvgp.flows._patch_search import PatchSearch
from skconvgp.kernels import PatchKernel
from skconvgp.processes import (
    LEAST_NOISE,
    KernelPrior,
    Problem,
    TermChoice,
    terms_of,
)

WITHOUT_OPTIMIZER = "loo"  # the criterion for weights and patches that are learned


def learn_patches(
    estimator: Any,
    problem: Problem,
    prior: KernelPrior,
    choices: tuple[TermChoice, ...],
) -> tuple[KernelPrior, tuple[TermChoice, ...]]:
    """Learn as the settings say, and publish `optimizer_result_`.

    Parameters
    ----------
    estimator : estimator
        Has the settings.
    problem, prior : object
        The problem that will be fitted, and its kernel.
    choices : tuple of TermChoice
        How inducing patches are chosen, for each term of the kernel.

    Returns
    -------
    prior, choices : object
        The same with what was learned.
    """
    estimator.__dict__.pop("optimizer_result_", None)  # of another fit
    search = _search(estimator, problem, prior, choices)
    if search is None:
        return prior, choices
    resources = EstimatorResources(estimator)
    learned, result = search.learn(problem.informative, prior, choices, resources)
    warn_of_result(estimator, search, result)
    ended = result.at_bounds
    ended.pop(NOISE_LABEL, None)  # the noise of all images is chosen again
    warn_of_bounds(estimator, ended)
    estimator.optimizer_result_ = result
    return replace(prior, kernel=learned.kernel), learned.choices


def _search(
    estimator: Any,
    problem: Problem,
    prior: KernelPrior,
    choices: tuple[TermChoice, ...],
) -> PatchSearch | None:
    """Return the search that the settings ask for; None for none."""
    has_more = any(choice.learns_patches for choice in choices) or any(
        isinstance(term.kernel, PatchKernel) and term.kernel.learns_weights
        for term in terms_of(prior.kernel)
    )
    given = estimator.optimizer
    choice = resolve_choice(estimator, given, PATCH_KINDS, USUAL_PATCHES)
    learns_kernel = choice is not None
    if choice is None and has_more:
        word = WITHOUT_OPTIMIZER
        choice = resolve_choice(estimator, word, PATCH_KINDS, USUAL_PATCHES)
    if choice is None:
        return None
    if learns_kernel:
        require_free(estimator, prior, "optimizer=None", has_more=has_more)
    require_samples(problem)
    require_plain(estimator, problem)
    verbose = resolve_verbose(estimator, estimator.verbose)
    progress = FitLine(choice.criterion, verbose, unit=STEPS)

    def watch(step: Step) -> bool:
        progress.report(step.index + 1, step.total)
        return False

    noise = resolve_noise(estimator, estimator.noise_variance)
    return PatchSearch(
        choice.kind,
        choice.optimizer,
        None if isinstance(noise, str) else max(noise, LEAST_NOISE),
        learns_kernel,
        watch,
    )
