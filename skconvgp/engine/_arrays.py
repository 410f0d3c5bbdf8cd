"""Arrays to tensors and back: rows, images, and the states of fitted processes."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._parts import Part
from skconvgp._tensors import int_range, native
from skconvgp._typing import ImageShape, Rows
from skconvgp.engine._transfer import to_device, to_host
from skconvgp.kernels import Kernel

__all__ = [
    "freeze",
    "frozen_bytes",
    "kernel_shape",
    "pool_images",
    "pooled_size",
    "rows_to_images",
    "rows_to_tensor",
    "thaw",
    "to_numpy",
    "to_tensor",
]

State = TypeVar("State")
# Images that are reduced at once; and pixels that a quotient may be off.
REDUCED_AT_ONCE, ROUNDING = 16, 1e-9


def rows_to_tensor(rows: Rows) -> Tensor:
    """Return validated rows as a tensor, which shares their memory if it may."""
    if isinstance(rows, Tensor):
        return rows
    rows = native(rows)
    rows = rows if rows.flags.forc else np.ascontiguousarray(rows)
    return torch.from_numpy(rows if rows.flags.writeable else rows.copy(order="K"))


def kernel_shape(kernel: Kernel, image_shape: ImageShape) -> ImageShape:
    """Return the shape that a kernel sees: a vector if it ignores the layout."""
    return image_shape if kernel.is_spatial else (math.prod(image_shape), 1, 1)


def rows_to_images(rows: Rows, shape: ImageShape) -> Tensor:
    """Return rows as images (n, c, h, w)."""
    return rows_to_tensor(rows).reshape(-1, *shape)


def pool_images(images: Tensor, side: float) -> Tensor:
    """Return images of the means of squares of pixels.

    Squares of whole pixels may be smaller at the lower and right edge. If the side is a
    fraction, all areas of an image are equal, with sides of at most this length.
    """
    side = min(side, max(images.shape[2:]))  # torch takes no larger ints
    if side == 1:
        return images
    if side != int(side):
        parts = torch.split(images, REDUCED_AT_ONCE)
        return torch.cat([_mean_areas(part, side) for part in parts])
    return torch.nn.functional.avg_pool2d(
        images, int(side), ceil_mode=True, count_include_pad=False
    )


def pooled_size(size: Sequence[int], side: float) -> tuple[int, int]:
    """Return the size (h, w) of images of a size when squares are averaged."""
    height, width = (math.ceil(length / side - ROUNDING) for length in size)
    return height, width


def _mean_areas(images: Tensor, side: float) -> Tensor:
    """Return images of the means of equal areas, which may share pixels.

    Flat areas keep their value, and an image alone has the means that it has among
    others, to the bit: products of matrices would round them.
    """
    for axis, n_areas in zip((2, 3), pooled_size(images.shape[2:], side), strict=True):
        spots, shares = _shares(images.shape[axis], n_areas)
        first = images.index_select(axis, spots[0])
        means = first.clone()
        for others, weights in zip(spots[1:], shares[1:], strict=True):
            more = images.index_select(axis, others) - first
            means += more.mul_(weights.to(more).reshape(-1, *[1] * (3 - axis)))
        images = means
    return images


def _shares(n_pixels: int, n_areas: int) -> tuple[Tensor, Tensor]:
    """Return the pixels (k, n_areas) that equal areas of a side see, and their shares.

    Lengths are whole numbers, in units of a pixel divided by the number of areas.
    """
    start = n_pixels * int_range(n_areas)
    n_seen = -(-n_pixels // n_areas) + 1
    pixels = start // n_areas + int_range(n_seen)[:, None]
    stop = torch.minimum(start + n_pixels, (pixels + 1) * n_areas)
    within = stop - torch.maximum(start, pixels * n_areas)
    shares = within.clamp_(min=0).to(torch.float64) / n_pixels
    return pixels.clamp_(max=n_pixels - 1), shares


def to_numpy(tensor: Tensor) -> NDArray[Any]:
    """Return a tensor as an array on the host."""
    array: NDArray[Any] = to_host(tensor.detach()).numpy()
    return array


def to_tensor(
    array: NDArray[Any], device: torch.device, dtype: torch.dtype | None = None
) -> Tensor:
    """Return an array as a tensor on a device; a read-only one is copied."""
    tensor = rows_to_tensor(array)
    if dtype is None or dtype == tensor.dtype:
        return to_device(tensor, device)
    return tensor.to(device, dtype)


def freeze(state: State) -> State:
    """Return a dataclass of tensors, or of such dataclasses, with arrays instead.

    Dataclasses may be items of a tuple. Parts, which hold settings, are not changed.
    """
    frozen: State = _replace(
        state, lambda v: to_numpy(v) if isinstance(v, Tensor) else v
    )
    return frozen


def thaw(state: State, device: torch.device) -> State:
    """Return a frozen dataclass with tensors on a device instead of arrays."""
    thawed: State = _replace(
        state, lambda v: to_tensor(v, device) if isinstance(v, np.ndarray) else v
    )
    return thawed


def frozen_bytes(state: object) -> int:
    """Return the bytes of the arrays of a dataclass and of dataclasses within it."""
    if isinstance(state, np.ndarray):
        return state.nbytes
    if isinstance(state, tuple):
        return sum(map(frozen_bytes, state))
    if not dataclasses.is_dataclass(state):
        return 0
    return sum(map(frozen_bytes, _values(state).values()))


def _replace(state: Any, convert: Any) -> Any:
    if isinstance(state, tuple) and any(map(dataclasses.is_dataclass, state)):
        return tuple(_replace(item, convert) for item in state)
    if not dataclasses.is_dataclass(state) or isinstance(state, Part):
        return convert(state)
    values = {name: _replace(value, convert) for name, value in _values(state).items()}
    return dataclasses.replace(state, **values)  # type: ignore[type-var]


def _values(state: object) -> dict[str, Any]:
    fields = dataclasses.fields(state)  # type: ignore[arg-type]
    return {field.name: getattr(state, field.name) for field in fields}
