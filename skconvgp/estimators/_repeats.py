"""Samples that come again: in a later batch, or nearly the same in one fit."""

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
# An image has near copies if j others are at less than this share of the usual
# distance, and the 2 j-th is much further away, by this factor of squares: images that
# vary in few ways are near others, too, but without such a gap. So many images are
# compared, and such a share of them is told.
NEAR, GAP, N_COMPARED, LEAST_NEAR = 0.1, 10.0, 256, 0.2
RANKS = 2 ** np.arange(7)  # j
ROWS = 512  # images that are compared at a time


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


def warn_of_near_copies(rows: NDArray[Any], own: NDArray[np.intp]) -> None:
    """Warn if many images (n, d) have another one that is nearly the same.

    Images with the same number in `own` (n,) are left out together, and no others.
    """
    n_near, n_seen = near_copies(rows, own)
    if n_near < max(LEAST, LEAST_NEAR * n_seen):
        return
    warn_caller(
        f"{n_near} of {n_seen} images that were compared with all have another one at "
        f"less than {NEAR:g} of the usual distance, such as a version of the same "
        "image. Predicted from that one when they are left out, they make the choice "
        "of noise and weights, left-out predictions and calibration too confident. "
        "Pass `groups` to `fit`: an array with the same value for all versions of an "
        "image.",
        UserWarning,
    )


def near_copies(rows: NDArray[Any], own: NDArray[np.intp]) -> tuple[int, int]:
    """Return how many of some images (n, d) have near copies, and how many were seen.

    A near copy has another number in `own` (n,). Each image is compared with all; the
    usual distance is the median of these.
    """
    n, largest = len(rows), float(max(rows.max(), -rows.min()))
    if n < 2 or largest == 0.0:
        return 0, n
    chosen = np.sort(np.random.RandomState(0).permutation(n)[:N_COMPARED])
    centre = (rows[chosen] / largest).mean(axis=0)
    some = (rows[chosen] / largest - centre).astype(np.float32)
    squares, usual = np.einsum("ij,ij->i", some, some), []
    nearest = np.full((len(chosen), 2 * RANKS[-1]), np.inf, dtype=np.float32)
    for start in range(0, n, ROWS):
        part = (rows[start : start + ROWS] / largest - centre).astype(np.float32)
        apart = squares[:, None] + np.einsum("ij,ij->i", part, part)
        apart -= 2.0 * some @ part.T
        usual.append(apart[:, :: max(1, n // N_COMPARED)])
        is_own = own[chosen][:, None] == own[start : start + ROWS]
        both = np.hstack([nearest, np.where(is_own, np.inf, apart)])
        nearest = np.partition(both, nearest.shape[1] - 1)[:, : nearest.shape[1]]
    nearest = np.sort(nearest).clip(min=0.0)
    limit = NEAR**2 * float(np.median(np.concatenate(usual, axis=1)))
    inner, outer = nearest[:, RANKS - 1], nearest[:, 2 * RANKS - 1]
    is_near = (inner < limit) & (outer >= GAP * inner)
    return int(is_near.any(axis=1).sum()), len(chosen)


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
