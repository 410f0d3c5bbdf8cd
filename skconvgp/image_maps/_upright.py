"""Upright: images moved to their centre and sheared, so that slanted shapes stand.

The formulas: docs/maths.rst, "Upright images".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import grid_sample

from skconvgp._tensors import int_range
from skconvgp.image_maps._blocks import ImageBlocks
from skconvgp.image_maps._pixels import PixelMap

__all__ = ["Upright"]

ROUNDING = 1e-6  # shares of the heaviest pixel, and squares of pixels


@dataclass(frozen=True)
class Upright(PixelMap):
    """Moves the mass of images to their middle, and shears it until it is upright.

    The mass of a pixel is its distance from the median of its channel in this image, so
    that dark shapes on bright ground are as bright ones on dark ground.
    """

    moves_pixels: ClassVar[bool] = True

    @classmethod
    def fit(cls, blocks: ImageBlocks) -> Upright:  # noqa: ARG003  (nothing is fitted)
        """Return the map."""
        return cls()

    def __call__(self, images: Tensor) -> Tensor:
        """Return upright images (n, c, h, w); images without mass stay as they are."""
        height, width = images.shape[2:]
        rows = int_range(height, images.device).to(images)[:, None] - (height - 1) / 2.0
        columns = int_range(width, images.device).to(images) - (width - 1) / 2.0
        medians = images.flatten(2).median(2).values[:, :, None, None]
        mass = (images - medians).abs().sum(1)
        # Of any unit: a factor changes no mean.
        heaviest = mass.detach().amax((1, 2), keepdim=True)
        mass = mass / torch.where(heaviest > 0.0, heaviest, 1.0)

        def mean(values: Tensor) -> Tensor:
            """Return means (n, 1, 1) of values (h, w) by mass."""
            sums = (mass * values).sum((1, 2), keepdim=True)
            return sums / mass.sum((1, 2), keepdim=True).clamp(min=ROUNDING)

        row, column = mean(rows), mean(columns)
        spread = mean((rows - row).square())
        slant = mean((rows - row) * (columns - column)) / spread.clamp(min=ROUNDING)
        from_columns = columns + column + slant * rows
        from_rows = (rows + row).expand_as(from_columns)
        grid = torch.stack([2 * from_columns / width, 2 * from_rows / height], -1)
        return grid_sample(images, grid, padding_mode="border", align_corners=False)
