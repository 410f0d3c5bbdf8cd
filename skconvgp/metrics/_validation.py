"""Checks of the arguments of the scores."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d

from skconvgp._typing import FloatArray
from skconvgp.engine import host_values

__all__ = ["check_numbers", "check_probabilities", "check_targets", "check_weights"]

ROW_SUM_TOLERANCE = 1e-3  # of the sum of a row from 1, for probabilities in float32


def check_probabilities(
    y_true: ArrayLike, y_prob: ArrayLike, labels: ArrayLike | None
) -> tuple[NDArray[Any], FloatArray, NDArray[Any]]:
    """Return labels (n,), probabilities (n, n_classes) and columns (n_classes,)."""
    truth = column_or_1d(host_values(y_true, "y_true"))
    columns = np.unique(truth)
    if labels is not None:
        columns = column_or_1d(host_values(labels, "labels"))
    if len(np.unique(columns)) < len(columns):
        raise ValueError(f"`labels` must differ from each other, got {labels!r}.")
    given = host_values(y_prob, "y_prob")
    probabilities = check_array(
        given, ensure_2d=False, dtype=np.float64, input_name="y_prob"
    )
    if probabilities.ndim == 1:
        probabilities = np.column_stack((1.0 - probabilities, probabilities))
    check_consistent_length(truth, probabilities)
    if probabilities.shape[1] != len(columns):
        raise ValueError(
            f"`y_prob` must have a column for each of the {len(columns)} labels, got "
            f"shape {probabilities.shape!r} for labels of shape {truth.shape!r}; pass "
            "`labels` if `y_true` does not hold them all."
        )
    sums = probabilities.sum(axis=1)
    if (probabilities < 0.0).any() or (np.abs(sums - 1.0) > ROW_SUM_TOLERANCE).any():
        raise ValueError(
            "Rows of `y_prob` must be probabilities that sum to 1; sums range from "
            f"{sums.min():.4g} to {sums.max():.4g}, the least entry is "
            f"{probabilities.min():.4g}."
        )
    unknown = np.setdiff1d(truth, columns)
    if len(unknown):
        raise ValueError(f"`y_true` has labels that are not in `labels`: {unknown!r}.")
    return truth, probabilities, columns


def check_targets(values: ArrayLike, name: str) -> FloatArray:
    """Return numbers of shape (n, k), with one column for a single output."""
    targets: FloatArray = check_array(
        host_values(values, name), ensure_2d=False, dtype=np.float64, input_name=name
    )
    return targets[:, None] if targets.ndim == 1 else targets


def check_numbers(values: ArrayLike, name: str, n_numbers: int) -> FloatArray:
    """Return numbers of shape (n,)."""
    given = column_or_1d(host_values(values, name))
    numbers: FloatArray = check_array(
        given, ensure_2d=False, dtype=np.float64, input_name=name
    )
    if len(numbers) != n_numbers:
        raise ValueError(f"`{name}` must hold {n_numbers} numbers, got {len(numbers)}.")
    return numbers


def check_weights(sample_weight: ArrayLike | None, n_samples: int) -> FloatArray:
    """Return weights of shape (n,); ones if there are none."""
    if sample_weight is None:
        return np.ones(n_samples)
    weights = check_numbers(sample_weight, "sample_weight", n_samples)
    if (weights < 0.0).any() or not weights.any():
        raise ValueError("`sample_weight` must be >= 0, and not 0 for all samples.")
    return weights
