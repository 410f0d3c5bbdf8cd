"""How an estimator is fitted through the columns of landmarks, and extended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from skconvgp.completion import Nystrom
from skconvgp.completion._landmarks import LANDMARKS
from skconvgp.estimators._doors import Samples, Training
from skconvgp.estimators._fitting import Result
from skconvgp.estimators._series import warn_of_basis
from skconvgp.estimators._warn import warn_caller
from skconvgp.estimators.compute._resources import EstimatorResources
from skconvgp.estimators.settings._checks import Given, as_count, word_of
from skconvgp.estimators.settings._gp import GPSettings
from skconvgp.processes import (
    LabelModel,
    Problem,
    Settings,
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
        strategy, variance, samples.basis, used, resources, models_of, problem
    )
    warn_of_basis(plan.basis, samples.rows)
    fitted, run = plan.fit(problem, resources)
    return Result(fitted, run, resources.report(reason))


def warn_of_first_landmarks(settings: Given, process: Any, training: Training) -> None:
    """Warn if a first batch had too few samples for the landmarks of all.

    Process and training are of the samples so far.
    """
    wanted, marks = _strategy(settings).n_landmarks, training.marks
    # There are no marks with a given matrix.
    n_first = len(process.model.targets if marks is None else np.unique(marks))
    is_second = process.left_out.subset is None
    if is_second and wanted is not None and n_first < wanted:
        warn_caller(
            "Landmarks are samples of the first call of `partial_fit`, which had "
            f"{n_first} different ones, fewer than n_landmarks={wanted}: begin with a "
            "larger batch.",
            UserWarning,
        )


def _strategy(given: Given) -> Nystrom:
    return Nystrom(
        given.read("n_landmarks", as_count),
        given.read("landmarks", word_of(LANDMARKS)),
        check_fraction=0.0,
    )
