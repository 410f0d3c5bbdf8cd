"""Calibration of labels on left-out samples, and the samples shown to it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._protocols import Calibration, Familiarity
from skconvgp._typing import FloatArray
from skconvgp.engine import rows_to_tensor, to_numpy
from skconvgp.estimators._doors import Training
from skconvgp.estimators._shown import ShownSamples
from skconvgp.estimators._warn import warn_caller
from skconvgp.inference import restored
from skconvgp.processes import (
    FittedProcess,
    Problem,
    Resources,
    Run,
    knows_class,
)

# Indices (m,) of left-out samples, and their latent means and variances (m, k).
LeftOutLatents = tuple[NDArray[np.intp], FloatArray, FloatArray]


def with_shown(
    training: Training,
    process: FittedProcess,
    problem: Problem,
    resources: Resources,
    run: Run | None = None,
) -> Training:
    """Return a record that shows some samples; a given matrix shows none.

    The problem has samples that are in the record, but may not be shown yet. The run is
    that of the fit, if there was one.
    """
    if not process.basis.knows_variances:
        return training

    variances_of = None
    if process.reads_prior_variances:
        of_whole: Any = process  # one of neighbours reads none
        variances_of = partial(of_whole.prior_variances, resources=resources, run=run)
    shown = ShownSamples.of(problem.rows, problem.weights, variances_of)
    before = training.shown
    return replace(training, shown=shown if before is None else before.join(shown))


def calibrate(
    likelihood: Any,
    process: FittedProcess,
    training: Training,
    found: LeftOutLatents,
    *,
    reads_variances: bool = True,
) -> Calibration:
    """Return the calibration by a likelihood, with the familiarity of its samples.

    `reads_variances` says whether the variances of new samples will be known, if the
    basis knows them.
    """
    if process.model.n_groups == 1:
        warn_caller(
            "Probabilities are not calibrated, as all samples are in one group: left "
            "out together, they have no others to be predicted from. Samples that do "
            "not belong together have other values in `groups`.",
            UserWarning,
        )
        return Calibration()
    (indices, mean, var), codes = found, training.codes
    assert codes is not None
    # Where most labels are left out with their class, only the others tell what to
    # think of new samples (docs/adr/calibration.md).
    weights = process.model.sample_weights
    is_known = knows_class(codes, weights, process.model.class_left_out)
    if 2.0 * weights[is_known].sum() >= weights.sum():
        is_known[:] = True
    some = is_known[indices]
    units = weights[indices] * some
    if some.any():
        indices, units, mean, var = indices[some], units[some], mean[some], var[some]
    own = rows_to_tensor(codes[indices])
    means, masses = in_double(mean), in_double(units)
    # A given matrix does not contain the prior variances of new samples.
    is_known_of_new = reads_variances and process.basis.knows_variances
    known = in_double(var) if is_known_of_new else None
    calibration: Calibration = likelihood.calibrate(means, known, own, masses)
    shown, seen, of_seen = training.shown, {}, masses[:0]
    if shown is not None:
        seen = {name: in_double(values) for name, values in shown.seen.items()}
        of_seen = in_double(shown.weights)
    usual = in_double(training.weights_as_new(indices, units))
    reads = calibration.spread > 0.0 or (
        reads_variances and getattr(likelihood, "needs_variance", True)
    )
    if not reads:  # predictions know neither
        known = None
        seen.pop("prior", None)
    familiarity = Familiarity.of(means, known, own, usual, seen, of_seen)
    return replace(calibration, familiarity=familiarity)


def restored_means(
    mean: FloatArray, lowest: FloatArray, class_factors: FloatArray
) -> FloatArray:
    """Return left-out means (m, c) as if no group had taken a class away.

    The lowest targets (c,) are those of other classes. The factors (m, c) are those of
    `restored`.
    """
    scores = restored(in_double(mean - lowest), in_double(class_factors))
    means: FloatArray = to_numpy(scores) + lowest
    return means


def in_double(values: FloatArray) -> Tensor:
    """Return an array as a tensor in double precision."""
    return rows_to_tensor(values).to(torch.float64)
