"""Warnings in the name of the caller of the package."""

import inspect
import warnings
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

__all__ = ["ask_each", "warn_caller", "warn_once"]

Answer = TypeVar("Answer")

# This package, and what scikit-learn wraps around a `fit` that has callbacks.
INSIDE = (__name__.partition(".")[0], "sklearn.callback", "contextlib")
# Messages of `warn_once`, each with the call that warned.
WARNED: dict[str, object] = {}


@dataclass(frozen=True)
class Warned:
    """A warning of one of several estimators, which is not told yet.

    Parameters
    ----------
    message : str
        The sentence.
    category : type
        Class of the warning.
    kind : object
        Equal for warnings of one thing, whose messages may have other figures.
    """

    message: str
    category: type[Warning]
    kind: object


# What an estimator warns of while `ask_each` listens to it.
HEARD: ContextVar[list[Warned] | None] = ContextVar("HEARD", default=None)


def warn_caller(message: str, category: type[Warning], kind: object = None) -> None:
    """Warn at the line outside the package that called into it.

    Parameters
    ----------
    message : str
        The sentence.
    category : type
        Class of the warning.
    kind : object, optional
        What the warning is of, if its message has figures that may differ.
    """
    heard = HEARD.get()
    if heard is None:
        _warn(message, category)
    else:
        heard.append(Warned(message, category, kind or message))


def ask_each(
    estimators: Mapping[str, Any], ask: Callable[[Any], Answer]
) -> list[Answer]:
    """Return the answers of estimators; what several of them warn of is told once.

    Parameters
    ----------
    estimators : dict
        The estimators by name.
    ask : callable
        Asks one of them.
    """
    heard: dict[object, dict[str, Warned]] = {}
    answers = []
    try:
        for name, one in estimators.items():
            own: list[Warned] = []
            token = HEARD.set(own)
            try:
                answers.append(ask(one))
            finally:
                HEARD.reset(token)
                for warned in own:
                    heard.setdefault(warned.kind, {}).setdefault(name, warned)
    finally:
        for by_name in heard.values():
            _warn_of_several(by_name, len(estimators))
    return answers


def _warn_of_several(by_name: dict[str, Warned], n_asked: int) -> None:
    """Warn of one thing that some of several estimators warn of."""
    first, *others = by_name.values()
    names = ", ".join(map(repr, by_name))
    whom = f"{len(by_name)} of {n_asked} estimators, {names}"
    is_same = all(one.message == first.message for one in others)
    figures = "" if is_same else f"; the figures are those of {next(iter(by_name))!r}"
    warn_caller(f"{first.message} This is said of {whom}{figures}.", first.category)


def _warn(message: str, category: type[Warning]) -> None:
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
        _warn(message, category)
    except Warning:
        WARNED.pop(message)
        raise


def _is_ours(module: str) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in INSIDE)
