"""A process as the last step of a pipeline."""

from typing import Any

from sklearn.pipeline import Pipeline

__all__ = ["last_inputs", "last_step"]


def last_step(estimator: Any) -> Any:
    """Return the last step of a pipeline, and any other estimator itself."""
    return estimator[-1] if isinstance(estimator, Pipeline) else estimator


def last_inputs(estimator: Any, X: Any) -> Any:
    """Return what the last step of a fitted pipeline is given."""
    return estimator[:-1].transform(X) if isinstance(estimator, Pipeline) else X
