"""Warnings of samples on another scale, and of weights that are too small."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skconvgp._typing import FloatArray
from skconvgp.estimators._warn import warn_caller
from skconvgp.exceptions import NotFiniteError, ScaleWarning

# Sizes of numbers whose squares, and the sums of these, are numbers, not 0 or infinite.
LEAST_SIZE, LARGEST_SIZE = 1e-150, 1e150
# Samples have another scale if their mean squares differ by this factor; for pixels up
# to 1 and up to 255 it is 65025.
OTHER_SCALE = 100.0
FEW = 0.25  # share of the samples that may have any scale, such as dark images
# With fewer features, the mean square of a sample varies too much to judge by it.
LEAST_FEATURES = 16
# Root mean square of X from which on the units of a network saturate; below one over it
# outputs hardly depend on X.
LARGEST_UNITS = 30.0
# Weights were hardly meant as numbers of copies if their mean, weighted by themselves,
# is smaller than the first number, or if their plain mean is, and all of them together
# count as fewer samples than the second.
LEAST_WEIGHT, FEWEST_COPIES = 0.1, 10.0
# Samples whose weights are a smaller share of the largest one are as good as left out.
LEAST_SHARE = 1e-3


def require_squares(rows: NDArray[Any], most: float = LARGEST_SIZE) -> None:
    """Raise if the largest number of samples (n, d) has a square that is none.

    Sizes above `most` overflow.
    """
    largest = max(float(rows.max(initial=0.0)), -float(rows.min(initial=0.0)))
    if largest == 0.0 or LEAST_SIZE <= largest <= most:
        return
    error = NotFiniteError if largest > 1.0 else ValueError
    raise error(
        f"The largest number of X has the size {largest:.3g}, and squares of such "
        f"numbers {'overflow' if largest > 1.0 else 'vanish'}: scale X to numbers near "
        "1, such as by dividing it by a number of that size."
    )


def mean_squares(rows: NDArray[Any]) -> tuple[float, float]:
    """Return the smallest mean square > 0 of a sample, and the largest.

    Raises a ValueError if squares vanish or overflow.
    """
    require_squares(rows)
    positive = _positive_squares(rows)
    if not len(positive):
        return 0.0, 0.0
    return float(positive.min()), float(positive.max())


def warn_of_scale(rows: NDArray[Any], fitted: tuple[float, float]) -> None:
    """Warn if most samples are far larger, or far smaller, than any sample of `fit`.

    A quarter of the samples is ignored, such as images that are nearly black.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
        New samples.
    fitted : tuple of float
        Result of :func:`mean_squares` for the samples of `fit`.
    """
    if rows.shape[1] < LEAST_FEATURES:
        return
    squares, (fitted_least, fitted_largest) = _positive_squares(rows), fitted
    if not len(squares):
        return
    least = float(np.quantile(squares, FEW, method="lower"))
    largest = float(np.quantile(squares, 1.0 - FEW, method="higher"))
    is_larger = least > OTHER_SCALE * fitted_largest > 0.0
    is_smaller = 0.0 < OTHER_SCALE * largest < fitted_least
    if is_larger or is_smaller:
        warn_caller(
            "X has another scale than in `fit`: the root mean square of its samples "
            f"is mostly {np.sqrt(least):.3g} to {np.sqrt(largest):.3g}, and was "
            f"{np.sqrt(fitted_least):.3g} to {np.sqrt(fitted_largest):.3g}. Scale both "
            "in the same way, such as pixels to 0..1 by X / 255, or put a scaler and "
            "the estimator in one Pipeline.",
            ScaleWarning,
        )


def warn_of_units(rows: NDArray[Any]) -> None:
    """Warn if values (n, d) are too large or too small for a network of layers."""
    squares = _positive_squares(rows)
    size = float(np.sqrt(squares.sum() / len(rows)))
    if 1.0 / LARGEST_UNITS <= size <= LARGEST_UNITS or not size:
        return
    effect = (
        "are too large for the prior of the weights"
        if size > 1.0
        else "are so small that the outputs hardly depend on them"
    )
    warn_caller(
        f"The values of X have a root mean square of {size:.3g}, and {effect}. Scale "
        "them to numbers near 1: put StandardScaler() and the estimator in one "
        "Pipeline, or divide pixels by 255.",
        ScaleWarning,
    )


def warn_of_weights(weights: FloatArray) -> None:
    """Warn if weights (n,) > 0 count as far fewer samples than there are."""
    shares, total = weights / weights.max(), float(weights.sum())
    n_counted = int((shares > LEAST_SHARE).sum())
    is_sum_small = total < min(FEWEST_COPIES, LEAST_WEIGHT * n_counted)
    is_mean_small = weights.max() < LEAST_WEIGHT * shares.sum() / (shares @ shares)
    if not is_sum_small and not is_mean_small:
        return
    warn_caller(
        f"The sample weights sum to {total:.3g}, and {len(weights)} samples "
        "count as so many of weight 1: a weight counts copies. Divide the weights by "
        "their mean unless that is meant, as by inverse variances of a known noise.",
        ScaleWarning,
    )


def _positive_squares(rows: NDArray[Any]) -> NDArray[np.float64]:
    """Return the mean squares of the samples that are not zero."""
    with np.errstate(over="ignore"):
        squares = np.einsum("ij,ij->i", rows, rows, dtype=np.float64) / rows.shape[1]
    positive: NDArray[np.float64] = squares[squares > 0.0]
    return positive
