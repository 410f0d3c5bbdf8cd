"""Trees of prepared images: their tensors have the images in the last axis."""

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from skconvgp._typing import ImageShape, Prepared

__all__ = ["each", "halves", "rows_of", "shape_and_type", "take"]


def take(prepared: Prepared, part: slice) -> Prepared:
    """Return the tables of a slice of images: a view."""
    if prepared is None:
        return None
    if isinstance(prepared, tuple):
        return tuple(take(branch, part) for branch in prepared)
    return prepared[..., part]


def each(prepared: Prepared, change: Any) -> Prepared:
    """Return the tree with each of its tensors changed."""
    if isinstance(prepared, tuple):
        return tuple(each(one, change) for one in prepared)
    return None if prepared is None else change(prepared)


def rows_of(
    one: Prepared, two: Prepared | None = None
) -> Iterator[tuple[Prepared, Prepared]]:
    """Yield the patches of each prepared image of `one`, and of the images of `two`.

    Without `two` each image meets itself. `PatchKernel` prepares the images.
    """
    first, images = halves(one)
    second = first if two is None else halves(two)[0]
    for i in range(images.shape[-1]):
        image = each(first, lambda part, i=i: part[..., i])
        if two is None:
            yield image, each(first, lambda part, i=i: part[..., i : i + 1])
        else:
            yield image, second


def halves(prepared: Prepared) -> tuple[Prepared, Tensor]:
    """Return the prepared patches, and the images (c, h, w, n)."""
    assert isinstance(prepared, tuple)
    patches, images = prepared
    assert isinstance(images, Tensor)
    return patches, images


def shape_and_type(prepared: Prepared) -> tuple[ImageShape, Tensor]:
    """Return the shape of prepared images, and a tensor of their type."""
    images = halves(prepared)[1]
    channels, height, width, _ = images.shape
    return (channels, height, width), images
