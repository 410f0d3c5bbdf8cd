"""Fit of functions whose noise, if any, follows from labels, by the whole matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from skconvgp._protocols import LinkLikelihood, lift
from skconvgp.engine import (
    Size,
    freeze,
    to_numpy,
)
from skconvgp.processes._facts import jitter_facts
from skconvgp.processes._model import Model
from skconvgp.processes._problem import (
    Problem,
    Record,
    Settings,
    entries,
    require_finite_noise,
)
from skconvgp.processes._process import KeptLeftOut, Labels, Process
from skconvgp.processes._run import (
    COVARIANCES,
    FACTOR,
    FLOPS,
    SOLVING,
    Run,
    Stage,
    clock,
)
from skconvgp.processes.basis._completed import Completed
from skconvgp.processes.basis._expansion import ExpansionBasis
from skconvgp.processes.basis._summed import GramBasis
from skconvgp.processes.fits._label_choice import best_model
from skconvgp.processes.fits._label_models import LabelModel, with_variances
from skconvgp.processes.posterior._label_pool import LabelledLeftOut
from skconvgp.processes.posterior._labelled import Labelled, LabelState

# Matrices of the size of the Gram matrix that are kept of the best likelihood so far
# while the next one is fitted.
KEPT_COPIES = 2
NEWTON_STEPS = 100  # of Laplace's approximation for all amplitudes, about


@dataclass(frozen=True)
class _Covariances:
    """Prior covariances of the training samples, of mean variance 1."""

    gram: Tensor  # (n, n), the covariances
    mean_diag: float  # divisor of the covariances
    n_pairs: int  # entries that were evaluated
    features: Tensor  # as in `LabelState`
    lift_map: Tensor  # as in `LabelState`
    # (m,), samples whose covariances with new ones are computed; None for all.
    anchors: Tensor | None
    residual_diag: Tensor  # (n,), prior variances minus the diagonal of the matrix


def fit_labelled(
    problem: Problem,
    basis: GramBasis | ExpansionBasis,
    run: Run,
    *,
    models_of: Callable[[Problem], list[LabelModel]],
    settings: Settings,
    completed: Completed | None = None,
    gram_seconds: float = 0.0,
    least_noise: float = 0.0,
) -> tuple[Process, Record]:
    """Fit every model of the labels; keep the lowest leave-one-out log loss.

    A completed matrix replaces the Gram matrix, and its factor is overwritten.
    `gram_seconds` were spent on covariances before, and `least_noise` is the lower
    bound of the noise that is added to the noise of labels.
    """
    device = run.config.device
    start, n = clock(device), len(problem.rows)
    models = models_of(problem)
    if completed is None:
        run.progress.expect(*label_stages(models, n))
    covariances = _covariances(problem, basis, run, completed)
    gram_seconds += clock(device) - start + (completed.seconds if completed else 0.0)

    start = clock(device)
    noise = max(float(settings.added_noise), least_noise)
    run.progress.enter(SOLVING)
    model, amplitude, posterior, facts = best_model(
        models,
        covariances.gram,
        covariances.mean_diag,
        problem,
        settings.amplitude,
        noise,
        basis.knows_variances,
    )
    facts += jitter_facts(posterior.jitter, posterior.least_noise, basis, run)
    offset = to_numpy(model.offset)
    residual_diag = amplitude * covariances.residual_diag.to(posterior.loo_cov)
    loo_cov = with_variances(posterior.loo_cov, residual_diag)
    unit = covariances.gram.new_ones(len(offset))
    dual = posterior.dual * amplitude
    if covariances.anchors is None:
        dual_coef = to_numpy(dual) / covariances.mean_diag
    else:
        by_feature = covariances.features.mT @ dual
        dual_coef = to_numpy(lift(covariances.lift_map, by_feature))
        basis = basis.take(to_numpy(covariances.anchors))
    state = LabelState(
        posterior.state, covariances.features, covariances.lift_map, posterior.jitter
    )
    fitted = Model.of(
        problem,
        mean_diag=covariances.mean_diag,
        noise=noise,
        amplitude=to_numpy(amplitude * unit),
        evidence=posterior.evidence,
    )
    kept = LabelledLeftOut if hasattr(model, "targets") else KeptLeftOut
    process = Process(
        fitted,
        basis,
        Labelled(
            dual_coef,
            freeze(state),
            covariances.mean_diag,
            float(np.max(fitted.amplitude)),
            len(problem.targets),
            model.has_one_latent,
        ),
        kept(to_numpy(posterior.loo_mean), to_numpy(loo_cov), has_noise=False),
        Labels(model.likelihood, offset),
        has_one_latent=model.has_one_latent,
    )
    report = {"jitter": posterior.jitter, "solver": "Cholesky"}
    seconds = clock(device) - start
    return process, Record(covariances.n_pairs, gram_seconds, seconds, report, facts)


def label_stages(models: list[LabelModel], n: int) -> tuple[Stage, ...]:
    """Return the stages of a fit to n labels."""
    is_link = bool(models) and isinstance(models[0].likelihood, LinkLikelihood)
    n_factors = NEWTON_STEPS if is_link else len(models)
    n_functions = len(models[0].offset) if models else 1
    return (
        Stage(COVARIANCES, entries(n), held=n**2),
        Stage(SOLVING, FACTOR * n_factors * n_functions * n**3, FLOPS),
    )


def label_size(models: list[LabelModel], n: int, extra: int) -> Size:
    """Return the numbers that a fit to n labels holds at once, plus `extra`."""
    copies = max(model.n_copies() for model in models)
    copies += KEPT_COPIES if len(models) > 1 else 0
    held = copies * n**2 + extra
    return Size(held, held, held)


def _covariances(
    problem: Problem,
    basis: Any,
    run: Run,
    completed: Completed | None,
) -> _Covariances:
    """Return the prior covariances of the samples, of mean variance 1."""
    require_finite_noise(1.0 / run.tensor(problem.weights))
    if completed is not None:
        mean_diag, features, residual_diag, lift_map = completed.in_units_(problem)
        return _Covariances(
            features @ features.mT,
            mean_diag,
            completed.gram.n_evaluated,
            features,
            lift_map,
            completed.gram.anchors,
            residual_diag,
        )
    oracle = basis.cached_oracle(run)
    diag, gram = oracle.diag(), oracle.gram()
    mean_diag = problem.mean_variance(diag)
    gram /= mean_diag
    empty, n = diag.new_empty(0, 0), len(diag)
    residual_diag = (diag.to(gram) / mean_diag - gram.diagonal()).clamp(min=0.0)
    return _Covariances(gram, mean_diag, entries(n), empty, empty, None, residual_diag)
