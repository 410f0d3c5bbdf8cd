"""Some training samples, whose contrasts and prior variances are the usual ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skconvgp._typing import FloatArray
from skconvgp.estimators._repeats import BLOCK, marks_of_rows

MOST_SHOWN = 256  # different samples
MIXING = np.uint64(0x9E3779B97F4A7C15)  # odd, so that no two marks become one


@dataclass(frozen=True)
class ShownSamples:
    """Those samples whose numbers are the smallest.

    The number of a sample follows from its values alone: copies, the order of samples
    and batches change nothing.
    """

    numbers: NDArray[np.uint64]  # (m,), in increasing order
    weights: FloatArray  # (m,), of all copies
    # Values (m,) of each of them by name: "contrast", and "prior" if it is known.
    seen: dict[str, FloatArray]

    @classmethod
    def of(
        cls,
        rows: NDArray[Any],
        weights: FloatArray,
        variances_of: Callable[[NDArray[Any]], FloatArray] | None,
    ) -> Self:
        """Return some of the rows (n, d), with prior variances by a function."""
        marks = marks_of_rows(rows) * MIXING
        marks ^= marks >> np.uint64(29)
        whole = cls(marks, weights, {"contrast": contrasts(rows)})
        chosen = whole._smallest()
        if variances_of is None:
            return chosen
        first = np.unique(marks, return_index=True)[1][:MOST_SHOWN]
        seen = chosen.seen | {"prior": variances_of(rows[first])}
        return cls(chosen.numbers, chosen.weights, seen)

    def join(self, other: Self) -> Self:
        """Return the samples of both, with the values that are known of both."""
        both = type(self)(
            np.concatenate([self.numbers, other.numbers]),
            np.concatenate([self.weights, other.weights]),
            {
                name: np.concatenate([values, other.seen[name]])
                for name, values in self.seen.items()
                if name in other.seen
            },
        )
        return both._smallest()

    def _smallest(self) -> Self:
        """Return the different samples of the smallest numbers."""
        numbers, first, copies = np.unique(
            self.numbers, return_index=True, return_inverse=True
        )
        totals = np.bincount(copies.ravel(), self.weights).astype(np.float64)
        first = first[:MOST_SHOWN]
        seen = {name: values[first] for name, values in self.seen.items()}
        return type(self)(numbers[:MOST_SHOWN], totals[:MOST_SHOWN], seen)


def contrasts(rows: NDArray[Any]) -> FloatArray:
    """Return the standard deviations (n,) of the values of rows (n, d)."""
    step = max(1, BLOCK // max(1, rows.shape[1]))
    parts = [
        rows[start : start + step].std(axis=1, dtype=np.float64)
        for start in range(0, max(1, len(rows)), step)
    ]
    return np.concatenate(parts)
