"""Accuracy of a classifier that may decline to answer."""

import numpy as np
from numpy.typing import ArrayLike

from skconvgp._ambient import public
from skconvgp._typing import FloatArray
from skconvgp.metrics._validation import (
    check_numbers,
    check_probabilities,
    check_weights,
)

__all__ = ["accuracy_rejection_auc_score", "accuracy_rejection_curve"]


@public
def accuracy_rejection_curve(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    labels: ArrayLike | None = None,
    confidence: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the accuracy on the samples that are kept, by the share that is rejected.

    The least confident samples are rejected first, equally confident ones together.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels.
    y_prob : array-like of shape (n, n_classes) or (n,)
        Probabilities of the classes, as ``predict_proba`` returns them; for two
        classes, the second column is enough.
    labels : array-like of shape (n_classes,), default=None
        The label of each column, as in ``classes_``; None is the sorted labels of
        `y_true`.
    confidence : array-like of shape (n,), default=None
        Confidence by which samples are rejected, such as the negative standard
        deviations of latent functions; None is the probability of the most probable
        class.
    sample_weight : array-like of shape (n,), default=None
        Weights of the samples.

    Returns
    -------
    rejected : ndarray of shape (n_thresholds,)
        Share of the samples that is rejected, from 0 upwards.
    accuracy : ndarray of shape (n_thresholds,)
        Share of right answers among the samples that are kept.
    thresholds : ndarray of shape (n_thresholds,)
        Confidence below which samples are rejected: all values that occur, ascending.

    Raises
    ------
    ValueError
        If the shapes do not fit, a row is no distribution, or `y_true` has a label that
        is not in `labels`.

    See Also
    --------
    accuracy_rejection_auc_score : The area under the curve.

    References
    ----------
    Nadeem, Zucker and Hanczar, "Accuracy-rejection curves (ARCs) for comparing
    classification methods with a reject option", 2009.

    Examples
    --------
    >>> from skconvgp.metrics import accuracy_rejection_curve
    >>> y_true, y_prob = [0, 1, 1, 0], [0.1, 0.9, 0.6, 0.6]
    >>> rejected, accuracy, thresholds = accuracy_rejection_curve(y_true, y_prob)
    >>> print(rejected, accuracy, thresholds)
    [0.  0.5] [0.75 1.  ] [0.6 0.9]
    """
    truth, probabilities, columns = check_probabilities(y_true, y_prob, labels)
    weights = check_weights(sample_weight, len(truth))
    certainty = (
        probabilities.max(axis=1)
        if confidence is None
        else check_numbers(confidence, "confidence", len(truth))
    )
    is_counted = weights > 0.0
    thresholds, group_of = np.unique(certainty[is_counted], return_inverse=True)
    is_right = columns[probabilities.argmax(axis=1)] == truth
    masses = np.bincount(group_of, weights[is_counted])
    right = np.bincount(group_of, (weights * is_right)[is_counted])
    kept = np.cumsum(masses[::-1])[::-1]
    rejected = (np.cumsum(masses) - masses) / masses.sum()
    return rejected, np.cumsum(right[::-1])[::-1] / kept, thresholds


@public
def accuracy_rejection_auc_score(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    labels: ArrayLike | None = None,
    confidence: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Return the area under the accuracy-rejection curve.

    It is the mean accuracy over all shares of rejected samples. The curve is constant
    between its points. If no two samples are equally confident, one minus the area is
    the area under the risk-coverage curve.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels.
    y_prob : array-like of shape (n, n_classes) or (n,)
        Probabilities of the classes, as ``predict_proba`` returns them; for two
        classes, the second column is enough.
    labels : array-like of shape (n_classes,), default=None
        The label of each column, as in ``classes_``; None is the sorted labels of
        `y_true`.
    confidence : array-like of shape (n,), default=None
        Confidence by which samples are rejected, such as the negative standard
        deviations of latent functions; None is the probability of the most probable
        class.
    sample_weight : array-like of shape (n,), default=None
        Weights of the samples.

    Returns
    -------
    area : float
        Between 0 and 1; larger is better. If all samples are equally confident, it is
        the accuracy.

    Raises
    ------
    ValueError
        If the shapes do not fit, a row is no distribution, or `y_true` has a label that
        is not in `labels`.

    See Also
    --------
    accuracy_rejection_curve : The curve.
    sklearn.metrics.roc_auc_score : How well scores separate two classes.

    References
    ----------
    Nadeem, Zucker and Hanczar, "Accuracy-rejection curves (ARCs) for comparing
    classification methods with a reject option", 2009. Risk and coverage: Geifman,
    Uziel and El-Yaniv, "Bias-reduced uncertainty estimation for deep neural
    classifiers", 2019.

    Examples
    --------
    >>> from skconvgp.metrics import accuracy_rejection_auc_score
    >>> y_true, y_prob = [0, 1, 1, 0], [0.1, 0.9, 0.6, 0.6]
    >>> accuracy_rejection_auc_score(y_true, y_prob)
    0.875
    """
    rejected, accuracy, _ = accuracy_rejection_curve(
        y_true,
        y_prob,
        labels=labels,
        confidence=confidence,
        sample_weight=sample_weight,
    )
    return float(np.diff(rejected, append=1.0) @ accuracy)
