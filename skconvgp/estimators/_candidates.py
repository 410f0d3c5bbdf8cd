"""Candidates of a comparison or a mixture: kernels, processes and pipelines."""

from typing import Any

from sklearn.pipeline import Pipeline

from skconvgp.estimators._classification import ConvNetGPClassifier
from skconvgp.estimators._regression import ConvNetGPRegressor
from skconvgp.estimators._resolve import is_kernel

__all__ = ["is_candidate", "last_inputs", "last_step", "usual_process"]


def is_candidate(given: object) -> bool:
    """Return whether an object is a kernel or an estimator."""
    return is_kernel(given) or hasattr(given, "fit")


def usual_process(candidate: Any, *, is_label: bool) -> Any:
    """Return the estimator that a kernel stands for; other candidates as they are."""
    if not is_kernel(candidate):
        return candidate
    cls = ConvNetGPClassifier if is_label else ConvNetGPRegressor
    return cls(candidate, noise_variance="evidence")


def last_step(estimator: Any) -> Any:
    """Return the last step of a pipeline; other estimators as they are."""
    return estimator[-1] if isinstance(estimator, Pipeline) else estimator


def last_inputs(estimator: Any, X: Any) -> Any:
    """Return the inputs of the last step of a fitted pipeline."""
    return estimator[:-1].transform(X) if isinstance(estimator, Pipeline) else X
