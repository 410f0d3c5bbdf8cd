"""Settings of kernels as keys, for values that are computed once."""

import copy
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
import torch

from skconvgp._parts import Part
from skconvgp.kernels._capabilities import is_of_package

__all__ = ["NoKeyError", "by_settings", "settings_key"]

MOST_KEPT = 64  # results of a function
PLAIN = {bool, float, int, str, type(None)}
# Where functions of torch that activations may be are found by their names.
MODULES = (torch, torch.nn.functional, torch.special)

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class NoKeyError(Exception):
    """A setting is of a kind that has no key; the message names it."""


@dataclass(frozen=True)
class _Keyed:
    key: Hashable
    kernel: Any = field(compare=False)


def settings_key(kernel: Any) -> Hashable:
    """Return a key that equal kernels share, and others do not.

    It consists of plain values and classes. A class that is not part of this package
    has a key if its method `cache_key` returns plain values and tuples of them. Raises
    a `NoKeyError` for other kernels, and while settings are differentiated.
    """
    return _key(kernel)


def by_settings(
    function: Callable[Concatenate[Any, Arguments], Result],
) -> Callable[Concatenate[Any, Arguments], Result]:
    """Keep results of a function that depends on the settings of a kernel alone.

    The kernel is its first argument; results may hold parts of a copy of it, and nobody
    may change them. For kernels without a key nothing is kept.
    """

    @lru_cache(maxsize=MOST_KEPT)
    def kept(keyed: _Keyed, *args: Arguments.args, **named: Arguments.kwargs) -> Result:
        return function(copy.deepcopy(keyed.kernel), *args, **named)

    @wraps(function)
    def found(
        kernel: Any, /, *args: Arguments.args, **named: Arguments.kwargs
    ) -> Result:
        try:
            keyed = _Keyed(settings_key(kernel), kernel)
            return kept(keyed, *args, **named)  # type: ignore[arg-type]
        except (NoKeyError, RecursionError):
            return function(kernel, *args, **named)

    return found


def _keys(values: Iterable[object]) -> tuple[Hashable, ...]:
    return tuple(
        (type(value), value) if type(value) in PLAIN else _key(value)
        for value in values
    )


def _key(value: Any) -> Hashable:
    kind = type(value)
    if kind in (tuple, list):
        return kind, _keys(value)
    if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
        return kind, value.dtype.str, value.shape, value.tobytes()
    if hasattr(kind, "cache_key"):
        return kind, _keys((value.cache_key(),))
    if isinstance(value, Part) and is_of_package(kind):
        settings = vars(value)
        return kind, tuple(settings), _keys(settings.values())
    return _named_in_torch(value)


def _named_in_torch(function: Any) -> str:
    name = getattr(function, "__name__", "")
    for module in MODULES:
        if name and getattr(module, name, None) is function:
            return f"{module.__name__}.{name}"
    raise NoKeyError(repr(function))
