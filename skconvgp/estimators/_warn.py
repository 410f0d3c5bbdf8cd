"""Warnings at the line of the user's code that called the package."""

import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

Answer = TypeVar("Answer")

# This package, and what scikit-learn wraps around a `fit` that has callbacks.
INSIDE = (__name__.partition(".")[0], "sklearn.callback", "contextlib")
# Messages that `warn_once` has given, each with the call that gave it.
WARNED: dict[str, object] = {}


@dataclass(frozen=True)
class Warned:
    """A warning that is held back, because other estimators may give the same one.

    Parameters
    ----------
    message : str
        The sentence.
    category : type
        Class of the warning.
    kind : object
        Equal for warnings of the same kind, whose messages may differ in figures.
    """

    message: str
    category: type[Warning]
    kind: object


# Collects the warnings of an estimator while `ask_each` runs; None outside of it.
HELD_BACK: ContextVar[list[Warned] | None] = ContextVar("HELD_BACK", default=None)


def warn_caller(message: str, category: type[Warning], kind: object = None) -> None:
    """Warn at the line outside the package that called into it.

    Parameters
    ----------
    message : str
        The sentence.
    category : type
        Class of the warning.
    kind : object, optional
        Equal for warnings of the same kind; by default the message.
    """
    held_back = HELD_BACK.get()
    if held_back is None:
        _warn(message, category)
    else:
        held_back.append(Warned(message, category, kind or message))


def ask_each(
    estimators: Mapping[str, Any], ask: Callable[[Any], Answer]
) -> list[Answer]:
    """Return the answers of estimators; give a warning of several of them once.

    Parameters
    ----------
    estimators : dict
        The estimators by name.
    ask : callable
        Asks one of them.
    """
    by_kind: dict[object, dict[str, Warned]] = {}
    answers = []
    try:
        for name, one in estimators.items():
            held_back: list[Warned] = []
            try:
                with _holding(held_back):
                    answers.append(ask(one))
            finally:
                for warned in held_back:
                    by_kind.setdefault(warned.kind, {}).setdefault(name, warned)
    finally:
        for by_name in by_kind.values():
            _warn_of_several(by_name, len(estimators))
    return answers


@contextmanager
def warnings_concern(part: str, told: tuple[type[Warning], ...] = ()) -> Iterator[None]:
    """Name the part of an estimator that warnings within are of.

    Parameters
    ----------
    part : str
        What the user did not fit, such as an estimator within an estimator.
    told : tuple of type, default=()
        Warnings that the outer estimator has given and that are left out.
    """
    held_back: list[Warned] = []
    try:
        with _holding(held_back):
            yield
    finally:
        for warned in held_back:
            if not issubclass(warned.category, told):
                message = f"{warned.message} This concerns {part}."
                warn_caller(message, warned.category, warned.kind)


@contextmanager
def without_warnings() -> Iterator[None]:
    """Give no warnings: they would be of samples that are made up."""
    with _holding([]):
        yield


@contextmanager
def _holding(held_back: list[Warned]) -> Iterator[None]:
    """Hold back the warnings within."""
    token = HELD_BACK.set(held_back)
    try:
        yield
    finally:
        HELD_BACK.reset(token)


def _warn_of_several(by_name: dict[str, Warned], n_asked: int) -> None:
    """Give one warning in place of one from each of several estimators."""
    first, *others = by_name.values()
    names = ", ".join(map(repr, by_name))
    estimators = f"{len(by_name)} of {n_asked} estimators, {names}"
    is_same = all(one.message == first.message for one in others)
    figures = "" if is_same else f"; the figures are those of {next(iter(by_name))!r}"
    warn_caller(f"{first.message} This concerns {estimators}{figures}.", first.category)


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
