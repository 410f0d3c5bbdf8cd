"""How an estimator is fitted through the columns of landmarks, and extended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from skconvgp.completion import Nystrom
from skconvgp.completion._landmarks import LANDMARKS
from skconvgp.estimators._doors import Training
from skconvgp.estimators._fitting import FitData, PlannedFit
from skconvgp.estimators._warn import warn_caller
from skconvgp.estimators.compute._resources import EstimatorResources
from skconvgp.estimators.settings._checks import Given, as_count, word_of
from skconvgp.processes import (
    LabelModel,
    Problem,
    plan_landmarks,
    require_columns,
)

VARIANCES = ("dtc", "sor", "fitc")


def plan_landmark_fit(
    data: FitData,
    models_of: Callable[[Problem], list[LabelModel]] = lambda _: [],
) -> PlannedFit:
    """Plan a fit through the columns of landmarks.

    `models_of` returns the models of labels that give each label its noise; none if all
    targets share one noise variance.
    """
    settings, problem, samples = data.settings, data.problem, data.samples
    resources, strategy = EstimatorResources(settings), _strategy(settings)
    require_columns(settings.owner, data.models, problem)
    variance = settings.read("variance", word_of(VARIANCES))
    if problem.noise_variances is not None and variance == "fitc":
        raise ValueError(
            "variance='fitc' adds what landmarks leave out to one noise of all "
            "samples, and `noise_variance` is an array: use variance='dtc'."
        )
    used, reason = settings.for_problem(
        problem,
        samples.training,
        has_labels=bool(data.models),
        # With "fitc" each value of the noise needs a factorisation.
        affords_choice=lambda: variance != "fitc",
    )
    plan = plan_landmarks(
        strategy, variance, samples.basis, used, resources, models_of, problem
    )
    return PlannedFit(data, plan, resources, reason)


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
