"""Tensors of users, and arrays of other packages, as arrays of the host."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp.engine._arrays import to_numpy

__all__ = ["host_values"]


def host_values(values: Any, name: str) -> Any:
    """Return tensors and arrays of other packages as arrays; others as they are.

    Values are samples, labels, targets or weights; their name stands in errors. A
    tensor is detached: estimators compute no derivatives for torch's autograd. Masked
    values are an error, because scikit-learn ignores masks.
    """
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(
            f"{name} is a masked array with masked values, which would be taken as "
            f"they are: fill them, as by {name}.filled(value), or leave these samples "
            "out."
        )
    if isinstance(values, Tensor):
        return _of_tensor(values, name)
    if isinstance(values, list | tuple):
        has_tensors = any(isinstance(one, Tensor) for one in values)
        return [host_values(one, name) for one in values] if has_tensors else values
    if hasattr(values, "__array_namespace__") and not isinstance(values, np.ndarray):
        return np.asarray(values)
    return values


def _of_tensor(values: Tensor, name: str) -> NDArray[Any]:
    """Return a tensor as an array, which shares its memory if it may."""
    if values.layout != torch.strided or values.is_meta or values.is_quantized:
        raise ValueError(
            f"{name} is a tensor of layout {values.layout}, type {values.dtype} and "
            f"device {values.device}, and its numbers have to lie in memory: pass "
            f"{name}.to_dense() or {name}.dequantize()."
        )
    values = values.resolve_conj().resolve_neg()
    try:
        return to_numpy(values)
    except TypeError:  # of what numpy has not; its own other types become float64 too
        return to_numpy(values.to(torch.float64))
