"""Checks of settings, with messages that say what is allowed."""

import math
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from skconvgp._settings import is_int, shown
from skconvgp._tensors import reals
from skconvgp._typing import Scalar

__all__ = [
    "LARGEST_WINDOW",
    "SEQUENCES",
    "as_items",
    "numbers_of",
    "plain_value",
    "require_positive",
    "require_positive_int",
    "require_resolved",
    "require_variance",
    "require_within",
]


LARGEST_WINDOW = 2**16  # positions: far beyond any map that fits into memory
# Sizes of a length, the square of which is a number; of an int, which torch takes.
SMALLEST, LARGEST, LARGEST_INT = 1e-100, 1e100, 2**63 - 1
# Types of a setting with one number for each layer or feature.
SEQUENCES = (tuple, list, np.ndarray)


def as_items(value: Any) -> tuple[Any, ...]:
    """Return the numbers of a setting, one or several."""
    items = value.tolist() if isinstance(value, np.ndarray) else value
    return tuple(items) if isinstance(items, tuple | list) else (items,)


def require_resolved(
    kernel: object, name: str, value: object, wanted: str = "a number"
) -> None:
    """Raise if a setting that follows from data has no value yet."""
    if value is None or isinstance(value, str):
        raise ValueError(
            f"`{name}` of {kernel!r} is {value!r}, which follows from training samples "
            f"that it has not seen: give {wanted}, `kernel.resolve(X_train)` or "
            "`kernel_` of a fitted estimator."
        )


def numbers_of(value: Any, like: Tensor) -> Tensor:
    """Return several numbers, some of them differentiated, as a tensor of a kind."""
    items = [
        item if isinstance(item, Tensor) else reals(item) for item in as_items(value)
    ]
    return torch.stack([item.to(like.device, torch.float64) for item in items]).to(like)


def plain_value(value: Scalar) -> float:
    """Return a hyperparameter as a plain number, even while it is differentiated."""
    return float(value.detach()) if isinstance(value, Tensor) else float(value)


def require_variance(name: str, value: object, *, is_of_each: bool = False) -> None:
    """Raise unless a variance, or each of a tuple of them, is finite and >= 0.

    One of each feature may be any sequence or array.
    """
    is_several = is_of_each or isinstance(value, tuple)
    for item in as_items(value) if is_several else (value,):
        number = _as_number(item)
        if not (math.isfinite(number) and number >= 0.0):
            raise ValueError(
                f"`{name}` is a variance and must be a finite number >= 0, "
                f"got {shown(value)}.{_hint(item)}"
            )


def require_positive(name: str, value: Scalar) -> None:
    """Raise unless a setting is a number > 0, and its square is as well."""
    if not SMALLEST <= _as_number(value) <= LARGEST:
        raise ValueError(
            f"`{name}` must be a finite number > 0, from {SMALLEST:g} to {LARGEST:g}, "
            f"got {shown(value)}.{_hint(value)}"
        )


def require_within(name: str, value: object, largest: float) -> None:
    """Raise unless a setting is a number from -largest to largest."""
    if not abs(_as_number(value)) <= largest:
        raise ValueError(
            f"`{name}` must be a finite number from {-largest:g} to {largest:g}, "
            f"got {shown(value)}.{_hint(value)}"
        )


def require_positive_int(
    name: str, value: object, largest: int = LARGEST_WINDOW
) -> None:
    """Raise unless a setting is a whole number >= 1, and not above the largest."""
    if not is_int(value, most=largest):
        raise ValueError(
            f"`{name}` must be an int from 1 to {largest}, got {shown(value)}."
        )


def _as_number(value: object) -> float:
    """Return a number as a float; NaN for other values, and for ints torch refuses."""
    if isinstance(value, Tensor):
        return plain_value(value) if value.numel() == 1 else math.nan
    if isinstance(value, Integral) and abs(int(value)) > LARGEST_INT:
        return math.nan
    return float(value) if isinstance(value, Real) else math.nan


def _hint(value: object) -> str:
    """Return a sentence on a wrong tensor or a large int, nothing for other values."""
    if isinstance(value, Tensor) and value.numel() != 1:
        return " Give several numbers as an array or a list, as by tensor.tolist()."
    if isinstance(value, Integral) and math.isnan(_as_number(value)):
        return " Give numbers of this size as floats, such as 1e30."
    return ""
