"""What a GPU holds while a call lasts, and what is read from it at the end.

So arrays are copied there once, and no block waits for a number.
"""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from threading import local
from typing import Any, TypeVar
from weakref import ref

import torch
from torch import Tensor

from skconvgp.exceptions import NotFiniteError

__all__ = ["held_bytes", "is_kept", "once", "require_finite", "resident"]

Value = TypeVar("Value")
Key = tuple[int, Hashable]


class _Call(local):
    """What has been made in the calling thread; None outside of `resident`."""

    # By `id` of an owner, which a reference watches, and a key.
    known: dict[Key, tuple[ref[Any], Any]] | None = None
    # Whether values of blocks are finite, of no dimension, and what an error says.
    checks: list[tuple[Tensor, str]]


_CALL = _Call()


@contextmanager
def resident() -> Iterator[None]:
    """Keep what `once` makes, until the outermost of these contexts ends.

    Then values of `require_finite` are checked: also if there was another error, which
    may come of them.
    """
    if _CALL.known is not None:
        yield
        return
    _CALL.known, _CALL.checks = {}, []
    try:
        try:
            yield
        except Exception:
            _check(_CALL.checks)
            raise
        _check(_CALL.checks)
    finally:
        _CALL.known, _CALL.checks = None, []


def once(owner: object, key: Hashable, make: Callable[[], Value]) -> Value:
    """Return what `make` returns, which within `resident` is made once for an owner.

    It is kept as long as the owner lives, which must not change meanwhile.
    """
    known = _CALL.known
    if known is None:
        return make()
    at = id(owner), key
    if at not in known:
        known[at] = ref(owner, lambda _: known.pop(at, None)), make()
    value: Value = known[at][1]
    return value


def is_kept(owner: object, key: Hashable) -> bool:
    """Return whether `once` has made something for an owner, and keeps it."""
    return _CALL.known is not None and (id(owner), key) in _CALL.known


def require_finite(are_finite: Tensor, message: str) -> None:
    """Raise a NotFiniteError unless a tensor of no dimension is true.

    Within `resident` it is read at the end, with all others.
    """
    checks = [(are_finite, message)]
    if _CALL.known is None:
        _check(checks)
    else:
        _CALL.checks += checks


def _check(checks: list[tuple[Tensor, str]]) -> None:
    flags = [one for one, _ in checks]
    if flags and not torch.stack(flags).all():
        raise NotFiniteError(next(text for one, text in checks if not one))


def held_bytes() -> int:
    """Return the bytes of the tensors that are kept."""
    known = _CALL.known or {}
    return sum(getattr(value, "nbytes", 0) for _, value in known.values())
