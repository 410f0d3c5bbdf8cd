"""The state of torch's autograd in which derivatives are computed."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["own_autograd"]


@contextmanager
def own_autograd() -> Iterator[None]:
    """Compute in torch's default state, whatever the state of the caller.

    Under ``torch.no_grad`` derivatives would be zero without an error, and tensors that
    are made under ``torch.inference_mode`` cannot be derived later. It is a decorator
    too.
    """
    with torch.inference_mode(False), torch.enable_grad():
        yield
