"""How far probabilities are from frequencies."""

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_array, check_consistent_length

__all__ = ["expected_calibration_error"]

ROW_SUM_TOLERANCE = 1e-3


def expected_calibration_error(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    labels: ArrayLike | None = None,
    n_bins: int = 15,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Return the expected calibration error of the predicted class.

    The samples are put into bins of equal width by the probability of their most
    probable class; the error is

    .. math:: \sum_b \frac{n_b}{n} |\mathrm{accuracy}_b - \mathrm{confidence}_b|.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels.
    y_prob : array-like of shape (n, n_classes)
        Probabilities of the classes, as of ``predict_proba``.
    labels : array-like of shape (n_classes,), default=None
        The label of each column, as in ``classes_``; None is the sorted labels of
        `y_true`.
    n_bins : int, default=15
        Number of bins.
    sample_weight : array-like of shape (n,), default=None
        Weights of the samples.

    Returns
    -------
    error : float
        Between 0 (calibrated) and 1.

    Raises
    ------
    ValueError
        If the shapes do not fit, a row is no distribution, or `n_bins` is below 1.

    References
    ----------
    Guo, Pleiss, Sun and Weinberger, "On calibration of modern neural networks", 2017,
    equation 3.

    Examples
    --------
    >>> from skconvgp.metrics import expected_calibration_error
    >>> y_prob = [[0.9, 0.1], [0.9, 0.1], [0.2, 0.8]]
    >>> round(expected_calibration_error([0, 1, 1], y_prob), 3)
    0.333
    """
    if not isinstance(n_bins, int | np.integer) or n_bins < 1:
        raise ValueError(f"`n_bins` must be an int >= 1, got {n_bins!r}.")
    probabilities = check_array(y_prob, dtype=np.float64, input_name="y_prob")
    truth = np.asarray(y_true)
    columns = np.unique(truth) if labels is None else np.asarray(labels)
    _check(truth, probabilities, columns)
    weights = np.ones(len(truth))
    if sample_weight is not None:
        weights = check_array(sample_weight, ensure_2d=False, dtype=np.float64)
        check_consistent_length(weights, truth)
        if (weights < 0.0).any() or not weights.any():
            raise ValueError("`sample_weight` must be >= 0, and not 0 for all samples.")
    top = probabilities.argmax(axis=1)
    confidence = probabilities[np.arange(len(truth)), top]
    is_right = columns[top] == truth
    bins = np.minimum((confidence * n_bins).astype(int), n_bins - 1)
    # |sum of (right - confidence)| of a bin is n_b |accuracy_b - confidence_b|.
    gaps = np.bincount(bins, weights * (is_right - confidence), minlength=n_bins)
    return float(np.abs(gaps).sum() / weights.sum())


def _check(
    truth: np.ndarray,
    probabilities: np.ndarray,
    columns: np.ndarray,
) -> None:
    check_consistent_length(truth, probabilities)
    if truth.ndim != 1 or probabilities.shape[1] != len(columns):
        raise ValueError(
            f"`y_prob` must have a column for each of the {len(columns)} labels, got "
            f"shape {probabilities.shape!r} for labels of shape {truth.shape!r}; pass "
            "`labels` where y_true does not hold them all."
        )
    sums = probabilities.sum(axis=1)
    if (probabilities < 0.0).any() or (np.abs(sums - 1.0) > ROW_SUM_TOLERANCE).any():
        raise ValueError(
            "Rows of `y_prob` must be probabilities that sum to 1; sums range from "
            f"{sums.min():.4g} to {sums.max():.4g}."
        )
    unknown = np.setdiff1d(truth, columns)
    if len(unknown):
        raise ValueError(f"y_true holds labels that `labels` does not: {unknown!r}.")
