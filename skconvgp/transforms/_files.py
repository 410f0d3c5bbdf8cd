"""Pictures in files and in memory become images; the only import of Pillow."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skconvgp._settings import is_int
from skconvgp._typing import ImageShape
from skconvgp.estimators._pictures import is_picture
from skconvgp.estimators.settings._checks import (
    AUTO,
    Given,
    UnfitError,
    as_positive,
    word_of,
)

__all__ = ["PictureReader", "sources_in", "thumbnail", "unreadable"]

GREY, COLOURED = "L", "RGB"  # in Pillow's words
# Modes of files that hold grey levels, and those of more than 8 bits. Files of 16 bits
# are also read as "I", the mode of 32 bits.
GREYS = ("1", "L", "LA", "I", "F", "I;16", "I;16B", "I;16L", "I;16N")
DEEP = ("I", "F", "I;16", "I;16B", "I;16L", "I;16N")
BYTE_MAX, WORD_MAX = 255, 65535
# Of arrays in memory: types of grey levels, and numbers of channels of bytes.
LEVELS, CHANNELS = ("bool", "uint8", "uint16", "float32", "float64"), (3, 4)
RESIZES = ("pad", "crop", "stretch")
# JPEG files are decoded at a half, a quarter or an eighth of their size where these
# have so many times the wanted pixels a side: 3 times as fast for large photographs.
SPARE = 4
MOST_NAMED = 100
# Pillow has Ghostscript draw these: a program that a file from anywhere must not reach.
RUN_PROGRAMS = {"EPS"}


@dataclass(frozen=True)
class PictureReader:
    """Reads pictures as images of one size, all grey or all in colour.

    A picture is the path of a file, a picture of Pillow, or an array.
    """

    size: tuple[int, int]  # height and width
    resize: str  # one of RESIZES
    mode: str  # GREY or COLOURED
    background: float  # grey level behind pixels that are not opaque
    padding: float  # grey level beside a picture

    @classmethod
    def of(cls, given: Given, sources: Sequence[Any]) -> Self:
        """Return the reader that settings ask for; pictures decide about "auto"."""
        size = given.read("size", _as_size)
        resize = given.read("resize", word_of(RESIZES))
        mode = given.read("mode", word_of((AUTO, GREY, COLOURED)))
        levels = [
            given.read(name, as_positive, allows_zero=True, most=1.0)
            for name in ("background", "padding")
        ]
        common = _common_mode(sources)
        return cls(size, resize, common if mode == AUTO else mode, *levels)

    @property
    def image_shape(self) -> ImageShape:
        """Shape (c, h, w) of an image."""
        return (1 if self.mode == GREY else 3, *self.size)

    def read(self, sources: Sequence[Any]) -> NDArray[np.float32]:
        """Return images (n, c, h, w); raise an error that names unreadable pictures."""
        images = np.empty((len(sources), *self.image_shape), np.float32)

        def read_one(index: int, picture: Any) -> None:
            self._draw(_levels(picture, self.mode, self.background), images[index])

        # Both sides, as a camera may have turned the picture.
        bound = SPARE * max(self.size)
        _require_none(_faults(sources, read_one, bound), sources)
        return images

    def _draw(self, picture: Any, image: NDArray[np.float32]) -> None:
        """Fill an image (c, h, w) with a picture of bytes or of floats."""
        (height, width), (wide, high) = self.size, picture.size
        inner, box = (width, height), (0.0, 0.0, wide, high)
        if self.resize == "crop":
            ratio = min(wide / width, high / height)
            left, top = (wide - ratio * width) / 2, (high - ratio * height) / 2
            box = (left, top, wide - left, high - top)
        elif self.resize == "pad":
            ratio = min(width / wide, height / high)
            inner = max(1, round(ratio * wide)), max(1, round(ratio * high))
        resized = picture.resize(inner, _pillow().Image.Resampling.BILINEAR, box)
        pixels = np.asarray(resized)
        pixels = pixels[None] if pixels.ndim == 2 else np.moveaxis(pixels, -1, 0)
        image[...] = self.padding
        left, top = (width - inner[0]) // 2, (height - inner[1]) // 2
        inside = image[:, top : top + inner[1], left : left + inner[0]]
        np.divide(pixels, 1 if picture.mode == "F" else BYTE_MAX, out=inside)


def thumbnail(path: str, side: int) -> tuple[str, bytes]:
    """Return a picture of at most `side` pixels a side as a kind, and bytes of a file.

    It is a JPEG if it has become smaller, and else a PNG, which keeps all pixels.
    """
    pillow, found = _pillow(), {}

    def read_one(_: int, picture: Any) -> None:
        found["picture"] = _levels(picture, COLOURED, 1.0)

    _require_none(_faults([path], read_one, SPARE * side), [path])
    picture = found["picture"]
    if picture.mode == "F":
        levels = np.asarray(picture).clip(0.0, 1.0) * BYTE_MAX
        picture = pillow.Image.fromarray(levels.astype(np.uint8))
    kind, content = "png", BytesIO()
    if max(picture.size) > side:
        kind = "jpeg"
        picture.thumbnail((side, side))
    picture.save(content, kind)
    return kind, content.getvalue()


def unreadable(paths: Sequence[str], side: int) -> dict[int, str]:
    """Return indices of files that are no pictures, or damaged ones, with reasons.

    All of them are decoded, for images of so many pixels a side.
    """

    def read_one(_: int, picture: Any) -> None:
        _levels(picture, COLOURED, 1.0)

    faults = _faults(paths, read_one, SPARE * side)
    return {index: _reason(error) for index, error in faults.items()}


def sources_in(X: Any) -> list[Any]:
    """Return paths, pictures and arrays that are given as samples."""
    if isinstance(X, str | os.PathLike):
        raise ValueError(  # noqa: TRY004  (as of all samples)
            f"X is a single path: pass [{X!r}], a list of one path."
        )
    if is_picture(X):
        raise ValueError("X is a single picture: pass [X], a list of one picture.")
    shape = getattr(X, "shape", None)
    if not isinstance(X, list | tuple) and (shape is None or len(shape) != 1):
        got = type(X).__name__ if shape is None else f"an array of shape {shape!r}"
        raise ValueError(
            "X must be a list, an array or a column of paths of files, of pictures of "
            f"Pillow, or of arrays, got {got}: of a data frame pass the column, as "
            "X['file'], and of an array of images list(X)."
        )
    sources = list(X)
    if not sources:
        raise ValueError("X holds no pictures: pass at least one.")
    return [_source(i, one) for i, one in enumerate(sources)]


def _source(index: int, one: Any) -> Any:
    """Return a path as text, a picture, or an array that can become one."""
    if isinstance(one, str | os.PathLike):
        return os.fspath(one)
    if is_picture(one):
        return one
    if not isinstance(one, np.ndarray):
        raise ValueError(  # noqa: TRY004  (of what it holds)
            "X must hold paths of files, str or pathlib.Path, pictures of Pillow, or "
            f"arrays of pixels, and X[{index}] is {type(one).__name__}."
        )
    is_grey = one.ndim == 2 and one.dtype.name in LEVELS
    is_color = one.ndim == 3 and one.shape[2] in CHANNELS and one.dtype == np.uint8
    if not one.size or not (is_grey or is_color):
        raise ValueError(
            f"X[{index}] is an array {one.dtype} of shape {one.shape!r}: arrays of "
            f"pixels have the shape (h, w) and a type of {LEVELS}, or the shape "
            "(h, w, 3) or (h, w, 4) and the type uint8. Pass channels that come first "
            "as np.moveaxis(x, 0, -1), levels from 0 to 1 as np.uint8(255 * x)."
        )
    return one


def _as_size(size: object) -> tuple[int, int]:
    """Return height and width."""
    sides = tuple(size) if isinstance(size, tuple | list) else (size, size)
    if len(sides) != 2 or not all(map(is_int, sides)):
        raise UnfitError("an int >= 1 or two of them, (height, width)")
    height, width = map(int, sides)
    return height, width


def _common_mode(sources: Sequence[Any]) -> str:
    """Return whether all pictures hold grey levels; raise if some cannot be read.

    Only their headers are read, unless one is at fault: then all files that are damaged
    are to be named with it.
    """
    modes = set()
    faults = _faults(sources, lambda _, picture: modes.add(picture.mode))
    if faults:
        faults |= _faults(sources, lambda _, picture: picture.load())
        _require_none(faults, sources)
    return GREY if modes <= set(GREYS) else COLOURED


def _faults(
    sources: Sequence[Any], act: Callable[[int, Any], object], bound: int = 0
) -> dict[int, Exception]:
    """Return indices with which an action fails, and why; it gets index and picture.

    Sides of a picture that is decoded need not be longer than a bound > 0.
    """
    pillow, faults = _pillow(), {}
    pillow.Image.init()
    formats = sorted(set(pillow.Image.ID) - RUN_PROGRAMS)
    for index, source in enumerate(sources):
        try:
            with _opened(source, formats) as picture:
                if bound and isinstance(source, str):
                    picture.draft(None, (bound, bound))
                act(index, picture)
        except Exception as error:  # of damaged files Pillow raises all kinds
            faults[index] = error
    return faults


def _opened(source: Any, formats: list[str]) -> AbstractContextManager[Any]:
    """Return a picture, whose file is closed at the end if it was opened here."""
    pillow = _pillow()
    if isinstance(source, str):
        opened: AbstractContextManager[Any] = pillow.Image.open(source, formats=formats)
        return opened
    if is_picture(source):
        return nullcontext(source)
    # Pillow has no doubles, and would read a byte of truth values as eight.
    pixels = source.astype(np.float32) if source.dtype == np.float64 else source
    pixels = BYTE_MAX * pixels.astype(np.uint8) if pixels.dtype == bool else pixels
    return nullcontext(pillow.Image.fromarray(np.ascontiguousarray(pixels)))


def _require_none(faults: dict[int, Exception], sources: Sequence[Any]) -> None:
    """Raise a ValueError that names the pictures that cannot be read."""
    if not faults:
        return
    names = {
        index: repr(sources[index])
        if isinstance(sources[index], str)
        else f"X[{index}]"
        for index in faults
    }
    named = [f"{names[index]} ({_reason(error)})" for index, error in faults.items()]
    if len(named) > MOST_NAMED:
        named[MOST_NAMED:] = [f"and {len(faults) - MOST_NAMED} more"]
    are_files = all(isinstance(one, str) for one in sources)
    kind = "files" if are_files else "files and arrays"
    raise ValueError(
        f"{len(faults)} of {len(sources)} {kind} cannot be read as pictures: repair "
        f"them or leave them out. They are {', '.join(named)}."
    ) from next(iter(faults.values()))


def _reason(error: Exception) -> str:
    if isinstance(error, _pillow().UnidentifiedImageError):
        return "no picture of a kind that Pillow reads"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def _levels(picture: Any, mode: str, background: float) -> Any:
    """Return a picture upright and opaque, of bytes in a mode or of floats (mode F)."""
    pillow = _pillow()
    upright = pillow.ImageOps.exif_transpose(picture)
    if upright.mode in DEEP:
        return pillow.Image.fromarray(_floats(upright, background))
    if upright.has_transparency_data:
        level = round(BYTE_MAX * background)
        paper = pillow.Image.new("RGBA", upright.size, (level,) * 3 + (BYTE_MAX,))
        paper.alpha_composite(upright.convert("RGBA"))
        upright = paper
    return upright.convert("RGB").convert(mode)  # not all modes become grey at once


def _floats(picture: Any, background: float) -> NDArray[np.float32]:
    """Return grey levels (h, w) of more than 8 bits, those of integers over 65535."""
    levels = np.asarray(picture).astype(np.float32)
    if not np.isfinite(levels).all():
        raise ValueError("it has pixels that are not finite")
    is_clear = levels == picture.info.get("transparency")  # one level, if any
    if picture.mode != "F":
        levels /= WORD_MAX
    levels[is_clear] = background
    return levels


def _pillow() -> Any:
    """Return Pillow; the error without it has the remedy."""
    try:
        import PIL.Image
        import PIL.ImageOps
    except ImportError as error:
        raise ImportError(
            "Files of pictures are read by Pillow: install it with "
            '`pip install pillow`, or in a checkout with `pip install ".[images]"`.'
        ) from error
    return PIL
