"""A process as the last step of a pipeline."""

from typing import Any

from sklearn.pipeline import Pipeline

__all__ = ["last_inputs", "last_step"]


def last_step(estimator: Any) -> Any:
    """Return the last step of a pipeline; other estimators as they are."""
    return estimator[-1] if isinstance(estimator, Pipeline) else estimator


def last_inputs(estimator: Any, X: Any) -> Any:
    """Return the inputs of the last step of a fitted pipeline."""
    return estimator[:-1].transform(X) if isinstance(estimator, Pipeline) else X
