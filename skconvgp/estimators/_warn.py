"""Warnings in the name of the caller of the package."""

import inspect
import warnings

__all__ = ["warn_caller", "warn_once"]

# This package, and what scikit-learn wraps around a `fit` that has callbacks.
INSIDE = (__name__.partition(".")[0], "sklearn.callback", "contextlib")
TOLD: dict[str, object] = {}  # messages of `warn_once`, each with who told it


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn of the line outside the package that called into it, however deep."""
    frame, level = inspect.currentframe(), 1
    while frame is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def warn_once(message: str, category: type[Warning]) -> None:
    """Warn as `warn_caller` does, of the same only once in a process.

    A search fits the same again and again. One that is made an error is told each time.
    """
    me = object()
    if TOLD.setdefault(message, me) is not me:
        return
    try:
        warn_caller(message, category)
    except Warning:
        TOLD.pop(message)
        raise


def _is_ours(module: str) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in INSIDE)
