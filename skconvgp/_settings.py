"""Checks of the settings of pluggable parts."""

import math
import operator
from collections.abc import Iterable
from numbers import Integral, Real
from typing import NoReturn

import numpy as np

from skconvgp._parts import Part
from skconvgp._typing import Bounds

__all__ = [
    "FIXED",
    "as_bounds",
    "as_float",
    "is_int",
    "is_number",
    "one_of",
    "reject",
    "require",
    "shown",
]

MOST_SHOWN = 500  # letters of a setting in a message
FIXED = "fixed"  # given instead of bounds: the hyperparameter is not learned


def is_int(value: object, least: int = 1, most: int | None = None) -> bool:
    """Say whether a setting is an int within bounds."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        return False
    return int(value) >= least and (most is None or int(value) <= most)


def is_number(value: object) -> bool:
    """Say whether a setting is a finite number > 0."""
    return 0.0 < as_float(value) < math.inf


def as_float(value: object) -> float:
    """Return a number as a float, infinite out of range, and NaN for anything else."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if operator.gt(value, 0) else -math.inf


def shown(value: object) -> str:
    """Return a setting as a message shows it; Python prints no int of 5000 digits."""
    try:
        text = repr(value)
    except ValueError:
        return f"{type(value).__name__} that is too long to print"
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def one_of(words: Iterable[str]) -> str:
    """Return the allowed words as a message lists them: "one of 'a', 'b'"."""
    return f"one of {', '.join(map(repr, words))}"


def require(part: Part, name: str, is_allowed: bool, expected: str) -> None:
    """Raise unless a setting is allowed."""
    if not is_allowed:
        reject(part, name, expected, getattr(part, name))


def reject(part: Part, name: str, expected: str, got: object) -> NoReturn:
    """Raise a ValueError in scikit-learn's words for a wrong parameter."""
    raise ValueError(
        f"The {name!r} parameter of {type(part).__name__} must be {expected}. Got "
        f"{shown(got)} instead."
    )


def as_bounds(bounds: object) -> Bounds:
    """Return the bounds of a hyperparameter: a pair (low, high), or "fixed"."""
    if isinstance(bounds, str) and bounds == FIXED:
        return FIXED
    if isinstance(bounds, tuple | list | np.ndarray) and len(bounds) == 2:
        low, high = map(as_float, bounds)
        if 0.0 < low <= high < math.inf:
            return (low, high)
    raise ValueError(
        f"Bounds of a hyperparameter must be 'fixed' or a pair (low, high) with "
        f"0 < low <= high, got {shown(bounds)}."
    )
