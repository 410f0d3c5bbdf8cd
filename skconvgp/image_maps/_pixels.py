"""PixelMap: a map that holds little more than the pixels of an image."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

from torch import Tensor

from skconvgp._typing import ImageShape

__all__ = ["PixelMap"]


class PixelMap(ABC):
    """A map that holds little more than the pixels of an image."""

    moves_pixels: ClassVar[bool] = False  # whether contents move to other positions

    def n_values(self, image_shape: ImageShape) -> int:
        """Return how many numbers are held at once for an image."""
        return math.prod(image_shape)

    @abstractmethod
    def __call__(self, images: Tensor) -> Tensor:
        """Return images (n, c, h, w) through the map."""
