"""Learning of the kernel and of the inducing patches of an estimator for patches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

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
from skconvgp.estimators.compute._progress import ProgressLine
from skconvgp.estimators.compute._resources import EstimatorResources
from skconvgp.flows._landscape import NOISE_LABEL
from skconvgp.flows._patch_search import PatchSearch
from skconvgp.kernels import PatchKernel
from skconvgp.processes import (
    LEAST_NOISE,
    KernelPrior,
    Problem,
    TermChoice,
    choose_inducing,
    place_locations,
    terms_of,
)

__all__ = ["learn_patches"]

LEARNED = "learned"
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
    resources, kernel = EstimatorResources(estimator), cast(PatchKernel, prior.kernel)
    (choice,) = choices
    terms, images = terms_of(kernel), prior.images()
    inducing = choose_inducing(terms, choices, images, resources.generator())
    places = place_locations(kernel, prior.image_shape, choice.n_locations)
    (start,) = inducing.terms
    learned, result = search.learn(problem, prior, start, places, resources)
    warn_of_result(estimator, search, result)
    ended = result.at_bounds
    ended.pop(NOISE_LABEL, None)  # the noise of all images is chosen again
    warn_of_bounds(estimator, ended)
    estimator.optimizer_result_ = result
    chosen = choice._replace(inducing=learned.patches)
    return replace(prior, kernel=learned.kernel), (chosen,)


def _search(
    estimator: Any,
    problem: Problem,
    prior: KernelPrior,
    choices: tuple[TermChoice, ...],
) -> PatchSearch | None:
    """Return the search that the settings ask for; None for none."""
    kernel = prior.kernel
    given_patches = [choice.inducing for choice in choices]
    learns_patches = any(isinstance(g, str) and g == LEARNED for g in given_patches)
    of_patches = [
        term.kernel for term in terms_of(kernel) if isinstance(term.kernel, PatchKernel)
    ]
    learns_weights = any(term.learns_weights for term in of_patches)
    has_more = learns_patches or learns_weights
    given = estimator.optimizer
    choice = resolve_choice(estimator, given, PATCH_KINDS, USUAL_PATCHES)
    learns_kernel = choice is not None
    if choice is None and has_more:
        word = WITHOUT_OPTIMIZER
        choice = resolve_choice(estimator, word, PATCH_KINDS, USUAL_PATCHES)
    if choice is None:
        return None
    if not isinstance(kernel, PatchKernel):
        raise ValueError(  # noqa: TRY004  (a wrong setting, not a wrong type)
            f"{type(estimator).__name__} learns a PatchKernel alone, got {kernel!r}: "
            "fit sums with optimizer=None, and terms with numbers, such as `kernel_` "
            "of a fit of one term."
        )
    if learns_kernel:
        require_free(estimator, prior, "optimizer=None", has_more=has_more)
    require_samples(problem)
    require_plain(estimator, problem)
    verbose = resolve_verbose(estimator, estimator.verbose)
    progress = ProgressLine(choice.criterion, verbose, "steps")

    def watch(step: Step) -> bool:
        progress(step.index + 1, step.total)
        return False

    noise = resolve_noise(estimator, estimator.noise_variance)
    return PatchSearch(
        choice.kind,
        choice.optimizer,
        None if isinstance(noise, str) else max(noise, LEAST_NOISE),
        learns_kernel,
        learns_patches,
        watch,
    )
