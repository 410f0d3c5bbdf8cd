"""Prior means of regressors: those of other regressors, or linear functions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_regressor
from sklearn.model_selection import GroupKFold
from sklearn.utils.validation import has_fit_parameter

from skconvgp._typing import FloatArray
from skconvgp.completion import CoarseKernel, SubsetOfData
from skconvgp.engine import to_numpy
from skconvgp.estimators._doors import Samples
from skconvgp.estimators.settings._checks import (
    Given,
    UnfitError,
    as_completion,
    is_precomputed,
)
from skconvgp.processes import LinearTrend, Problem

LINEAR = "linear"
FOLDS = 5  # of samples, each of which a regressor predicts from the others
MOST_FACTOR = 10  # of errors of others, over those of samples a mean is fitted to
ROUNDING = 1e-9  # errors that count as none, as a share of the largest target
INSTEAD = (
    "use mean=LinearRegression() of scikit-learn, or Ridge() for more features than "
    "samples"
)


def as_mean(mean: object) -> Any:
    """Return None, "linear" or a regressor."""
    if mean is None or (isinstance(mean, str) and mean == LINEAR):
        return mean
    can_predict = hasattr(mean, "predict") and not isinstance(mean, type)
    if can_predict and is_regressor(mean):
        return mean
    raise UnfitError("None, 'linear' or a regressor of scikit-learn")


def read_mean(settings: Given, *, has_linear: bool) -> Any:
    """Return the prior mean of the settings; raise unless these go together.

    Not all estimators have a linear mean that is integrated out.
    """
    mean = settings.read("mean", as_mean)
    if mean is None:
        return None
    if is_precomputed(settings["kernel"]):
        raise ValueError(
            f"mean={mean!r} is a function of the samples, and kernel='precomputed' has "
            "none: subtract its predictions from y, or use a kernel object."
        )
    if mean != LINEAR:
        return mean
    owner, why = settings.owner, ""
    completion = settings.read("completion", as_completion) if has_linear else None
    is_exact = isinstance(completion, SubsetOfData | CoarseKernel | None)
    if not has_linear or not is_exact or getattr(completion, "exact", None) is not None:
        why = "the Gram matrix of all samples, of which it takes solutions"
    elif settings.values.get("augment"):
        why = "one row for each image, and `augment` adds others"
    if why:
        raise ValueError(f"mean='linear' of {owner} needs {why}: {INSTEAD}.")
    return mean


def fit_mean(mean: Any, samples: Samples) -> tuple[Any, Samples]:
    """Return a fitted regressor, and what it leaves of samples.

    It is fitted to all samples, and once for each of the folds, which say how much
    larger its errors of new samples are. Samples with equal inputs, or of one group,
    are in one fold.
    """
    rows, y, weights = samples.rows, samples.y, samples.weights
    problem = replace(Problem.unlabelled(rows), groups=samples.groups)
    units = to_numpy(problem.inputs.left_out_with)
    n_folds = min(FOLDS, int(units.max()) + 1)
    if n_folds < 2:
        raise ValueError(
            f"mean={mean!r} is fitted to some of the samples to predict others, and "
            "all inputs are equal, or of one group: use mean=None."
        )
    is_weighted = not (weights == 1.0).all()
    if is_weighted and not has_fit_parameter(mean, "sample_weight"):
        raise ValueError(
            f"mean={mean!r} takes no `sample_weight` in `fit`: pass none, or use a "
            "regressor that does, such as LinearRegression()."
        )

    def fitted(some: Any) -> Any:
        more = {"sample_weight": weights[some]} if is_weighted else {}
        return clone(mean).fit(rows[some], y[some], **more)

    n_outputs = 1 if y.ndim == 1 else y.shape[1]
    found = np.empty((len(rows), n_outputs))
    for others, fold in GroupKFold(n_folds).split(rows, groups=units):
        found[fold] = mean_at(fitted(others), rows[fold], n_outputs)
    final = fitted(slice(None))
    own = mean_at(final, rows, n_outputs)
    columns = y.reshape(own.shape)
    of_own, of_others = (
        weights @ np.square(columns - one) / weights.sum() for one in (own, found)
    )
    is_learned = of_others > (ROUNDING * np.abs(columns).max(0)) ** 2
    ratios = of_own[is_learned] / of_others[is_learned]
    if (ratios < 1.0 / MOST_FACTOR**2).any():
        raise ValueError(
            f"mean={mean!r} predicts samples that it was fitted to more than "
            f"{MOST_FACTOR} times better than others, and leaves nothing of their "
            "targets to learn from: limit it, as by `min_samples_leaf` of trees or "
            "`alpha` of Ridge."
        )
    factor = max(1.0, 1.0 / np.sqrt(ratios.mean())) if ratios.size else 1.0
    return final, samples.less(own, found, float(factor))


def beside_plan(mean: Any) -> str:
    """Return what a fit does for a mean and no plan has; empty if there is nothing."""
    if mean is None or mean == LINEAR:
        return ""
    return f"up to {FOLDS + 1} fits of {mean!r}, of unknown time and memory"


def mean_at(mean: Any, rows: NDArray[Any], n_outputs: int) -> FloatArray:
    """Return what a fitted regressor predicts (n, k) at rows."""
    found = np.asarray(mean.predict(rows), dtype=np.float64)
    if found.size != len(rows) * n_outputs or not np.isfinite(found).all():
        raise ValueError(
            f"mean={mean!r} must predict a finite number for each sample and output, "
            f"shape {(len(rows), n_outputs)!r}, got shape {found.shape!r} with "
            f"{int((~np.isfinite(found)).sum())} that are not finite."
        )
    return found.reshape(len(rows), n_outputs)


def without_trend(problem: Problem) -> Problem:
    """Return what a linear function leaves of targets, with the function."""
    if problem.groups is not None:
        raise ValueError(
            f"mean='linear' leaves out single samples, and `groups` are given: "
            f"{INSTEAD}, which leave out groups."
        )
    weights, n_inputs = problem.weights, problem.inputs.n_inputs
    trend = LinearTrend.of(problem.rows, problem.targets, weights)
    m = trend.n_functions
    if n_inputs <= m or weights.sum() <= m:
        raise ValueError(
            f"mean='linear' has {m} coefficients, and there are {n_inputs} different "
            f"inputs of total weight {weights.sum():g}, of which it takes more: use "
            "mean=Ridge() of scikit-learn, or fewer features."
        )
    targets = problem.targets - trend.fitted(problem.rows)
    return replace(problem, targets=targets, trend=trend)
