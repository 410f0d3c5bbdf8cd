"""Warnings in the name of the caller of the package."""

import inspect
import warnings

__all__ = ["warn_caller", "warn_once"]

# This package, and what scikit-learn wraps around a `fit` that has callbacks.
INSIDE = (__name__.partition(".")[0], "sklearn.callback", "contextlib")
WARNED: dict[
    str, object
] = {}  # messages of `warn_once`, each with the call that warned


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn at the line outside the package that called into it."""
    frame, level = inspect.currentframe(), 1
    while frame is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def warn_once(message: str, category: type[Warning]) -> None:
    """Warn as `warn_caller` does, once per message in an interpreter.

    A search over parameters would repeat the warning at each fit. A warning that a
    filter turns into an error is raised each time.
    """
    me = object()
    if WARNED.setdefault(message, me) is not me:
        return
    try:
        warn_caller(message, category)
    except Warning:
        WARNED.pop(message)
        raise


def _is_ours(module: str) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in INSIDE)
