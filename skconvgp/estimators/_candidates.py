"""The estimator that a kernel stands for among candidates."""

from typing import Any

from skconvgp.estimators._classification import ConvNetGPClassifier
from skconvgp.estimators._regression import ConvNetGPRegressor
from skconvgp.kernels import Kernel

__all__ = ["usual_process"]


def usual_process(candidate: Any, *, is_label: bool) -> Any:
    """Return the estimator that a kernel stands for; other candidates as they are."""
    if not isinstance(candidate, Kernel):
        return candidate
    cls = ConvNetGPClassifier if is_label else ConvNetGPRegressor
    return cls(candidate, noise_variance="evidence")
