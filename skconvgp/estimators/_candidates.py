"""A kernel in the place of a process: the usual one that has it."""

from typing import Any

from skconvgp.estimators._classification import ConvNetGPClassifier
from skconvgp.estimators._regression import ConvNetGPRegressor
from skconvgp.kernels import Kernel

__all__ = ["usual_process"]


def usual_process(candidate: Any, *, is_label: bool) -> Any:
    """Return the process that a kernel stands for, and anything else itself."""
    if not isinstance(candidate, Kernel):
        return candidate
    cls = ConvNetGPClassifier if is_label else ConvNetGPRegressor
    return cls(candidate, noise_variance="evidence")
