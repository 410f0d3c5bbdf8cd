"""Arrays and rows that are copied to a GPU once in a call, if they have room there."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._resident import held_bytes, is_kept, once
from skconvgp._typing import Rows
from skconvgp.engine._arrays import rows_to_tensor, to_numpy, to_tensor
from skconvgp.engine._devices import free_memory
from skconvgp.engine._transfer import to_device

__all__ = ["held", "join_rows", "keep_held", "place", "place_rows"]

# The share of the free memory of a GPU that may be held; and bytes that are few.
HELD_SHARE, FEW_BYTES = 4, 2**20


def held(
    array: NDArray[Any], device: torch.device, dtype: torch.dtype | None = None
) -> Tensor:
    """Return an array as a tensor on a device, copied to a GPU once in a call.

    It is copied each time if it has no room there. The array must not change.
    """
    key = device, dtype
    if not is_kept(array, key) and not has_room(array.nbytes, device):
        return to_tensor(array, device, dtype)
    return once(array, key, lambda: to_tensor(array, device, dtype))


def keep_held(tensor: Tensor) -> NDArray[Any]:
    """Return a tensor as an array, for which `held` returns the tensor in this call."""
    array = to_numpy(tensor)
    if has_room(array.nbytes, tensor.device):
        once(array, (tensor.device, None), lambda: tensor)
    return array


def place(images: Tensor, device: torch.device) -> Tensor:
    """Return images on a GPU, if they have room there."""
    is_there = images.device.type == device.type
    if is_there or not has_room(images.nbytes, device):
        return images
    return to_device(images, device)


def place_rows(rows: Rows, device: torch.device) -> Rows:
    """Return rows as a tensor on a GPU, if they have room there."""
    return rows if device.type == "cpu" else place(rows_to_tensor(rows), device)


def join_rows(blocks: Sequence[Rows]) -> Rows:
    """Return blocks of rows as one, on their device."""
    if any(isinstance(one, Tensor) for one in blocks):
        return torch.cat([rows_to_tensor(one) for one in blocks])
    return np.concatenate(blocks)


def has_room(n_bytes: int, device: torch.device) -> bool:
    """Return whether so many bytes may be held on a device while a call lasts."""
    if device.type == "cpu" or n_bytes <= FEW_BYTES:
        return True
    known = held_bytes()
    return known + n_bytes <= (known + free_memory(device)) // HELD_SHARE
