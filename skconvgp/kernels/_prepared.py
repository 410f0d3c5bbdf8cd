"""Trees of prepared images: their tensors have the images in the last axis."""

from skconvgp._typing import Prepared

__all__ = ["take"]


def take(prepared: Prepared, part: slice) -> Prepared:
    """Return the tables of a slice of images: a view."""
    if prepared is None:
        return None
    if isinstance(prepared, tuple):
        return tuple(take(branch, part) for branch in prepared)
    return prepared[..., part]
