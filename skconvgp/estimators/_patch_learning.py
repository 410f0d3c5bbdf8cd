"""Learning of the kernel and of the inducing patches of an estimator for patches."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from skconvgp.estimators._searches import (
    require_free,
    require_plain,
    require_samples,
    search_stage,
    usual_steps,
    warn_of_bounds,
    warn_of_result,
    watch_steps,
)
from skconvgp.estimators.compute._resources import EstimatorResources
from skconvgp.estimators.settings._gp import GPSettings
from skconvgp.estimators.settings._search import PATCH_KINDS, USUAL_PATCHES, as_choice
from skconvgp.flows import FlowResult
from skconvgp.flows._landscape import NOISE_LABEL
from skconvgp.flows._patch_search import LEARNING_IMAGES, PatchSearch
from skconvgp.kernels import PatchKernel
from skconvgp.processes import (
    FEATURES,
    IMAGES,
    LEAST_NOISE,
    KernelBasis,
    Problem,
    Stage,
    TermChoice,
    terms_of,
)

WITHOUT_OPTIMIZER = "loo"  # the criterion for weights and patches that are learned


def learn_patches(
    settings: GPSettings,
    problem: Problem,
    basis: KernelBasis,
    choices: tuple[TermChoice, ...],
) -> tuple[KernelBasis, tuple[TermChoice, ...], FlowResult | None]:
    """Return kernel and choices with learned values, and the result of the search.

    The choices are how inducing patches are chosen, for each term of the kernel.
    """
    search = _search(settings, problem, basis, choices)
    if search is None:
        return basis, choices, None
    resources = EstimatorResources(settings)
    learned, result = search.learn(problem.informative, basis, choices, resources)
    warn_of_result(settings.owner, search, result)
    ended = result.at_bounds
    ended.pop(NOISE_LABEL, None)  # the noise of all images is chosen again
    warn_of_bounds(settings.owner, ended)
    return replace(basis, kernel=learned.kernel), learned.choices, result


def stages_of_search(
    settings: GPSettings,
    problem: Problem,
    basis: KernelBasis,
    choices: tuple[TermChoice, ...],
) -> list[Stage]:
    """Return the stages of the search that `learn_patches` would make."""
    search, n = _search(settings, problem, basis, choices), basis.n_samples
    if search is None:
        return []
    of_fit, n_learned = Stage(FEATURES, n, IMAGES), min(n, LEARNING_IMAGES)
    return [search_stage(usual_steps(search.optimizer), n_learned, of_fit)]


def _search(
    settings: GPSettings,
    problem: Problem,
    basis: KernelBasis,
    choices: tuple[TermChoice, ...],
) -> PatchSearch | None:
    """Return the search that the settings ask for; None for none."""
    has_more = any(choice.learns_patches for choice in choices) or any(
        isinstance(term.kernel, PatchKernel) and term.kernel.learns_weights
        for term in terms_of(basis.kernel)
    )
    as_chosen = partial(as_choice, kinds=PATCH_KINDS, usual=USUAL_PATCHES)
    choice = settings.read("optimizer", as_chosen)
    learns_kernel = choice is not None
    if choice is None and has_more:
        choice = as_chosen(WITHOUT_OPTIMIZER)
    if choice is None:
        return None
    if learns_kernel:
        require_free(settings, basis, "optimizer=None", has_more=has_more)
    require_samples(problem)
    require_plain(settings, problem)
    noise, n = settings.noise, basis.n_samples
    features = Stage(FEATURES, n, IMAGES)
    return PatchSearch(
        choice.kind,
        choice.optimizer,
        None if isinstance(noise, str) else max(noise, LEAST_NOISE),
        learns_kernel,
        watch_steps(settings, min(n, LEARNING_IMAGES), features),
    )
