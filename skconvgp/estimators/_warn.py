"""Warnings in the name of the caller of the package."""

import inspect
import warnings

__all__ = ["warn_caller"]

# This package, and what scikit-learn wraps around a `fit` that has callbacks.
INSIDE = (__name__.partition(".")[0], "sklearn.callback", "contextlib")


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn of the line outside the package that called into it, however deep."""
    frame, level = inspect.currentframe(), 1
    while frame is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def _is_ours(module: str) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in INSIDE)
