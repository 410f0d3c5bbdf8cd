"""The state in which everything is computed, whatever the caller's is."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
import torch

from skconvgp._threads import one_thread

__all__ = [
    "Call",
    "current_call",
    "named_recursion",
    "ordinary_state",
    "ordinary_torch",
    "outside",
    "public",
]

P = ParamSpec("P")
Value = TypeVar("Value")
HOST = torch.device("cpu")
AUTOCAST = ("cpu", "cuda")  # devices with a switch each
# What numpy does about numbers that overflow or are none: what matters of it is told in
# words of the package. Tests let it warn, to see what is not.
ARITHMETIC: dict[str, Any] = {"all": "ignore"}
# Set by the compiler of torch when it is imported, which forward derivatives, among
# others, do.
COMPILER_CACHE = "TORCHINDUCTOR_CACHE_DIR"


class Call(ExitStack):
    """A call of a public function or method, with what is left to do at its end."""

    name: str = ""
    owner: object = None  # its first argument, to which a method belongs
    outer: "Call | None" = None  # the public call that makes it; None: the user does
    progress: Any = None  # shows how far the call is; None: nobody has asked
    tasks: Any = None  # tells callbacks of scikit-learn; None: there are none


_CALL: ContextVar[Call | None] = ContextVar("call", default=None)


def current_call() -> Call | None:
    """Return the public call in which this is computed, the innermost one."""
    return _CALL.get()


@contextmanager
def outside() -> Iterator[None]:
    """Run what users have given as if it were called outside of all public calls."""
    token = _CALL.set(None)
    try:
        yield
    finally:
        _CALL.reset(token)


@contextmanager
def ordinary_torch() -> Iterator[None]:
    """Compute as torch does in a new thread, and restore the caller's state.

    Under ``torch.no_grad`` derivatives would be zero without an error, and tensors that
    are made under ``torch.inference_mode`` cannot be differentiated later. Under
    ``torch.autocast`` products are rounded, and under a default device tensors of the
    host are made elsewhere. The compiler of torch leaves a variable in the environment,
    which processes that are started later would inherit. What all threads share, such
    as the default precision, is left alone: nothing that is computed depends on it.
    """
    with ExitStack() as entered:
        if torch.is_inference_mode_enabled():
            entered.enter_context(torch.inference_mode(False))
        if not torch.is_grad_enabled():
            entered.enter_context(torch.enable_grad())
        for device in AUTOCAST:
            if torch.is_autocast_enabled(device):
                entered.enter_context(torch.autocast(device, enabled=False))
        if torch.get_default_device() != HOST:
            entered.enter_context(HOST)
        if COMPILER_CACHE not in os.environ:
            entered.callback(os.environ.pop, COMPILER_CACHE, None)
        yield


@contextmanager
def named_recursion() -> Iterator[None]:
    """Explain a recursion error of deeply nested parts, with the remedy."""
    try:
        yield
    except RecursionError as error:
        raise ValueError(
            f"Python allows {sys.getrecursionlimit()} calls inside of each other, and "
            "there were more, most likely for kernels that are nested too deeply: make "
            "sums as Sum(a, b, c) and chains as Sequential(a, b, c), not of two parts "
            "at a time, or raise the limit by sys.setrecursionlimit."
        ) from error


@contextmanager
def ordinary_state(name: str = "", owner: object = None) -> Iterator[None]:
    """Compute as `ordinary_torch` does, and as numpy does if nobody asks it to warn.

    Under ``np.errstate(all="raise")`` numbers that vanish would be errors. Torch uses
    one thread for all but large operations. Name and owner are those of a `Call`.
    """
    call = Call()
    call.name, call.owner, call.outer = name, owner, _CALL.get()
    with np.errstate(**ARITHMETIC), ordinary_torch(), one_thread(), call:
        token = _CALL.set(call)
        try:
            yield
        finally:
            _CALL.reset(token)


def public(call: Callable[P, Value]) -> Callable[P, Value]:
    """Return a function of users that computes under `ordinary_state`."""

    @wraps(call)
    def behind_the_door(*args: P.args, **settings: P.kwargs) -> Value:
        with named_recursion(), ordinary_state(call.__name__, *args[:1]):
            return call(*args, **settings)

    return behind_the_door
