"""A guard that refuses what takes the time of fits and predictions."""

from contextlib import contextmanager
from unittest import mock

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from skconvgp.backends import _fused_cpu

# What takes the time of fits and predictions: products, factorisations, convolutions.
WORK = ("mm", "bmm", "addmm", "baddbmm", "convolution", "linalg_", "_linalg", "_fft")
# Numbers of operands: labels of a few samples may be counted by a product.
LITTLE = 1000


class WorkError(BaseException):
    """Work has started, which nothing catches."""


class Refused(TorchDispatchMode):
    """Let torch do no work."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        size = sum(one.numel() for one in args if isinstance(one, torch.Tensor))
        if func.overloadpacket.__name__.startswith(WORK) and size > LITTLE:
            raise WorkError(func)
        return func(*args, **(kwargs or {}))


class Idle:
    """Compiled code that answers questions and computes nothing."""

    def __init__(self, code):
        self.code = code

    def __getattr__(self, name):
        if name in {"prepare", "cross", "patch_responses"}:
            raise WorkError(name)
        return getattr(self.code, name)


@contextmanager
def no_work():
    """Refuse what takes time, of torch and of compiled code."""
    idle = Idle(getattr(_fused_cpu, "_native", None))
    with Refused(), mock.patch.object(_fused_cpu, "_native", idle, create=True):
        yield
