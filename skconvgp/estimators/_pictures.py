"""Pictures of Pillow, which is not imported: who passes some has done so."""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Modes that are read as their numbers, and the conversions that others need. Pillow
# warns of palettes that tell opacity unless they become RGBA first.
AS_THEY_ARE = ("L", "RGB", "I", "F", "I;16", "I;16B", "I;16L", "I;16N")
CONVERSIONS = {
    "1": ("L",),
    "LA": ("L",),
    "La": ("LA", "L"),
    "P": ("RGBA", "RGB"),
    "PA": ("RGBA", "RGB"),
}
MOST_TOLD = 4
# What Pillow raises of pictures that were closed, or whose file is damaged.
UNREADABLE = (
    AssertionError,
    AttributeError,
    EOFError,
    OSError,
    SyntaxError,
    ValueError,
)


def is_picture(value: object) -> bool:
    """Return whether a value is a picture of Pillow."""
    module = sys.modules.get("PIL.Image")
    return module is not None and isinstance(value, module.Image)


def holds_pictures(X: object) -> bool:
    """Return whether a sequence or a column holds pictures."""
    is_column = getattr(X, "ndim", None) == 1 and str(getattr(X, "dtype", "")) in (
        "object",
        "Object",
    )
    if not isinstance(X, list | tuple) and not is_column:
        return False
    return any(map(is_picture, X))  # type: ignore[call-overload]


def stack_pictures(pictures: Sequence[Any]) -> NDArray[Any]:
    """Return pictures of one size as images (n, c, h, w), without their opacity."""
    first: dict[tuple[object, ...], int] = {}
    images = []
    for i, picture in enumerate(pictures):
        images.append(_pixels(i, picture))
        first.setdefault((images[-1].shape, images[-1].dtype.kind), i)
    if len(first) > 1:
        raise ValueError(_of_several_kinds(pictures, list(first.values())))
    return np.stack(images)


def _pixels(index: int, picture: Any) -> NDArray[Any]:
    """Return a picture as an image (c, h, w): grey, or red, green and blue."""
    if not is_picture(picture):
        raise ValueError(
            f"X holds pictures, and X[{index}] is {type(picture).__name__}: pass "
            "pictures alone, or an array of images (n, c, h, w)."
        )
    mode, converted = picture.mode, picture
    try:
        if mode not in AS_THEY_ARE:
            for step in CONVERSIONS.get(mode, ("RGB",)):
                converted = converted.convert(step)
        converted.load()  # as older versions of Pillow hide errors from NumPy
        pixels = np.asarray(converted)
    except UNREADABLE as error:
        raise ValueError(
            f"X[{index}], a picture of mode {mode!r}, cannot be read ({error}): open "
            "it again, save it anew or leave it out."
        ) from error
    return pixels[None] if pixels.ndim == 2 else np.moveaxis(pixels, -1, 0)


def _of_several_kinds(pictures: Sequence[Any], indices: list[int]) -> str:
    """Return words about pictures of different sizes or modes."""
    told = ", ".join(
        f"X[{i}] has {pictures[i].width} x {pictures[i].height} pixels and mode "
        f"{pictures[i].mode!r}"
        for i in indices[:MOST_TOLD]
    )
    return (
        f"X holds pictures of different sizes or modes ({told}): bring them to one, as "
        "by ReadImages(size=32) of skconvgp.transforms, which takes pictures, too."
    )
