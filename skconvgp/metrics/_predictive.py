"""Scores of the means and standard deviations of a regressor."""

from numbers import Real

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri
from sklearn.utils.validation import check_consistent_length

from skconvgp._ambient import public
from skconvgp._typing import FloatArray
from skconvgp.metrics._validation import check_numbers, check_targets, check_weights

__all__ = [
    "half_width",
    "interval_coverage",
    "interval_width",
    "negative_log_predictive_density",
]

AVERAGES = ("uniform_average", "raw_values")


@public
def negative_log_predictive_density(
    y_true: ArrayLike,
    y_mean: ArrayLike,
    y_std: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    multioutput: str | ArrayLike = "uniform_average",
) -> float | FloatArray:
    r"""Return the mean negative log density of y under Gaussian predictions.

    For a sample with mean m and standard deviation s it is

    .. math:: \tfrac12 \log(2 \pi s^2) + \frac{(y - m)^2}{2 s^2}.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, k)
        Observations.
    y_mean : array-like of the same shape
        Predictive means.
    y_std : array-like of the same shape
        Predictive standard deviations, above 0: those of the observations, not of the
        latent function, as ``predict_latent(X, return_std=True, noise=True)`` returns.
    sample_weight : array-like of shape (n,), default=None
        Weights of the samples.
    multioutput : str or array-like of shape (k,), default="uniform_average"
        "uniform_average" returns the mean over the outputs, "raw_values" one value for
        each output; an array has the weights of the mean.

    Returns
    -------
    density : float or ndarray of shape (k,)
        Smaller is better; it may be negative. It is in nats, and depends on the unit
        of y.

    Raises
    ------
    ValueError
        If the shapes differ, a deviation is not above 0, or `multioutput` is unknown.

    See Also
    --------
    interval_coverage : Share of the observations within an interval.
    sklearn.metrics.mean_pinball_loss : The proper score of a quantile.

    Notes
    -----
    Another unit of y adds the same constant to the density of every model. Differences
    between models do not depend on it.

    References
    ----------
    Rasmussen and Williams, "Gaussian processes for machine learning", 2006, equation
    2.34.

    Examples
    --------
    >>> from skconvgp.metrics import negative_log_predictive_density
    >>> f"{negative_log_predictive_density([0.0, 1.0], [0.0, 0.0], [1.0, 1.0]):.3f}"
    '1.169'
    """
    truth, mean, std = _check_predictions(y_true, y_mean, y_std)
    if (std == 0.0).any():
        raise ValueError("`y_std` must be > 0 for a density, got 0.")
    errors = (truth - mean) / std
    densities = 0.5 * np.log(2.0 * np.pi) + np.log(std) + 0.5 * errors**2
    return _average(densities, sample_weight, multioutput)


@public
def interval_coverage(
    y_true: ArrayLike,
    y_mean: ArrayLike,
    y_std: ArrayLike,
    *,
    level: float = 0.95,
    sample_weight: ArrayLike | None = None,
    multioutput: str | ArrayLike = "uniform_average",
) -> float | FloatArray:
    """Return the share of observations within central Gaussian intervals.

    It should be near `level`. If it is below, the deviations are too small; if it is
    above, they are too large.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, k)
        Observations.
    y_mean : array-like of the same shape
        Predictive means.
    y_std : array-like of the same shape
        Predictive standard deviations, at least 0: those of the observations, not of
        the latent function, as ``predict_latent(X, return_std=True, noise=True)``
        returns.
    level : float, default=0.95
        Probability of the interval, between 0 and 1.
    sample_weight : array-like of shape (n,), default=None
        Weights of the samples.
    multioutput : str or array-like of shape (k,), default="uniform_average"
        "uniform_average" returns the mean over the outputs, "raw_values" one value for
        each output; an array has the weights of the mean.

    Returns
    -------
    coverage : float or ndarray of shape (k,)
        Between 0 and 1.

    Raises
    ------
    ValueError
        If the shapes differ, a deviation is negative, `level` is not between 0 and 1,
        or `multioutput` is unknown.

    See Also
    --------
    interval_width : Mean width of the intervals.
    sklearn.metrics.mean_pinball_loss : The proper score of a quantile. The sum of the
        losses of both ends, divided by ``(1 - level) / 2``, is the interval score.

    References
    ----------
    Gneiting, Balabdaoui and Raftery, "Probabilistic forecasts, calibration and
    sharpness", 2007, section 3. The interval score: Gneiting and Raftery, "Strictly
    proper scoring rules, prediction, and estimation", 2007, equation 43.

    Examples
    --------
    >>> from skconvgp.metrics import interval_coverage
    >>> y_true, y_mean, y_std = [0.1, -0.5, 3.0, 0.9], [0.0] * 4, [1.0] * 4
    >>> interval_coverage(y_true, y_mean, y_std)
    0.75
    >>> interval_coverage(y_true, y_mean, y_std, level=0.5)
    0.5
    """
    truth, mean, std = _check_predictions(y_true, y_mean, y_std)
    is_inside = np.abs(truth - mean) <= half_width(level) * std
    return _average(is_inside, sample_weight, multioutput)


@public
def interval_width(
    y_std: ArrayLike,
    *,
    level: float = 0.95,
    sample_weight: ArrayLike | None = None,
    multioutput: str | ArrayLike = "uniform_average",
) -> float | FloatArray:
    """Return the mean width of central Gaussian intervals: the sharpness of forecasts.

    If the intervals of two models have the right coverage, the model with the narrower
    intervals is better.

    Parameters
    ----------
    y_std : array-like of shape (n,) or (n, k)
        Predictive standard deviations, at least 0.
    level : float, default=0.95
        Probability of the interval, between 0 and 1.
    sample_weight : array-like of shape (n,), default=None
        Weights of the samples.
    multioutput : str or array-like of shape (k,), default="uniform_average"
        "uniform_average" returns the mean over the outputs, "raw_values" one value for
        each output; an array has the weights of the mean.

    Returns
    -------
    width : float or ndarray of shape (k,)
        In units of y.

    Raises
    ------
    ValueError
        If a deviation is negative, `level` is not between 0 and 1, or `multioutput` is
        unknown.

    See Also
    --------
    interval_coverage : Share of the observations within such an interval.

    References
    ----------
    Gneiting, Balabdaoui and Raftery, "Probabilistic forecasts, calibration and
    sharpness", 2007, section 3.3.

    Examples
    --------
    >>> from skconvgp.metrics import interval_width
    >>> f"{interval_width([1.0, 2.0]):.2f}"
    '5.88'
    """
    return _average(
        2.0 * half_width(level) * _check_std(y_std), sample_weight, multioutput
    )


def _check_predictions(
    y_true: ArrayLike, y_mean: ArrayLike, y_std: ArrayLike
) -> tuple[FloatArray, FloatArray, FloatArray]:
    truth, mean = check_targets(y_true, "y_true"), check_targets(y_mean, "y_mean")
    std = _check_std(y_std)
    check_consistent_length(truth, mean, std)
    if not truth.shape == mean.shape == std.shape:
        raise ValueError(
            "`y_true`, `y_mean` and `y_std` must have the same number of outputs, got "
            f"{truth.shape[1]}, {mean.shape[1]} and {std.shape[1]}."
        )
    return truth, mean, std


def _check_std(y_std: ArrayLike) -> FloatArray:
    std = check_targets(y_std, "y_std")
    if (std < 0.0).any():
        raise ValueError(f"`y_std` must not be negative, got {std.min():.4g}.")
    return std


def half_width(level: float) -> float:
    """Return half the width of a central interval, in standard deviations."""
    if not isinstance(level, Real) or not 0.0 < level < 1.0:
        raise ValueError(f"`level` must be a number between 0 and 1, got {level!r}.")
    return float(ndtri(0.5 + level / 2.0))


def _average(
    values: NDArray[np.float64] | NDArray[np.bool_],
    sample_weight: ArrayLike | None,
    multioutput: str | ArrayLike,
) -> float | FloatArray:
    """Return the mean of values of shape (n, k) over samples, and over outputs."""
    weights = check_weights(sample_weight, len(values))
    means: FloatArray = np.average(values, axis=0, weights=weights)
    if not isinstance(multioutput, str):
        shares = check_numbers(multioutput, "multioutput", len(means))
        return float(np.average(means, weights=shares))
    if multioutput not in AVERAGES:
        words = ", ".join(map(repr, AVERAGES))
        raise ValueError(
            f"`multioutput` must be one of {words} or the weights of the outputs, got "
            f"{multioutput!r}."
        )
    return means if multioutput == "raw_values" else float(means.mean())
