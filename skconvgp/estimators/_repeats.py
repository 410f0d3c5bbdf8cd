"""Samples that come again in a later batch, found by marks of their values."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skconvgp.estimators._warn import warn_caller

BLOCK = 2**15  # values that are read at a time
# Share of the different samples of a batch that may have come before, and number of
# such samples that are worth a warning.
LARGEST_SHARE, LEAST = 0.5, 10
# Tables of few values repeat rows anyway: share of different ones among samples so far.
LEAST_DIFFERENT = 0.5


def marks_of(rows: NDArray[Any], y: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a number for each sample: equal ones share it, others hardly ever.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
        Inputs.
    y : ndarray of shape (n, ...)
        Their labels or targets.
    """
    return marks_of_rows(rows) ^ (np.uint64(3) * marks_of_rows(_numbers(y)))


def _numbers(y: NDArray[Any]) -> NDArray[Any]:
    """Return labels or targets as rows of numbers."""
    if y.dtype.kind not in "biuf":
        y = np.array([zlib.crc32(str(label).encode()) for label in y.ravel()])
    return y.reshape(len(y), -1)


def marks_of_rows(rows: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a number for each row (n, d): equal ones share it."""
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
    different, known = np.unique(marks), np.unique(before)
    n_again = int(np.isin(different, known).sum())
    is_table = len(known) < LEAST_DIFFERENT * len(before)
    if n_again >= max(LEAST, LARGEST_SHARE * len(different)) and not is_table:
        warn_caller(
            f"{n_again} of the {len(different)} different samples of this batch have "
            "the values of earlier ones. If they are the same samples, add each once: "
            "copies predict each other when samples are left out, so that calibration "
            "and leave-one-out values are too confident.",
            UserWarning,
        )
