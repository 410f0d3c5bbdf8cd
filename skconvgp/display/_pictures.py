"""Images as they are drawn."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["as_pictures", "draw_picture", "read_pictures", "shown"]

GRAY, COLORS = 1, 3  # channels
ROWS = 2  # axes of images that are given as vectors


def as_pictures(images: NDArray[Any], name: str = "images") -> NDArray[Any]:
    """Return images (n, c, h, w) of one channel or three; raise for others."""
    if images.ndim == 3:
        images = images[:, None]
    if images.ndim != 4 or images.shape[1] not in (GRAY, COLORS):
        raise ValueError(
            f"`{name}` must have shape (n, h, w) or (n, c, h, w) with 1 or 3 channels, "
            f"got {images.shape!r}."
        )
    return images


def read_pictures(estimator: Any, X: ArrayLike, name: str = "X") -> NDArray[Any]:
    """Return images (n, c, h, w) of an estimator, which may be given as vectors."""
    images = np.asarray(X)
    if images.ndim == ROWS:
        images = images.reshape(len(images), *estimator.image_shape_)
    return as_pictures(images, name)


def draw_picture(axes: "Axes", picture: NDArray[Any]) -> None:
    """Draw an image (c, h, w); those of one channel have dark strokes on white."""
    drawn = picture.transpose(1, 2, 0) if len(picture) == COLORS else picture[0]
    axes.imshow(drawn, cmap="gray_r")
    axes.set_axis_off()


def shown(label: Any) -> str:
    """Return a label, or a number in few digits."""
    if label is None:
        return ""
    return f"{label:.3g}" if isinstance(label, float) else str(label)
