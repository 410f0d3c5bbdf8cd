"""Classes of which no sample is a landmark: warnings of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skconvgp.completion import SubsetOfData
from skconvgp.estimators._doors import Training
from skconvgp.estimators._warn import warn_caller
from skconvgp.processes import Fitted

MOST_NAMED = 10  # classes


def warn_of_uncovered_classes(
    classes: NDArray[Any], completion: object, training: Training, fitted: Fitted
) -> None:
    """Warn if new samples are compared with samples of other classes alone.

    The completion, or an estimator itself, has the settings of landmarks. The training
    is that of all samples.
    """
    codes, landmarks = training.codes, fitted.landmarks
    compared = fitted.process.basis.n_samples
    is_sum = landmarks is not None and compared > len(landmarks)  # compares with all
    if codes is None or landmarks is None or is_sum:
        return
    missing = np.setdiff1d(codes, codes[np.isin(training.kept, landmarks)])
    what, remedy = _words(completion)
    _warn(classes[missing], f"{len(landmarks)} {what}", remedy)


def warn_of_new_classes(new: NDArray[Any], landmarks: NDArray[np.intp]) -> None:
    """Warn if further samples are the first ones of classes, after landmarks."""
    remedy = "begin with a batch that has samples of every class"
    _warn(new, f"{len(landmarks)} landmarks", remedy)


def _words(part: object) -> tuple[str, str]:
    """Return the words for the compared samples, and for how classes get some."""
    if isinstance(part, SubsetOfData):
        return "samples of the subset", "take more, or selection='stratified'"
    if hasattr(part, "landmarks"):
        return "landmarks", "take more, or landmarks='stratified'"
    if hasattr(part, "n_landmarks"):
        return "landmarks", "raise `n_landmarks`"
    return "anchors", "raise `n_anchors`"


def _warn(missing: NDArray[Any], what: str, remedy: str) -> None:
    """Warn of classes that are missing among landmarks, if there are any."""
    if not len(missing):
        return
    names = missing[:MOST_NAMED].tolist()
    others = len(missing) - len(names)
    more = f" and {others} more" if others else ""
    warn_caller(
        f"None of the {what} is of the classes {names}{more}, and new samples of these "
        f"may not be recognised: {remedy}.",
        UserWarning,
        kind=_warn,
    )
