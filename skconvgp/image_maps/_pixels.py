"""PixelMap: a map that holds little more than the pixels of an image."""

import math

from skconvgp._typing import ImageShape

__all__ = ["PixelMap"]


class PixelMap:
    """A map that holds little more than the pixels of an image."""

    def n_values(self, image_shape: ImageShape) -> int:
        """Return how many numbers are held at once for an image."""
        return math.prod(image_shape)
