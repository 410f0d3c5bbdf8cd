"""Noise, amplitude and parts of a process, from the settings of an estimator."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from skconvgp.estimators._doors import Training
from skconvgp.estimators._noise import MOST_INPUTS, usual_noise, why_no_choice
from skconvgp.estimators._resolve import (
    AUTO,
    resolve_amplitude,
    resolve_completion,
    resolve_fraction,
    resolve_noise,
    resolve_solver,
)
from skconvgp.flows._kernel_search import Learned
from skconvgp.inference import UNINFORMED
from skconvgp.processes import LabelModel, Parts, Planner, Problem, Settings


def parts_of(
    estimator: Any,
    models_of: Callable[[Problem], list[LabelModel]] = lambda _: [],
    *,
    keeps_left_out: bool = False,
) -> Parts:
    """Return the checked parts of the process of an estimator.

    Parameters
    ----------
    estimator : estimator
        Has the settings.
    models_of : callable
        As in `Parts`; by default all targets share one noise variance.
    keeps_left_out : bool, default=False
        As in `Parts`.
    """
    return Parts(
        copy.deepcopy(resolve_solver(estimator, estimator.solver)),
        estimator.solver,
        resolve_completion(estimator, estimator.completion),
        resolve_fraction(estimator, estimator.observed_fraction),
        models_of,
        keeps_left_out,
    )


def settings_of(
    estimator: Any,
    problem: Problem,
    planner: Planner,
    learned: Learned | None,
    training: Training,
) -> Settings:
    """Return noise and amplitude: learned, or from the settings.

    Parameters
    ----------
    estimator : estimator
        Has the settings.
    problem : Problem
        The problem that will be fitted.
    planner : Planner
        Knows whether the choice of the noise is affordable.
    learned : Learned or None
        Result of a search.
    training : Training
        Holds whether the targets determine an amplitude.
    """
    amplitude = amplitude_of(estimator, training)
    if learned is not None and learned.amplitude is not None:
        amplitude = learned.amplitude
    if learned is not None and learned.noise is not None:
        return Settings(learned.noise, amplitude)
    noise = noise_of(
        estimator,
        problem,
        has_labels=bool(planner.parts.models_of(problem)),
        affords_choice=lambda: planner.affords_choice(problem, MOST_INPUTS),
        learned=None if learned is None else learned.usual_noise,
    )
    return Settings(noise, amplitude)


def amplitude_of(estimator: Any, training: Training) -> float | str | None:
    """Return the amplitude; it is not profiled if the targets determine none."""
    amplitude = resolve_amplitude(estimator, estimator.amplitude)
    is_unknown = amplitude == "profile" and not training.is_informed
    return UNINFORMED if is_unknown else amplitude


def noise_of(
    estimator: Any,
    problem: Problem,
    *,
    has_labels: bool,
    affords_choice: Callable[[], bool],
    learned: float | None = None,
) -> float | str:
    """Return "loo" or a number for "auto", and any other setting as it is.

    Parameters
    ----------
    estimator : estimator
        Has the setting, and is told why the data choose no noise, for its report.
    problem : Problem
        The problem that will be fitted.
    has_labels : bool
        Whether the labels determine a noise.
    affords_choice : callable
        Returns whether choosing the noise costs at most as much as the fit itself.
    learned : float or None
        Noise that was learned with the kernel.
    """
    noise = resolve_noise(estimator, estimator.noise_variance)
    if noise != AUTO:
        return noise
    if not has_labels:
        why_not = why_no_choice(problem)
        if not why_not and affords_choice():
            return "loo"
        if learned is not None:
            return learned
        estimator._noise_reason = why_not
    return usual_noise(has_classes=problem.codes is not None)
