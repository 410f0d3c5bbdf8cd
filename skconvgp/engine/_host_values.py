"""Tensors of users, and arrays of other packages, as arrays of the host."""

from contextlib import suppress
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._settings import shown
from skconvgp._typing import FloatArray
from skconvgp.engine._arrays import to_numpy

__all__ = ["first_shapes", "host_arrays", "host_numbers", "host_values", "named_shapes"]

MOST_TOLD = 4  # shapes in a message


def host_values(values: Any, name: str) -> Any:
    """Return values as `host_arrays` does; raise unless they make an array.

    Values are labels, targets, weights or settings. Sequences of different lengths are
    an error, and so are cells that hold lists or arrays.
    """
    found = host_arrays(values, name)
    if isinstance(found, list | tuple):
        _require_even(found, name)
    elif str(getattr(found, "dtype", "")) == "object" and found.ndim == 1:
        _require_no_sequences(found, name)
    return found


def host_numbers(values: Any, name: str) -> FloatArray:
    """Return numbers as an array; raise if these are none."""
    found = host_values(values, name)
    try:
        return np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"`{name}` must hold numbers, got {shown(values)}.") from None


def first_shapes(values: Any) -> dict[tuple[int, ...], int]:
    """Return the shapes of values, each with the index of the first that has it."""
    first: dict[tuple[int, ...], int] = {}
    for i, one in enumerate(values):
        with suppress(ValueError):  # a value may itself be uneven
            first.setdefault(tuple(np.shape(one)), i)
    return first


def named_shapes(values: Any, name: str) -> str:
    """Return words for a few of the shapes of values, each with one that has it."""
    each = list(first_shapes(values).items())[:MOST_TOLD]
    return ", ".join(f"{name}[{i}] has shape {shape!r}" for shape, i in each)


def _require_even(values: Any, name: str) -> None:
    """Raise if a sequence holds values of different shapes."""
    try:
        np.asarray(values)
    except ValueError:
        shapes = named_shapes(values, name)
    else:
        return
    raise ValueError(
        f"{name} holds sequences of different lengths{f' ({shapes})' * bool(shapes)}: "
        "give each of them as many values, as in an array."
    )


def _require_no_sequences(values: Any, name: str) -> None:
    """Raise if cells of an array or of a column hold lists or arrays."""
    held = [one for one in values if isinstance(one, list | np.ndarray)]
    if held:
        raise ValueError(
            f"{name} holds a {type(held[0]).__name__} in a cell: pass one number or "
            f"label for each sample, or join rows of numbers by np.stack({name})."
        )


def host_arrays(values: Any, name: str) -> Any:
    """Return tensors and arrays of other packages as arrays; others as they are.

    The name stands in errors. A tensor is detached: estimators compute no derivatives
    for torch's autograd. Masked values are an error, because scikit-learn ignores
    masks.
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
        return [host_arrays(one, name) for one in values] if has_tensors else values
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
