"""Sums of probabilities and outcomes in bins of the probability."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skconvgp._typing import FloatArray

__all__ = ["Bins", "sum_in_bins"]

STRATEGIES = ("uniform", "quantile")
# Added before a share is rounded down to a bin, so that the rounding error of sums of
# weights moves no sample to another bin.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Bins:
    """Sums over the samples of each bin."""

    # (n_bins + 1,); a bin includes its lower edge, and the last one both.
    edges: FloatArray
    weight: FloatArray  # (n_bins,), sums of the weights
    predicted: FloatArray  # (n_bins,), sums of the probabilities
    observed: FloatArray  # (n_bins,), sums of the outcomes


def sum_in_bins(
    probabilities: FloatArray,
    outcomes: NDArray[Any],
    weights: FloatArray,
    n_bins: int,
    strategy: str,
) -> Bins:
    """Sum probabilities and outcomes (n,) in bins of the probabilities."""
    if not isinstance(n_bins, int | np.integer) or n_bins < 1:
        raise ValueError(f"`n_bins` must be an int >= 1, got {n_bins!r}.")
    if strategy not in STRATEGIES:
        words = ", ".join(map(repr, STRATEGIES))
        raise ValueError(f"`strategy` must be one of {words}, got {strategy!r}.")
    if strategy == "uniform":
        edges = np.arange(n_bins + 1) / n_bins
    else:
        edges = _equal_mass(probabilities, weights, n_bins)
    bins = np.searchsorted(edges[1:-1], probabilities, side="right")
    weight, predicted, observed = (
        np.bincount(bins, values, minlength=len(edges) - 1).astype(np.float64)
        for values in (weights, weights * probabilities, weights * outcomes)
    )
    return Bins(edges, weight, predicted, observed)


def _equal_mass(values: FloatArray, weights: FloatArray, n_bins: int) -> FloatArray:
    """Return edges of at most n_bins bins of about the same weight.

    Equal values stay together, in the bin in which the middle of their weight lies.
    """
    distinct, group_of = np.unique(values[weights > 0.0], return_inverse=True)
    masses = np.bincount(group_of, weights[weights > 0.0])
    middle = (np.cumsum(masses) - masses / 2.0) / masses.sum()
    bins = np.floor(n_bins * middle + ROUNDING)
    is_first = np.flatnonzero(np.diff(bins)) + 1
    return np.concatenate((distinct[:1], distinct[is_first], distinct[-1:]))
