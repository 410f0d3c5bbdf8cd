"""Images as they are drawn."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skconvgp.engine import host_values

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "as_pictures",
    "column_labels",
    "draw_picture",
    "frame",
    "read_pictures",
    "require_rows",
    "set_title",
    "shown",
]

GRAY, COLORS = 1, 3  # channels
ROWS = 2  # axes of images that are given as vectors
LINE = "0.7", 0.6  # color and width of frames
FILLED = 0.95  # share of the width of a column that a title may take


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
    images = np.asarray(host_values(X, name))
    if images.ndim == ROWS:
        images = images.reshape(len(images), *estimator.image_shape_)
    return as_pictures(images, name)


def draw_picture(axes: "Axes", picture: NDArray[Any]) -> None:
    """Draw and frame an image (c, h, w); one channel has dark strokes on white."""
    drawn = picture.transpose(1, 2, 0) if len(picture) == COLORS else picture[0]
    axes.imshow(drawn, cmap="gray_r")
    frame(axes)


def frame(axes: "Axes") -> None:
    """Draw a thin frame around an image, without ticks."""
    color, width = LINE
    axes.set_axis_on()
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set(visible=True, color=color, linewidth=width)


def set_title(
    axes: "Axes", lines: Iterable[Sequence[str]], width: float, **style: Any
) -> None:
    """Set a title in a column of a figure, which is so many pixels wide.

    Parts of a line that do not fit beside each other stand on lines of their own, and a
    part that is still too wide is shortened in the middle.
    """
    title = axes.set_title("", fontsize="small", parse_math=False, **style)

    def fits(text: str) -> bool:
        title.set_text(text)
        return bool(title.get_window_extent().width <= FILLED * width)

    fitted: list[str] = []
    for line in lines:
        parts = [" ".join(part.split()) for part in line]
        whole = " ".join(filter(None, parts))
        pieces = [whole] if fits(whole) else parts
        fitted.extend(_shortened(piece, fits) for piece in pieces)
    title.set_text("\n".join(fitted))


def _shortened(text: str, fits: Callable[[str], bool]) -> str:
    """Return the longest text that fits, with an ellipsis in the middle if need be."""

    def cut(kept: int) -> str:
        return f"{text[: (kept + 1) // 2]}…{text[len(text) - kept // 2 :]}"

    fewest, too_many = 2, len(text)
    if too_many <= fewest or fits(text):
        return text
    while too_many - fewest > 1:
        kept = (fewest + too_many) // 2
        if fits(cut(kept)):
            fewest = kept
        else:
            too_many = kept
    return cut(fewest)


def require_rows(n_images: int, **arrays: Any) -> None:
    """Raise unless arrays have a row for each image; None has none to have."""
    for name, array in arrays.items():
        if array is not None and len(array) != n_images:
            raise ValueError(
                f"`{name}` must have one row for each of the {n_images} images, got "
                f"{len(array)}."
            )


def column_labels(name: str, columns: NDArray[Any], labels: ArrayLike | None) -> Any:
    """Return a label for each column of an array of a name; None is 0, 1, 2, ..."""
    if columns.ndim != ROWS:
        raise ValueError(
            f"`{name}` must have shape (n, n_classes), got {columns.shape!r}."
        )
    k = columns.shape[1]
    found = (
        np.arange(k) if labels is None else np.asarray(host_values(labels, "labels"))
    )
    if found.shape != (k,):
        raise ValueError(
            f"`labels` must have one label for each of the {k} columns of "
            f"`{name}`, got shape {found.shape!r}."
        )
    return found


def shown(label: Any) -> str:
    """Return a label, or a number in few digits."""
    if label is None:
        return ""
    return f"{label:.3g}" if isinstance(label, float) else str(label)
