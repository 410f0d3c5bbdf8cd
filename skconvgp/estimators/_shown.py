"""Prior variances of some training samples, which show which ones are usual."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skconvgp._typing import FloatArray
from skconvgp.estimators._repeats import marks_of_rows

MOST_SHOWN = 256  # different samples
MIXING = np.uint64(0x9E3779B97F4A7C15)  # odd, so that no two marks become one


@dataclass(frozen=True)
class ShownVariances:
    """Prior variances of those samples whose numbers are the smallest.

    The number of a sample follows from its values alone: copies, the order of samples
    and batches change nothing.
    """

    numbers: NDArray[np.uint64]  # (m,), in increasing order
    variances: FloatArray  # (m,)
    weights: FloatArray  # (m,), of all copies

    @classmethod
    def of(
        cls,
        rows: NDArray[Any],
        weights: FloatArray,
        variances_of: Callable[[NDArray[Any]], FloatArray],
    ) -> Self:
        """Return the variances of some of the rows (n, d), by a function of rows."""
        marks = marks_of_rows(rows) * MIXING
        marks ^= marks >> np.uint64(29)
        numbers, first, copies = np.unique(
            marks, return_index=True, return_inverse=True
        )
        totals = np.bincount(copies.ravel(), weights).astype(np.float64)[:MOST_SHOWN]
        variances = variances_of(rows[first[:MOST_SHOWN]])
        return cls(numbers[:MOST_SHOWN], variances, totals)

    def join(self, other: Self) -> Self:
        """Return the variances of the samples of both."""
        numbers = np.concatenate([self.numbers, other.numbers])
        variances = np.concatenate([self.variances, other.variances])
        weights = np.concatenate([self.weights, other.weights])
        numbers, first, copies = np.unique(
            numbers, return_index=True, return_inverse=True
        )
        totals = np.bincount(copies.ravel(), weights).astype(np.float64)[:MOST_SHOWN]
        return type(self)(numbers[:MOST_SHOWN], variances[first[:MOST_SHOWN]], totals)
