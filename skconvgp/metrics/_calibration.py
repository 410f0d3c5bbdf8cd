"""Scores of calibration: differences between probabilities and frequencies."""

import numpy as np
from numpy.typing import ArrayLike

from skconvgp._ambient import public
from skconvgp._typing import FloatArray
from skconvgp.metrics._binning import Bins, sum_in_bins
from skconvgp.metrics._validation import check_probabilities, check_weights

__all__ = ["brier_decomposition", "expected_calibration_error", "reliability_table"]

KINDS = ("top", "classwise")


@public
def expected_calibration_error(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    labels: ArrayLike | None = None,
    n_bins: int = 15,
    strategy: str = "uniform",
    kind: str = "top",
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Return the expected calibration error.

    The samples are put into bins by the probability of their most probable class; the
    error is

    .. math:: \sum_b \frac{n_b}{n} |\mathrm{accuracy}_b - \mathrm{confidence}_b|.

    With ``kind="classwise"``, they are put into bins by the probability of each class
    in turn, and the mean probability of a bin is compared with the share of the class
    in it. The error is then the mean over the classes.

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
    n_bins : int, default=15
        Number of bins.
    strategy : {"uniform", "quantile"}, default="uniform"
        Whether bins have the same width or about the same weight. Samples of the same
        probability are in one bin, so that there may be fewer than `n_bins`.
    kind : {"top", "classwise"}, default="top"
        Whether only the most probable class is judged, or each class.
    sample_weight : array-like of shape (n,), default=None
        Weights of the samples.

    Returns
    -------
    error : float
        Between 0 (calibrated) and 1.

    Raises
    ------
    ValueError
        If the shapes do not fit, a row is no distribution, `y_true` has a label that is
        not in `labels`, `n_bins` is below 1, or `strategy` or `kind` is unknown.

    See Also
    --------
    brier_decomposition : Calibration as a part of a proper score.
    reliability_table : Accuracy and confidence of each bin.
    sklearn.metrics.log_loss : A proper score, which also judges accuracy.

    Notes
    -----
    The error is not a proper score: it is 0 for forecasts that are the same for all
    samples and right on average. It is biased upwards if bins hold few samples, the
    more so the better the classifier is calibrated.

    References
    ----------
    Guo, Pleiss, Sun and Weinberger, "On calibration of modern neural networks", 2017,
    equation 3. Class by class: Kull et al., "Beyond temperature scaling: obtaining
    well-calibrated multi-class probabilities with Dirichlet calibration", 2019, section
    2. In bins of equal weight: Nixon et al., "Measuring calibration in deep learning",
    2019, adaptive calibration error.

    Examples
    --------
    >>> from skconvgp.metrics import expected_calibration_error
    >>> y_prob = [[0.9, 0.1], [0.9, 0.1], [0.2, 0.8]]
    >>> round(expected_calibration_error([0, 1, 1], y_prob), 3)
    0.333
    >>> round(expected_calibration_error([0, 1, 1], y_prob, kind="classwise"), 3)
    0.333
    """
    if kind not in KINDS:
        words = ", ".join(map(repr, KINDS))
        raise ValueError(f"`kind` must be one of {words}, got {kind!r}.")
    if kind == "top":
        bins = [_top_bins(y_true, y_prob, labels, n_bins, strategy, sample_weight)]
    else:
        bins = _class_bins(y_true, y_prob, labels, n_bins, strategy, sample_weight)
    # For sums over a bin, |observed - predicted| is n_b |accuracy_b - confidence_b|.
    gaps = [np.abs(b.observed - b.predicted).sum() / b.weight.sum() for b in bins]
    return float(np.mean(gaps))


@public
def reliability_table(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    labels: ArrayLike | None = None,
    n_bins: int = 15,
    strategy: str = "uniform",
    sample_weight: ArrayLike | None = None,
) -> dict[str, FloatArray]:
    """Return accuracy and confidence in bins of the predicted class's probability.

    `sklearn.calibration.calibration_curve` is for two classes. This table is for any
    number of classes, judged by the most probable one, and has the weight of each bin.

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
    n_bins : int, default=15
        Number of bins.
    strategy : {"uniform", "quantile"}, default="uniform"
        Whether bins have the same width or about the same weight. Samples of the same
        probability are in one bin, so that there may be fewer than `n_bins`.
    sample_weight : array-like of shape (n,), default=None
        Weights of the samples.

    Returns
    -------
    table : dict of ndarray of shape (n_bins,)
        For each bin: "low" and "high", its edges; "weight", the sum of the weights of
        its samples, or their number without weights; "confidence", the mean probability
        of the most probable class; "accuracy", the share of right answers. The last two
        are NaN in a bin without weight.

    Raises
    ------
    ValueError
        If the shapes do not fit, a row is no distribution, `y_true` has a label that is
        not in `labels`, `n_bins` is below 1, or `strategy` is unknown.

    See Also
    --------
    expected_calibration_error : The mean gap between accuracy and confidence.
    skconvgp.display.ReliabilityDisplay : The table as a picture.

    References
    ----------
    Guo, Pleiss, Sun and Weinberger, "On calibration of modern neural networks", 2017,
    section 2.

    Examples
    --------
    >>> from skconvgp.metrics import reliability_table
    >>> y_prob = [[0.9, 0.1], [0.9, 0.1], [0.4, 0.6]]
    >>> table = reliability_table([0, 1, 1], y_prob, n_bins=4)
    >>> for name, column in table.items():
    ...     print(f"{name:10} {column}")
    low        [0.   0.25 0.5  0.75]
    high       [0.25 0.5  0.75 1.  ]
    weight     [0. 0. 1. 2.]
    confidence [nan nan 0.6 0.9]
    accuracy   [nan nan 1.  0.5]
    """
    bins = _top_bins(y_true, y_prob, labels, n_bins, strategy, sample_weight)
    return {
        "low": bins.edges[:-1],
        "high": bins.edges[1:],
        "weight": bins.weight,
        "confidence": _ratio(bins.predicted, bins.weight),
        "accuracy": _ratio(bins.observed, bins.weight),
    }


@public
def brier_decomposition(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    labels: ArrayLike | None = None,
    n_bins: int = 15,
    strategy: str = "uniform",
    sample_weight: ArrayLike | None = None,
) -> tuple[float, float, float]:
    r"""Return reliability, resolution and uncertainty, the parts of the Brier score.

    For one class with probabilities p, put into bins by p, let :math:`\bar p_b` be the
    mean probability of bin b, :math:`o_b` the share of the class in this bin, and
    :math:`o` the share of the class among all samples. Then

    .. math::

       \underbrace{\sum_b \frac{n_b}{n} (\bar p_b - o_b)^2}_\mathrm{reliability}
       - \underbrace{\sum_b \frac{n_b}{n} (o_b - o)^2}_\mathrm{resolution}
       + \underbrace{o (1 - o)}_\mathrm{uncertainty}

    is the Brier score of the forecasts :math:`\bar p_b`. The parts are summed over the
    classes, and halved if there are two, as `sklearn.metrics.brier_score_loss` does.

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
    n_bins : int, default=15
        Number of bins.
    strategy : {"uniform", "quantile"}, default="uniform"
        Whether bins have the same width or about the same weight. Samples of the same
        probability are in one bin, so that there may be fewer than `n_bins`.
    sample_weight : array-like of shape (n,), default=None
        Weights of the samples.

    Returns
    -------
    reliability : float
        Mean squared difference between probabilities and frequencies; 0 if calibrated.
    resolution : float
        Variance of the frequencies between bins; larger is better, and the uncertainty
        is the most.
    uncertainty : float
        Score of a forecast of the classes' shares for every sample. It depends on the
        data only.

    Raises
    ------
    ValueError
        If the shapes do not fit, a row is no distribution, `y_true` has a label that is
        not in `labels`, `n_bins` is below 1, or `strategy` is unknown.

    See Also
    --------
    sklearn.metrics.brier_score_loss : The score itself; for more than two classes since
        scikit-learn 1.7.
    sklearn.metrics.d2_brier_score : The score relative to the uncertainty, since 1.8.

    Notes
    -----
    Reliability - resolution + uncertainty is the Brier score itself if all forecasts of
    a bin have the same value, and close to it if bins are narrow.

    References
    ----------
    Murphy, "A new vector partition of the probability score", 1973.

    Examples
    --------
    >>> from sklearn.metrics import brier_score_loss
    >>> from skconvgp.metrics import brier_decomposition
    >>> y_true, y_prob = [0, 0, 1, 1], [0.1, 0.6, 0.6, 0.6]
    >>> parts = brier_decomposition(y_true, y_prob, n_bins=10)
    >>> reliability, resolution, uncertainty = parts
    >>> print(f"{reliability:.4f} {resolution:.4f} {uncertainty:.4f}")
    0.0058 0.0833 0.2500
    >>> print(f"{reliability - resolution + uncertainty:.4f}")
    0.1725
    >>> print(f"{brier_score_loss(y_true, y_prob):.4f}")
    0.1725
    """
    bins = _class_bins(y_true, y_prob, labels, n_bins, strategy, sample_weight)
    scale = 0.5 if len(bins) == 2 else 1.0
    parts = scale * np.sum([_brier_parts(b) for b in bins], axis=0)
    return float(parts[0]), float(parts[1]), float(parts[2])


def _brier_parts(bins: Bins) -> tuple[float, float, float]:
    """Return reliability, resolution and uncertainty of one class."""
    is_used = bins.weight > 0.0
    weight = bins.weight[is_used]
    total = weight.sum()
    forecast, share = bins.predicted[is_used] / weight, bins.observed[is_used] / weight
    base = bins.observed.sum() / total
    reliability = weight @ (forecast - share) ** 2 / total
    resolution = weight @ (share - base) ** 2 / total
    return reliability, resolution, base * (1.0 - base)


def _ratio(sums: FloatArray, weight: FloatArray) -> FloatArray:
    """Return the mean of each bin; NaN if the bin has no weight."""
    means = np.full(len(weight), np.nan)
    np.divide(sums, weight, out=means, where=weight > 0.0)
    return means


def _top_bins(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    labels: ArrayLike | None,
    n_bins: int,
    strategy: str,
    sample_weight: ArrayLike | None,
) -> Bins:
    truth, probabilities, columns = check_probabilities(y_true, y_prob, labels)
    weights = check_weights(sample_weight, len(truth))
    confidence = probabilities.max(axis=1)
    is_right = columns[probabilities.argmax(axis=1)] == truth
    return sum_in_bins(confidence, is_right, weights, n_bins, strategy)


def _class_bins(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    labels: ArrayLike | None,
    n_bins: int,
    strategy: str,
    sample_weight: ArrayLike | None,
) -> list[Bins]:
    truth, probabilities, columns = check_probabilities(y_true, y_prob, labels)
    weights = check_weights(sample_weight, len(truth))
    return [
        sum_in_bins(probabilities[:, i], truth == label, weights, n_bins, strategy)
        for i, label in enumerate(columns)
    ]
