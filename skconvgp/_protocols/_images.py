"""Protocol of image augmentations."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from torch import Tensor

from skconvgp._typing import ImageShape

__all__ = ["Augmentation"]


@runtime_checkable
class Augmentation(Protocol):
    """Makes further versions of images, which have the same labels."""

    def check(self, image_shape: ImageShape) -> None:
        """Raise a ValueError that says why images (c, h, w) cannot be used."""
        ...

    def versions(self, images: Tensor) -> Sequence[Tensor]:
        """Return further versions, each (n, c, h, w), of images (n, c, h, w)."""
        ...
