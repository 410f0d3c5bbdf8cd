"""Checks of settings, with messages that say what is allowed."""

import math
from numbers import Integral, Real
from typing import Any

import numpy as np
from torch import Tensor

from skconvgp._typing import Scalar, Value

__all__ = [
    "SEQUENCES",
    "as_items",
    "plain_value",
    "require_positive",
    "require_positive_int",
    "require_resolved",
    "require_variance",
    "require_within",
]


# Types of a setting with one number for each layer or feature.
SEQUENCES = (tuple, list, np.ndarray)


def as_items(value: Any) -> tuple[Any, ...]:
    """Return the numbers of a setting, one or several."""
    items = value.tolist() if isinstance(value, np.ndarray) else value
    return tuple(items) if isinstance(items, tuple | list) else (items,)


def require_resolved(
    kernel: object, name: str, value: object, wanted: str = "a number"
) -> None:
    """Raise if a setting follows from data and is not yet what it will be."""
    if value is None or isinstance(value, str):
        raise ValueError(
            f"`{name}` of {kernel!r} is {value!r}, which follows from training samples "
            f"that it has not seen: give {wanted}, `kernel.resolve(X_train)` or "
            "`kernel_` of a fitted estimator."
        )


def plain_value(value: Scalar) -> float:
    """Return a hyperparameter as a plain number, even while it is differentiated."""
    return float(value.detach()) if isinstance(value, Tensor) else float(value)


def require_variance(name: str, value: Value) -> None:
    """Raise unless a variance, or each of a tuple of them, is finite and >= 0."""
    for item in value if isinstance(value, tuple) else (value,):
        number = _as_number(item)
        if not (math.isfinite(number) and number >= 0.0):
            raise ValueError(
                f"`{name}` is a variance and must be a finite number >= 0, "
                f"got {value!r}."
            )


def require_positive(name: str, value: Scalar) -> None:
    """Raise unless a setting is a finite number > 0."""
    number = _as_number(value)
    if not (math.isfinite(number) and number > 0.0):
        raise ValueError(f"`{name}` must be a finite number > 0, got {value!r}.")


def require_within(name: str, value: object, largest: float) -> None:
    """Raise unless a setting is a number from -largest to largest."""
    if not abs(_as_number(value)) <= largest:
        raise ValueError(
            f"`{name}` must be a finite number from {-largest:g} to {largest:g}, "
            f"got {value!r}."
        )


def require_positive_int(name: str, value: object, largest: int | None = None) -> None:
    """Raise unless a setting is a whole number >= 1, and not above the largest."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        number = int(value)
        if number >= 1 and (largest is None or number <= largest):
            return
    allowed = "an int >= 1" if largest is None else f"an int from 1 to {largest}"
    raise ValueError(f"`{name}` must be {allowed}, got {value!r}.")


def _as_number(value: object) -> float:
    """Return a number as a float, or NaN for any other value."""
    if isinstance(value, Tensor):
        return plain_value(value)
    return float(value) if isinstance(value, Real) else math.nan
