"""Learning of the kernel and of the inducing patches of an estimator for patches."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, cast

from skconvgp._settings import is_int
from skconvgp.engine import rows_to_tensor
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
from skconvgp.estimators.settings._checks import as_folder
from skconvgp.estimators.settings._gp import GPSettings
from skconvgp.estimators.settings._search import as_patch_choice
from skconvgp.flows import FlowResult, VariationalBound
from skconvgp.flows._bound_search import BoundSearch
from skconvgp.flows._landscape import NOISE_LABEL
from skconvgp.flows._patch_search import LEARNING_IMAGES, PatchSearch
from skconvgp.kernels import Kernel, PatchKernel
from skconvgp.linalg import smooth_root
from skconvgp.processes import (
    FEATURES,
    FLOPS,
    IMAGES,
    LEAST_NOISE,
    KernelBasis,
    Problem,
    Process,
    Settings,
    Stage,
    Steps,
    TermChoice,
    Variational,
    choose_inducing,
    plan_patches,
    terms_of,
)
from skconvgp.processes._problem import first_of_each
from skconvgp.processes.basis._patch_features import Root, usual_root

SOR = "sor"  # features alone
NATURAL = "natural steps"  # a stage
# The time for an image of a step of the bound, about, over that of other searches:
# derivatives of features, and prior variances.
OF_A_STEP = 4
WITHOUT_OPTIMIZER = "loo"  # the criterion for weights and patches that are learned


class Learned(NamedTuple):
    """What is learned of a patch process before it is fitted."""

    basis: KernelBasis
    choices: tuple[TermChoice, ...]  # how patches are chosen, for each term
    variational: Variational | None  # inference that follows; None for none
    result: FlowResult | None = None  # of the search; None if nothing was learned
    root: Root = usual_root  # whitens features


def learn_patches(
    settings: GPSettings, problem: Problem, given: Learned, used: Settings
) -> Learned:
    """Return kernel, patches and posterior as far as they are learned.

    Given are those at the start; with the settings `used`, label regression is fitted
    before the bound is maximised.
    """
    basis, choices = given.basis, given.choices
    search = _search(settings, problem, basis, choices, given.variational)
    if search is None:
        return given
    resources = EstimatorResources(settings)
    if isinstance(search, BoundSearch):
        found, result = _by_bound(search, problem, given, used, resources)
    else:
        learned, result = search.learn(problem.informative, basis, choices, resources)
        found = given._replace(
            basis=replace(basis, kernel=learned.kernel), choices=learned.choices
        )
    warn_of_result(settings.owner, search, result)
    ended = result.at_bounds
    ended.pop(NOISE_LABEL, None)  # the noise of all images is chosen again
    warn_of_bounds(settings.owner, ended)
    return found._replace(result=result)


def stages_of_search(
    settings: GPSettings, problem: Problem, given: Learned, n_features: int
) -> list[Stage]:
    """Return the stages of the search that `learn_patches` would make."""
    basis = given.basis
    search = _search(settings, problem, basis, given.choices, given.variational)
    if search is None:
        return []
    n, of_fit = basis.n_samples, Stage(FEATURES, basis.n_samples, IMAGES)
    if isinstance(search, BoundSearch):
        bound, k = search.bound, search.variational.n_latents
        n_batch = min(n, bound.batch_size)
        flops = k * (2.0 * n_features**3 + 8.0 * n_batch * n_features**2)
        return [
            search_stage(bound.max_iter, OF_A_STEP * n_batch, of_fit),
            Stage(NATURAL, bound.max_iter * flops, FLOPS, is_told=False),
        ]
    n_learned = min(n, LEARNING_IMAGES)
    return [search_stage(usual_steps(search.optimizer), n_learned, of_fit)]


def _by_bound(
    search: BoundSearch,
    problem: Problem,
    given: Learned,
    used: Settings,
    resources: EstimatorResources,
) -> tuple[Learned, FlowResult]:
    """Return what is learned by the bound, from label regression on."""
    basis, terms = given.basis, terms_of(given.basis.kernel)
    started = replace(basis, kernel=at_first_weights(basis.kernel))
    images = basis.images(basis.rows[first_of_each(basis.rows)])
    start = choose_inducing(terms, given.choices, images, resources.generator())
    fixed = tuple(
        choice._replace(inducing=rows_to_tensor(term.patches))
        for choice, term in zip(given.choices, start.terms, strict=True)
    )
    plan = plan_patches(started, used, SOR, fixed, resources, root=smooth_root)
    collapsed = cast(Process, plan.fit(problem, resources)[0].process)
    learned, result = search.learn(problem, basis, given.choices, collapsed, resources)
    variational = given.variational
    if variational is not None and variational.likelihood is not None:
        variational = replace(variational, learned=learned.posterior)
    found = Learned(
        replace(basis, kernel=learned.patches.kernel),
        learned.patches.choices,
        variational,
        root=smooth_root,
    )
    return found, result


def require_bound(settings: GPSettings, bound: VariationalBound) -> None:
    """Raise if settings do not go with learning by the bound."""
    has_folder = bound.cache_dir is not None
    if has_folder and not is_int(settings["random_state"], least=0):
        raise ValueError(
            f"{bound!r} finds the state in `cache_dir` again if the seed is the same: "
            f"use an int >= 0 as `random_state`, got {settings['random_state']!r}."
        )
    if settings["variance"] == SOR:
        raise ValueError(
            "variance='sor' leaves out what the bound counts, the variance that "
            "features do not explain: use variance='auto' with optimizer='elbo'."
        )


def at_first_weights(kernel: Kernel) -> Kernel:
    """Return a kernel whose learned weights are those at the start, 1."""
    kernel = kernel.replace()
    for term in terms_of(kernel):
        if isinstance(term.kernel, PatchKernel) and term.kernel.learns_weights:
            term.kernel.set_params(weights=None)
    return kernel


def _search(
    settings: GPSettings,
    problem: Problem,
    basis: KernelBasis,
    choices: tuple[TermChoice, ...],
    variational: Variational | None,
) -> PatchSearch | BoundSearch | None:
    """Return the search that the settings ask for; None for none."""
    has_more = any(choice.learns_patches for choice in choices) or any(
        isinstance(term.kernel, PatchKernel) and term.kernel.learns_weights
        for term in terms_of(basis.kernel)
    )
    choice = settings.read("optimizer", as_patch_choice)
    learns_kernel = choice is not None
    if choice is None and has_more:
        choice = as_patch_choice(WITHOUT_OPTIMIZER)
    if choice is None:
        return None
    if learns_kernel:
        require_free(settings, basis, "optimizer=None", has_more=has_more)
    require_samples(problem)
    require_plain(settings, problem)
    noise, n = settings.noise, basis.n_samples
    features = Stage(FEATURES, n, IMAGES)
    known = None if isinstance(noise, str) else max(noise, LEAST_NOISE)
    if isinstance(choice, VariationalBound):
        require_bound(settings, choice)
        n_outputs = problem.targets.shape[1]
        usual = Variational(None, Steps(1, 1, None, 0.0), n_outputs, is_profiled=True)
        folder = as_folder(choice.cache_dir)
        watch = watch_steps(settings, min(n, choice.batch_size), features)
        return BoundSearch(
            choice, variational or usual, known, learns_kernel, folder, watch
        )
    return PatchSearch(
        choice.kind,
        choice.optimizer,
        known,
        learns_kernel,
        watch_steps(settings, min(n, LEARNING_IMAGES), features),
    )
