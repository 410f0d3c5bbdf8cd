"""How an estimator is fitted through inducing patches."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from skconvgp._protocols import VariationalLikelihood
from skconvgp.estimators._fitting import FitData, PlannedFit
from skconvgp.estimators._growing import NO_CLOSED_FORM
from skconvgp.estimators._patch_learning import (
    SOR,
    Learned,
    at_first_weights,
    learn_patches,
    stages_of_search,
)
from skconvgp.estimators._patch_terms import read_terms, refuse_kernel
from skconvgp.estimators._warn import warn_caller
from skconvgp.estimators.compute._resources import EstimatorResources
from skconvgp.estimators.compute._sight import warn_of_blindness
from skconvgp.estimators.settings._checks import (
    AUTO,
    PRECOMPUTED,
    VARIATIONAL_LIKELIHOODS,
    as_count,
    as_positive,
    as_rate,
    word_of,
)
from skconvgp.estimators.settings._gp import GPSettings
from skconvgp.estimators.settings._search import as_patch_choice
from skconvgp.flows import VariationalBound
from skconvgp.likelihoods import Gaussian
from skconvgp.processes import (
    NOT_KEPT,
    LabelModel,
    NoisyModel,
    Steps,
    Variational,
    plan_patches,
    require_added_noise,
    require_two_levels,
)

DTC = "dtc"
VARIANCES = (AUTO, DTC, SOR)
COLLAPSED, VARIATIONAL = "collapsed", "variational"


def bound_of(process: Any) -> float:
    """Return the lower bound of the log evidence of a process."""
    if process.basis.gives_means:
        raise ValueError(NOT_KEPT.format("a bound of the evidence"))
    return float(process.bound)


def plan_patch_fit(
    data: FitData,
    variational: Variational | None = None,
    *,
    is_outline: bool = False,
) -> PlannedFit:
    """Plan a fit through inducing patches, which are chosen here.

    Models of labels that have no targets are refused. An outline is not carried out:
    nothing is learned, and patches are drawn.
    """
    settings, problem, samples = data.settings, data.problem, data.samples
    noisy = tuple(require_targets(model) for model in data.models)
    basis, resources = samples.basis.kernel_basis, EstimatorResources(settings)
    if basis is None:
        refuse_kernel(settings.owner, PRECOMPUTED)
    choices = read_terms(settings, basis.kernel, basis.image_shape)
    used, reason = settings.for_problem(
        problem, samples.training, has_labels=bool(noisy)
    )
    if noisy and learns_by_bound(settings):
        raise ValueError(
            f"optimizer='elbo' has no bound for {noisy[0].likelihood!r}: use "
            "likelihood='softmax', 'robustmax', 'bernoulli' or 'gaussian', or "
            "optimizer='loo'."
        )
    if noisy:
        require_added_noise(repr(noisy[0].likelihood), used.noise)
        require_two_levels(noisy, problem)
    variance = _variance_of(settings, variational)
    learned = Learned(basis, choices, variational)
    if is_outline:
        first = replace(basis, kernel=at_first_weights(basis.kernel))
        stages = partial(stages_of_search, settings, problem, learned)
        learned = learned._replace(basis=first)
    else:
        learned = learn_patches(settings, problem, learned, used)
    plan = plan_patches(
        learned.basis,
        used,
        variance,
        learned.choices,
        resources,
        learned.variational,
        noisy,
        root=learned.root,
        is_outline=is_outline,
    )
    if is_outline:
        before = tuple(stages(plan.basis.n_samples))
        return PlannedFit(data, plan, resources, reason, before=before)
    warn_of_blindness(learned.basis.kernel, basis.images())
    return PlannedFit(data, plan, resources, reason, learned.result)


def require_targets(model: LabelModel) -> NoisyModel:
    """Return a model of labels that become targets; raise for any other."""
    if not isinstance(model, NoisyModel):
        raise ValueError(  # noqa: TRY004  (a wrong setting, not a wrong type)
            f"Patches have no closed form for {model.likelihood!r}: use likelihood="
            "'gaussian' or 'dirichlet', which have targets, or 'softmax', 'robustmax' "
            "or 'bernoulli', which are variational."
        )
    return model


def _variance_of(settings: GPSettings, variational: Variational | None) -> str:
    """Return the treatment of the variance that features leave out."""
    word = settings.read("variance", word_of(VARIANCES))
    if word != AUTO:
        return word
    models_labels = variational is not None and variational.likelihood is not None
    return SOR if models_labels and not learns_by_bound(settings) else DTC


def learns_by_bound(settings: GPSettings) -> bool:
    """Return whether the kernel is learned by the bound over all images."""
    return isinstance(settings.read("optimizer", as_patch_choice), VariationalBound)


def warn_of_first_batch(reason: str, wanted: object) -> None:
    """Warn if the first call of `partial_fit` has too few patches for those to come.

    The reason is that of the report, and `wanted` the number of inducing patches.
    """
    is_auto = isinstance(wanted, str)
    if reason and not is_auto:
        warn_caller(
            "Inducing patches are those of the first call of `partial_fit`, of which "
            f"{reason} (n_inducing={wanted!r}): begin with a larger batch.",
            UserWarning,
        )


def has_closed_form(estimator: Any) -> bool:
    """Return whether inference has sums to which images can be added.

    Raises
    ------
    AttributeError
        If it has not, with the remedy: `partial_fit` is then no method.
    """
    likelihood, word = estimator.likelihood, estimator.inference
    is_word = isinstance(likelihood, str) and likelihood in VARIATIONAL_LIKELIHOODS
    is_variational = is_word or isinstance(likelihood, VariationalLikelihood)
    if is_variational or (isinstance(word, str) and word == VARIATIONAL):
        raise AttributeError(NO_CLOSED_FORM)
    return True


def read_variational(
    settings: GPSettings, likelihood: Any, n_classes: int
) -> Variational | None:
    """Return the variational inference that a classifier asks for; None for none."""
    needs_it = isinstance(likelihood, VariationalLikelihood)
    word = settings.read("inference", word_of((AUTO, COLLAPSED, VARIATIONAL)))
    steps = Steps(
        settings.read("batch_size", as_count),
        settings.read("max_iter", as_count),
        settings.read("learning_rate", as_rate),
        settings.read("tol", as_positive, allows_zero=True),
    )
    if needs_it and word == COLLAPSED:
        raise ValueError(
            f"inference='collapsed' has no closed form for {likelihood!r}: use "
            "inference='variational', or likelihood='gaussian' or 'dirichlet'."
        )
    if word == COLLAPSED or not (needs_it or word == VARIATIONAL):
        return None
    is_profiled = isinstance(settings["amplitude"], str)
    if needs_it:
        n_latents = likelihood.n_latents(n_classes)
        return Variational(likelihood, steps, n_latents, is_profiled)
    if type(likelihood) is not Gaussian:
        raise ValueError(
            f"inference='variational' has no expected log likelihood for "
            f"{likelihood!r}: use likelihood='softmax', 'robustmax', 'bernoulli' or "
            "'gaussian'."
        )
    return Variational(None, steps, n_classes, is_profiled)
