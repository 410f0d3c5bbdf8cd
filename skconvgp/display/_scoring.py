"""Names of scores."""

from typing import Any

from sklearn.base import is_classifier, is_regressor

__all__ = ["score_name"]


def score_name(estimator: Any, scoring: Any) -> str:
    """Return the name of the score, for the axis."""
    if isinstance(scoring, str):
        return scoring.replace("neg_", "negative ").replace("_", " ")
    if scoring is None and is_classifier(estimator):
        return "accuracy"
    return "R²" if scoring is None and is_regressor(estimator) else "score"
