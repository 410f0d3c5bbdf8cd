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
    estimator: Any, training: Training, fitted: Fitted
) -> None:
    """Warn if new samples are compared with samples of other classes alone.

    Parameters
    ----------
    estimator : BaseGP
        Has the setting `completion`, or the settings of landmarks themselves.
    training : Training
        Record of all training samples.
    fitted : Fitted
        The fitted process, and its landmarks.
    """
    codes, landmarks = training.codes, fitted.landmarks
    compared = fitted.process.prior.n_samples
    is_sum = landmarks is not None and compared > len(landmarks)  # compares with all
    if codes is None or landmarks is None or is_sum:
        return
    missing = np.setdiff1d(codes, codes[np.isin(training.kept, landmarks)])
    what, remedy = _words(estimator)
    _warn(estimator, missing, f"{len(landmarks)} {what}", remedy)


def warn_of_new_classes(estimator: Any, codes: NDArray[Any] | None) -> None:
    """Warn if further samples (n,) are the first ones of a class, after landmarks."""
    if codes is not None:
        missing = np.setdiff1d(codes, estimator._training.codes)
        what = f"{len(estimator.landmark_indices_)} landmarks"
        remedy = "begin with a batch that has samples of every class"
        _warn(estimator, missing, what, remedy)


def _words(estimator: Any) -> tuple[str, str]:
    """Return the words for the compared samples, and for how classes get some."""
    part = getattr(estimator, "completion", estimator)
    if isinstance(part, SubsetOfData):
        return "samples of the subset", "take more, or selection='stratified'"
    if hasattr(part, "landmarks"):
        return "landmarks", "take more, or landmarks='stratified'"
    return "anchors", "raise `n_anchors`"


def _warn(estimator: Any, missing: NDArray[Any], what: str, remedy: str) -> None:
    if not len(missing):
        return
    names = estimator.classes_[missing[:MOST_NAMED]].tolist()
    others = len(missing) - len(names)
    more = f" and {others} more" if others else ""
    warn_caller(
        f"None of the {what} is of the classes {names}{more}, and new samples of these "
        f"may not be recognised: {remedy}.",
        UserWarning,
        kind=_warn,
    )
