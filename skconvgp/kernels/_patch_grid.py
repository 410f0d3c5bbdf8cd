"""PatchGrid: where the patches of an image lie, and which response sees them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from skconvgp._tensors import reals
from skconvgp._typing import ImageShape
from skconvgp.kernels._checks import require_positive_int

__all__ = ["AUTO", "COLORS", "PatchGrid", "as_numbers", "patch_grid"]

AUTO = "auto"
COLORS = ("patches", "channels", "additive", "stacked")
USUAL_SIZE = 5


@dataclass(frozen=True)
class PatchGrid:
    """Layout of the patches of images of one shape."""

    size: tuple[int, int]  # height and width of a patch
    shape: tuple[int, int]  # number of patches along the height and the width
    channels: int  # of a patch
    n_groups: int  # independent response functions
    n_stacked: int  # channels whose patches one response function sees at each position
    stride: int  # distance between neighbouring patches, in pixels

    @property
    def n_positions(self) -> int:
        """Patches that one response function sees."""
        return self.n_stacked * math.prod(self.shape)

    @property
    def n_patches(self) -> int:
        """Patches of an image, P in formulas."""
        return self.n_groups * self.n_positions

    def positions(self) -> tuple[Tensor, Tensor]:
        """Return the places of patches along the height and the width, in pixels."""
        rows, columns = (
            self.stride * torch.arange(n, dtype=torch.float64, device="cpu")
            for n in self.shape
        )
        return rows.repeat(self.n_stacked), columns

    def steps(self, like: Tensor) -> list[Tensor]:
        """Return the distances with signs of positions along each axis."""
        return [(one[:, None] - one).to(like) for one in self.positions()]


def patch_grid(
    image_shape: ImageShape, patch_size: Any, stride: int, color: str
) -> PatchGrid:
    """Return the layout of patches for settings of `PatchKernel`, or raise an error."""
    require_positive_int("stride", stride)
    if color not in COLORS:
        raise ValueError(f"`color` must be one of {COLORS!r}, got {color!r}.")
    channels, height, width = image_shape
    size = _size(patch_size, height, width)
    if size[0] > height or size[1] > width:
        raise ValueError(
            f"`patch_size`={patch_size!r} is larger than images of {height}x{width} "
            "pixels: lower it, or take patch_size='auto'."
        )
    shape = (height - size[0]) // stride + 1, (width - size[1]) // stride + 1
    if color == "patches":
        return PatchGrid(size, shape, channels, 1, 1, stride)
    if color == "stacked":
        return PatchGrid(size, shape, 1, 1, channels, stride)
    return PatchGrid(size, shape, 1, channels, 1, stride)


def _size(patch_size: Any, height: int, width: int) -> tuple[int, int]:
    if isinstance(patch_size, str) and patch_size == AUTO:
        return min(USUAL_SIZE, height), min(USUAL_SIZE, width)
    is_pair = isinstance(patch_size, tuple | list)
    pair = tuple(patch_size) if is_pair else (patch_size, patch_size)
    if len(pair) != 2:
        raise ValueError(
            "`patch_size` must be 'auto', an int >= 1 or two of them, got "
            f"{patch_size!r}."
        )
    for side in pair:
        require_positive_int("patch_size", side)
    return cast(tuple[int, int], pair)


def as_numbers(weights: Any) -> Tensor:
    """Return weights as one row of numbers; raise if they are something else."""
    if isinstance(weights, Tensor):  # while they are learned
        return weights.flatten()
    try:
        numbers = np.asarray(weights)
        if not np.iscomplexobj(numbers):
            return reals(numbers.astype(np.float64)).flatten()
    except (TypeError, ValueError, OverflowError):
        pass  # it is named below
    raise ValueError(
        "`weights` must be None, or one number for each position of a patch, got "
        f"{weights!r}."
    )
