"""Samples that come again in a later batch, found by marks of their values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skconvgp.estimators._warn import warn_caller

__all__ = ["marks_of", "warn_of_repeats"]

BLOCK = 2**15  # values that are read at a time
# Share of a batch that may have come before: tables of few values repeat rows anyway.
LARGEST_SHARE = 0.5
LEAST = 10  # such samples that are worth a warning


def marks_of(rows: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a number for each row (n, d): equal rows share it, others hardly ever."""
    n, n_columns = rows.shape
    random_state = np.random.RandomState(0)
    halves = random_state.randint(2**63, size=n_columns, dtype=np.uint64)
    factors = halves * np.uint64(2) + np.uint64(1)
    marks = np.zeros(n, dtype=np.uint64)
    step = max(1, BLOCK // max(1, n_columns))
    for start in range(0, n, step):
        block = rows[start : start + step].astype(np.float64) + 0.0  # -0 becomes 0
        bits = block.view(np.uint64)
        bits ^= bits >> np.uint64(32)  # low bits of most numbers are zeros
        marks[start : start + step] = (bits * factors).sum(axis=1, dtype=np.uint64)
    return marks


def warn_of_repeats(
    marks: NDArray[np.uint64], before: NDArray[np.uint64] | None
) -> None:
    """Warn if most samples of a batch were added before.

    Parameters
    ----------
    marks, before : ndarray of uint64, or None
        Marks of the batch and of the samples so far; None if they are not known.
    """
    if before is None or not len(marks):
        return
    n_again = int(np.isin(marks, before).sum())
    if n_again >= max(LEAST, LARGEST_SHARE * len(marks)):
        warn_caller(
            f"{n_again} of the {len(marks)} samples of this batch have the values of "
            "earlier ones and are added as further samples. They predict each other "
            "when samples are left out, so that calibration and leave-one-out values "
            "are too confident. Add each sample once; `sample_weight` counts it more.",
            UserWarning,
        )
