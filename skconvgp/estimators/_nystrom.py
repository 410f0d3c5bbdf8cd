"""How an estimator is fitted through the columns of landmarks, and extended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skconvgp.completion import Nystrom
from skconvgp.completion._landmarks import LANDMARKS
from skconvgp.estimators._doors import Samples, read_further
from skconvgp.estimators._fitting import Result
from skconvgp.estimators._gp import BaseGP
from skconvgp.estimators._growing import publish_extension
from skconvgp.estimators._landmarks import warn_of_new_classes
from skconvgp.estimators._series import warn_of_prior
from skconvgp.estimators._warn import warn_caller
from skconvgp.estimators.compute._resources import EstimatorResources
from skconvgp.estimators.settings._checks import Given, as_count, word_of
from skconvgp.estimators.settings._gp import GPSettings
from skconvgp.processes import (
    LabelModel,
    Problem,
    Settings,
    can_grow,
    entries,
    extend_process,
    plan_landmarks,
    require_columns,
)

VARIANCES = ("dtc", "sor", "fitc")


def fit_landmarks(
    settings: GPSettings,
    problem: Problem,
    samples: Samples,
    models_of: Callable[[Problem], list[LabelModel]] = lambda _: [],
) -> Result:
    """Fit a process through the columns of landmarks.

    The samples of the problem are as they were given. `models_of` returns the models of
    labels that give each label its noise; none if all targets share one noise variance.
    """
    resources, strategy = EstimatorResources(settings), _strategy(settings)
    models = models_of(problem)
    require_columns(settings.owner, models, problem)
    variance = settings.read("variance", word_of(VARIANCES))
    noise, reason = settings.noise_for(
        problem,
        has_labels=bool(models),
        # With "fitc" each value of the noise needs a factorisation.
        affords_choice=lambda: variance != "fitc",
    )
    used = Settings(noise, settings.amplitude_for(samples.training))
    plan = plan_landmarks(
        strategy, variance, samples.prior, used, resources, models_of, problem
    )
    warn_of_prior(plan.prior, samples.rows)
    fitted, run = plan.fit(problem, resources)
    return Result(fitted, run, resources.report(reason))


def read_more(
    estimator: BaseGP,
    X: Any,
    y: Any,
    sample_weight: ArrayLike | None,
    *,
    read_y: Callable[[Any], NDArray[Any]] = np.asarray,
    **options: Any,
) -> Samples:
    """Return further samples; parameters are as in `read_training`."""
    process: Any = estimator._process
    if not can_grow(process):
        raise ValueError(
            f"This {type(estimator).__name__} was fitted with other settings, and no "
            "samples can be added: call `fit`, or `partial_fit` of a new estimator."
        )
    prior = process.prior.kernel_prior or process.prior
    is_fitc = getattr(process.posterior, "variance", None) == "fitc"
    if is_fitc and not prior.knows_variances:
        raise ValueError(
            "variance='fitc' needs the prior variances of further samples, which "
            "kernel='precomputed' does not give: use a kernel object."
        )
    further = read_further(
        estimator, X, y, sample_weight, prior, estimator._training, **options
    )
    return replace(further, y=read_y(further.y))


def extend(estimator: Any, problem: Problem, samples: Samples) -> None:
    """Add samples to a fitted process; landmarks, noise and units stay.

    Parameters
    ----------
    estimator : BaseGP
        An estimator fitted by `fit_landmarks`.
    problem : Problem
        The further samples.
    samples : Samples
        The further samples, as they were given.
    """
    process, wanted = estimator._process, _strategy(Given.of(estimator)).n_landmarks
    marks = estimator._training.marks  # none with a given matrix
    n_first = len(process.model.targets if marks is None else np.unique(marks))
    is_second = process.left_out.subset is None
    if is_second and wanted is not None and n_first < wanted:
        warn_caller(
            "Landmarks are samples of the first call of `partial_fit`, which had "
            f"{n_first} different ones, fewer than n_landmarks={wanted}: begin with a "
            "larger batch.",
            UserWarning,
        )
    if problem.codes is not None:
        new = np.setdiff1d(problem.codes, estimator._training.codes)
        n_landmarks = len(estimator.landmark_indices_)
        warn_of_new_classes(estimator.classes_[new], n_landmarks)
    add_samples(estimator, problem, samples)


def add_samples(estimator: Any, problem: Problem, samples: Samples) -> None:
    """Add samples to a fitted process of features; parameters are as in `extend`."""
    process = estimator._process
    warn_of_prior(process.prior, samples.rows)
    training = estimator._training.join(samples.training)
    resources = estimator._resources()
    problem = replace(problem, n_before=len(process.model.targets))
    extended, record = extend_process(
        process,
        problem,
        GPSettings.of(estimator).amplitude_for(training),
        resources.generator(),
        resources,
        estimator._training.codes,
    )
    n = len(extended.model.targets)
    n_pairs = estimator.fit_report_.n_pairs + record.n_pairs
    share = {"observed_fraction": n_pairs / entries(n)}
    publish_extension(estimator, extended, training, record, share)


def _strategy(given: Given) -> Nystrom:
    return Nystrom(
        given.read("n_landmarks", as_count),
        given.read("landmarks", word_of(LANDMARKS)),
        check_fraction=0.0,
    )
