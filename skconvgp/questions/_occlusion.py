"""Occlusion: by how much a score falls if a window of an image is replaced."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skconvgp._settings import is_int
from skconvgp._typing import FloatArray
from skconvgp.engine import slices
from skconvgp.questions._scores import LatentScores

__all__ = ["as_window", "occlusion_maps"]

SHARE = 8  # windows along a side, without overlap
MOST_IMAGES, HELD = 1024, 2**24  # images, and numbers, that are predicted at once


def as_window(window: Any, shape: tuple[int, int, int]) -> tuple[int, int]:
    """Return the height and width of windows of images (c, h, w)."""
    height, width = shape[1:]
    if window is None:
        return math.ceil(height / SHARE), math.ceil(width / SHARE)
    is_pair = isinstance(window, tuple | list) and len(window) == 2
    sides = tuple(window) if is_pair else (window, window)
    if not all(is_int(side) for side in sides):
        raise ValueError(
            f"`window` must be None, an int >= 1 or two of them, got {window!r}."
        )
    return min(int(sides[0]), height), min(int(sides[1]), width)


def occlusion_maps(
    scores: LatentScores, start: FloatArray | float, sides: tuple[int, int]
) -> FloatArray:
    """Return maps (n, h, w) of the mean fall of scores over windows on a pixel."""
    shape, n = scores.image_shape, len(scores.samples)
    whole = np.asarray(scores.samples).reshape(n, *shape)
    spots = [starts_of(size, side) for size, side in zip(shape[1:], sides, strict=True)]
    corners = np.stack(np.meshgrid(*spots, indexing="ij"), -1).reshape(-1, 2)
    blank = np.broadcast_to(start, shape)
    before = scores(scores.samples)
    falls, counts = np.zeros((n, *shape[1:])), np.zeros(shape[1:])
    windows = [_of_window(top, left, sides) for top, left in corners.tolist()]
    for window in windows:
        counts[window] += 1.0
    at_once = max(1, min(MOST_IMAGES, HELD // math.prod(shape)))
    for part in slices(n * len(corners), at_once):
        owners, which = np.divmod(np.arange(part.start, part.stop), len(corners))
        hidden = whole[owners].astype(np.float64)  # a baseline may have fractions
        hiding = [windows[i] for i in which]
        for image, at in zip(hidden, hiding, strict=True):
            image[:, *at] = blank[:, *at]
        after = scores(hidden.reshape(-1, *scores.samples.shape[1:]), owners)
        fall = before[owners] - after
        for i, at, by in zip(owners, hiding, fall, strict=True):
            falls[i, *at] += by
    return falls / counts


def starts_of(size: int, side: int) -> NDArray[np.intp]:
    """Return where windows begin along a side: each is moved by half its length."""
    step = max(1, side // 2)
    return np.unique(np.append(np.arange(0, size - side + 1, step), size - side))


def _of_window(top: int, left: int, sides: tuple[int, int]) -> tuple[slice, slice]:
    """Return the rows and columns of a window."""
    return slice(top, top + sides[0]), slice(left, left + sides[1])
