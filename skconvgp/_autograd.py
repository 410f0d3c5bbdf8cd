"""The state of torch's autograd in which derivatives are computed."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["enabled_autograd"]


@contextmanager
def enabled_autograd() -> Iterator[None]:
    """Switch torch's autograd on, whatever the state of the caller.

    Under ``torch.no_grad`` derivatives would be zero without an error, and tensors that
    are made under ``torch.inference_mode`` cannot be differentiated later. It is also
    a decorator.
    """
    with torch.inference_mode(False), torch.enable_grad():
        yield
