"""Classifiers that the demo compares with, and the scores of all."""

from __future__ import annotations

from typing import Any

import sklearn
from numpy.typing import ArrayLike, NDArray
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from skconvgp.metrics import expected_calibration_error

__all__ = ["peers", "scores"]

HAS_TEMPERATURE = (1, 8)  # the first such version of scikit-learn


def peers() -> dict[str, Any]:
    """Return classifiers of vectors, whose settings are cross-validated."""
    version = tuple(map(int, sklearn.__version__.split(".")[:2]))
    return {
        "logistic regression": GridSearchCV(
            LogisticRegression(max_iter=2000),
            {"C": [0.1, 1, 10]},
            cv=3,
            scoring="neg_log_loss",
        ),
        "RBF SVM": CalibratedClassifierCV(
            GridSearchCV(SVC(C=10), {"gamma": ["scale", 0.02, 0.1]}, cv=3),
            method="temperature" if version >= HAS_TEMPERATURE else "sigmoid",
            cv=3,
        ),
    }


def scores(
    model: Any, y_prob: NDArray[Any], y: ArrayLike
) -> tuple[float, float, float]:
    """Return accuracy, log loss and calibration error of probabilities."""
    labels = model.classes_
    return (
        float(accuracy_score(y, labels[y_prob.argmax(axis=1)])),
        float(log_loss(y, y_prob, labels=labels)),
        float(expected_calibration_error(y, y_prob, labels=labels)),
    )
