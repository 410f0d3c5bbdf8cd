"""Images as they are drawn."""

from typing import Any

from numpy.typing import NDArray

__all__ = ["COLORS", "GRAY", "as_pictures"]

GRAY, COLORS = 1, 3  # channels


def as_pictures(images: NDArray[Any]) -> NDArray[Any]:
    """Return images (n, c, h, w) of one channel or three; raise for others."""
    if images.ndim == 3:
        images = images[:, None]
    if images.ndim != 4 or images.shape[1] not in (GRAY, COLORS):
        raise ValueError(
            "`images` must have shape (n, h, w) or (n, c, h, w) with 1 or 3 channels, "
            f"got {images.shape!r}."
        )
    return images
