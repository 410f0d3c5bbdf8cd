"""Maps that are computed again in the backward pass, so that no step is stored."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from skconvgp._parts import Part
from skconvgp._typing import Prepared

__all__ = ["Swap", "recomputed", "settings_of", "swapped", "tensors_of"]

Swap = dict[int, Tensor]


def recomputed(compute: Callable[[Swap], Tensor], inputs: list[Tensor]) -> Tensor:
    """Return a tensor that is computed again when derivatives are wanted.

    torch's checkpoints do the same and import its compiler, which takes seconds.

    `compute` computes it, with other tensors instead of those whose ``id`` is a key of
    its argument. `inputs` are all tensors by which the result may be differentiated.
    """
    if not (torch.is_grad_enabled() and any(one.requires_grad for one in inputs)):
        return compute({})
    different = {id(one): one for one in inputs}  # layers may share a setting
    return _Recomputed.apply(compute, *different.values())  # type: ignore[no-any-return, no-untyped-call]


def tensors_of(tables: Prepared) -> Iterator[Tensor]:
    """Yield the tensors of a tree."""
    if isinstance(tables, tuple):
        for branch in tables:
            yield from tensors_of(branch)
    elif tables is not None:
        yield tables


def settings_of(layer: Any) -> Iterator[Tensor]:
    """Yield the settings of a layer that are tensors, as they are differentiated."""
    for value in _settings(layer).values():
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, Tensor):
                yield item
            elif isinstance(item, Part):
                yield from settings_of(item)


def swapped(value: Any, swap: Swap) -> Any:
    """Return a tree of tables, or a layer, with other tensors."""
    if isinstance(value, Tensor):
        return swap.get(id(value), value)
    if isinstance(value, tuple):
        items = [swapped(item, swap) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if not isinstance(value, Part):
        return value
    settings = _settings(value).items()
    changed = {name: swapped(setting, swap) for name, setting in settings}
    return copy.copy(value).set_params(**changed)


def _settings(layer: Any) -> dict[str, object]:
    return layer.get_params(deep=False) if isinstance(layer, Part) else {}


class _Recomputed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, compute: Callable[[Swap], Tensor], *inputs: Tensor) -> Tensor:
        ctx.compute, ctx.keys = compute, [id(one) for one in inputs]
        ctx.save_for_backward(*inputs)
        with torch.no_grad():
            return compute({})

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        flags = [one.requires_grad for one in ctx.saved_tensors]
        # Detached, since some inputs are made from others.
        fresh = [one.detach() for one in ctx.saved_tensors]
        wanted = [
            one.requires_grad_() for one, flag in zip(fresh, flags, strict=True) if flag
        ]
        with torch.enable_grad():
            value = ctx.compute(dict(zip(ctx.keys, fresh, strict=True)))
        # Derivatives are linear in `grad`, and may themselves be wanted by it.
        is_again = torch.is_grad_enabled()
        grads = iter(
            torch.autograd.grad(
                value, wanted, grad, allow_unused=True, create_graph=is_again
            )
        )
        return (None, *(next(grads) if flag else None for flag in flags))
