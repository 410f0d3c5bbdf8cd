"""Checks of the settings of strategies, and of the entries that they are given."""

import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import NoReturn

import torch
from torch import Tensor

from skconvgp._parts import Part
from skconvgp.exceptions import CompletionError

__all__ = ["check_finite", "is_int", "is_number", "one_of", "reject", "require"]


def is_int(value: object, least: int = 1, most: int | None = None) -> bool:
    """Say whether a setting is an int within bounds."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        return False
    return int(value) >= least and (most is None or int(value) <= most)


def is_number(value: object) -> bool:
    """Say whether a setting is a finite number > 0."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    return 0.0 < float(value) < math.inf


def one_of(words: Iterable[str]) -> str:
    """Return what a message says of words that are allowed."""
    return f"one of {', '.join(map(repr, words))}"


def require(part: Part, name: str, is_allowed: bool, expected: str) -> None:
    """Raise unless a setting is allowed."""
    if not is_allowed:
        reject(part, name, expected, getattr(part, name))


def reject(part: Part, name: str, expected: str, got: object) -> NoReturn:
    """Raise scikit-learn's sentence about a wrong parameter."""
    raise ValueError(
        f"The {name!r} parameter of {type(part).__name__} must be {expected}. Got "
        f"{got!r} instead."
    )


def check_finite(values: Tensor) -> Tensor:
    """Return entries of a Gram matrix, if all are finite."""
    if bool(values.sum().isfinite()):  # it takes no memory
        return values
    wrong = int(torch.count_nonzero(~values.isfinite()))
    if wrong:
        raise CompletionError(
            f"{wrong} of {values.numel()} covariances are not finite. Look for samples "
            "or hyperparameters that make the kernel overflow: scale the samples, or "
            "use dtype='float64'."
        )
    return values
