"""Maps that are computed again in the backward pass, so that no step is stored."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from skconvgp._parts import Part
from skconvgp._typing import Prepared
from skconvgp.kernels._hyperparameters import collect_hyperparameters

__all__ = ["recomputed", "settings_of", "tensors_of"]


def recomputed(compute: Callable[[], Tensor], inputs: list[Tensor]) -> Tensor:
    """Return a tensor that is computed again when derivatives are wanted.

    torch's checkpoints do the same and import its compiler, which takes seconds.

    Parameters
    ----------
    compute : callable
        Computes the tensor.
    inputs : list of Tensor
        All tensors by which the result may be differentiated.
    """
    if not (torch.is_grad_enabled() and any(one.requires_grad for one in inputs)):
        return compute()
    different = {id(one): one for one in inputs}  # layers may share a setting
    return _Recomputed.apply(compute, *different.values())  # type: ignore[no-any-return, no-untyped-call]


def tensors_of(tables: Prepared) -> Iterator[Tensor]:
    """Yield the tensors of a tree."""
    if isinstance(tables, tuple):
        for branch in tables:
            yield from tensors_of(branch)
    elif tables is not None:
        yield tables


def settings_of(layers: tuple[Any, ...]) -> Iterator[Tensor]:
    """Yield hyperparameters of layers that are being differentiated."""
    for layer in layers:
        for one in collect_hyperparameters(layer) if isinstance(layer, Part) else ():
            if isinstance(one.value, Tensor):
                yield one.value


class _Recomputed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, compute: Callable[[], Tensor], *inputs: Tensor) -> Tensor:
        ctx.compute = compute
        ctx.save_for_backward(*inputs)
        with torch.no_grad():
            return compute()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        inputs = ctx.saved_tensors
        wanted = [one for one in inputs if one.requires_grad]
        with torch.enable_grad():
            value = ctx.compute()
        grads = iter(torch.autograd.grad(value, wanted, grad, allow_unused=True))
        return (None, *(next(grads) if one.requires_grad else None for one in inputs))
