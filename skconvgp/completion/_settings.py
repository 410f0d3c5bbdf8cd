"""Checks of the settings of strategies."""

from numbers import Integral
from typing import NoReturn

from skconvgp._parts import Part

__all__ = ["is_int", "reject"]


def is_int(value: object, least: int) -> bool:
    """Say whether a setting is an int of at least this size."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        return False
    return int(value) >= least


def reject(part: Part, name: str, expected: str, got: object) -> NoReturn:
    """Raise scikit-learn's sentence about a wrong parameter."""
    raise ValueError(
        f"The {name!r} parameter of {type(part).__name__} must be {expected}. Got "
        f"{got!r} instead."
    )
