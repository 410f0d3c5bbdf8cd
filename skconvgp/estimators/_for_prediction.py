"""Models for prediction: what is kept of a fit that predicts, and of no sample."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from skconvgp._protocols import Calibration
from skconvgp.estimators._calibrating import calibrate
from skconvgp.estimators._doors import Training
from skconvgp.estimators._intervals import LeftOutErrors
from skconvgp.estimators._report import FitReport
from skconvgp.processes import for_prediction

Fitted = TypeVar("Fitted")
OF_SAMPLES = ("landmark_indices_",)  # attributes that are dropped


def with_attributes(fitted: Fitted, **attributes: Any) -> Fitted:
    """Return a copy of a fitted object with other attributes, and without samples."""
    copied = copy.copy(fitted)
    for name in OF_SAMPLES:
        vars(copied).pop(name, None)
    vars(copied).update(attributes)
    return copied


def kept_of_labels(
    process: Any,
    training: Training,
    report: FitReport,
    likelihood: Any,
    calibration: Calibration,
    left_out: Callable[..., Any],
) -> dict[str, Any]:
    """Return attributes of a classifier that keeps what probabilities need.

    They are calibrated anew, on left-out means, as their variances are not kept.
    """
    if process.basis.gives_means:
        return {}
    if getattr(likelihood, "needs_variance", True):
        raise ValueError(
            f"Probabilities by {likelihood!r} need deviations, which a model for "
            "prediction does not keep: fit with likelihood='gaussian' or 'dirichlet'."
        )
    _require_folded(process, report)
    if calibration != Calibration():
        found = left_out(is_subset_enough=True)
        calibration = calibrate(
            likelihood, process, training, found, reads_variances=False
        )
    return {
        "_process": for_prediction(process, None),
        "_training": _without_samples(training),
        "calibration_": calibration,
        "temperature_": calibration.temperature,
    }


def kept_of_targets(
    process: Any,
    training: Training,
    report: FitReport,
    left_out: Callable[..., Any],
    *,
    is_scaled: bool,
) -> dict[str, Any]:
    """Return attributes of a regressor that keeps what means and intervals need.

    The deviation of all observations is that of left-out targets. `is_scaled` says
    whether the data scale deviations.
    """
    if process.basis.gives_means:
        return {}
    _require_folded(process, report)
    loo, model = left_out(is_subset_enough=True), process.model
    weights = training.weights_as_new(loo.indices, model.sample_weights[loo.indices])
    counts = np.isfinite(loo.var) & (weights > 0.0)
    variance = 1.0 + model.noise  # of a sample that nothing is known of
    if counts.any():
        variance = float(np.average(loo.var[counts], weights=weights[counts]))
    # Errors in units of one deviation for all.
    alike = replace(loo, var=np.where(counts, variance, np.nan), repeated=None)
    factor = model.error_factor * training.mean_factor
    errors = LeftOutErrors.of(alike, weights, model, is_scaled=is_scaled, factor=factor)
    model = replace(model, deviation_factors=errors.factors)
    return {
        "_process": for_prediction(replace(process, model=model), variance),
        "_training": _without_samples(training, errors),
    }


def _require_folded(process: Any, report: FitReport) -> None:
    """Raise unless means need neither training images nor inducing images."""
    parts = getattr(process.basis, "parts", ())
    pairs = zip(report.part_names, report.part_weights, strict=True)
    used = [name for name, weight in pairs if weight]
    comparing = {
        name: 0 for name, part in zip(used, parts, strict=False) if part.compares_images
    }
    if comparing:
        raise ValueError(
            "A model for prediction keeps no training images, with which some parts "
            f"compare new images: fit with part_weights={comparing!r}."
        )
    if process.folded.has_inducing_images:
        raise ValueError(
            "Inducing patches as large as images are training images, or means of "
            "some, which a model for prediction does not keep: use kernels of smaller "
            "patches alone."
        )


def _without_samples(
    training: Training, errors: LeftOutErrors | None = None
) -> Training:
    """Return a record of no samples."""
    return Training(
        training.kept[:0],
        0,
        training.mean_squares,
        is_informed=training.is_informed,
        is_single=training.is_single,
        errors=errors,
    )
