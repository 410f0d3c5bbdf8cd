"""Further versions of training images, to pass as `augment=`."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from skconvgp._parts import Part
from skconvgp._settings import is_int, require
from skconvgp._tensors import int_range
from skconvgp._typing import ImageShape

__all__ = ["Flip", "Part", "Shift"]


@dataclass(repr=False)
class Flip(Part):
    """Left-right flips of images.

    The images are flipped as the estimator sees them: behind a
    :class:`~skconvgp.transforms.ScatteringTransform` these are maps of coefficients,
    which are not the coefficients of the flipped image.

    Raises
    ------
    ValueError
        In `check`, if images have a single column.

    See Also
    --------
    skconvgp.kernels.FlipAverage : Kernel of functions that are equal for both.

    Examples
    --------
    >>> import torch
    >>> from skconvgp.augmentation import Flip
    >>> Flip().versions(torch.tensor([[[[1, 2], [3, 4]]]]))[0].tolist()
    [[[[2, 1], [4, 3]]]]
    """

    def check(self, image_shape: ImageShape) -> None:
        """Raise a ValueError that says why images (c, h, w) cannot be used."""
        if image_shape[2] == 1:
            raise ValueError(
                f"{self!r} flips images, and images of shape {image_shape!r} (c, h, w) "
                "have a single column: leave it out."
            )

    def versions(self, images: Tensor) -> Sequence[Tensor]:
        """Return the flips (n, c, h, w) of images (n, c, h, w)."""
        return [images.flip(-1)]


@dataclass(repr=False)
class Shift(Part):
    """Shifts of images to the left and right, up and down: four of each image.

    Pixels at the border are repeated in the place that an image leaves.

    Parameters
    ----------
    pixels : int, default=1
        Length of a shift.

    Raises
    ------
    ValueError
        In `check`, if `pixels` is no int >= 1, or images are not larger than that.

    Examples
    --------
    >>> import torch
    >>> from skconvgp.augmentation import Shift
    >>> images = torch.tensor([[[[1, 2, 3], [4, 5, 6]]]])
    >>> left, right, up, down = Shift(1).versions(images)
    >>> left[0, 0].tolist(), down[0, 0].tolist()
    ([[2, 3, 3], [5, 6, 6]], [[1, 2, 3], [1, 2, 3]])
    """

    pixels: int = 1

    def check(self, image_shape: ImageShape) -> None:
        """Raise a ValueError that says why images (c, h, w) cannot be used."""
        require(self, "pixels", is_int(self.pixels), "an int >= 1")
        if self.pixels >= min(image_shape[1:]):
            raise ValueError(
                f"{self!r} shifts images by {self.pixels} pixels, and nothing of "
                f"images of shape {image_shape!r} (c, h, w) would be left: lower "
                "`pixels`."
            )

    def versions(self, images: Tensor) -> Sequence[Tensor]:
        """Return images (n, c, h, w) that are shifted in each of four directions."""
        height, width = images.shape[2:]
        rows, columns = (
            [_moved(size, by, images.device) for by in (self.pixels, -self.pixels)]
            for size in (height, width)
        )
        return [images[..., index] for index in columns] + [
            images[:, :, index] for index in rows
        ]


def _moved(size: int, by: int, device: torch.device) -> Tensor:
    """Return which pixel (size,) stands at each place after a shift."""
    return (int_range(size, device) + by).clamp(0, size - 1)
