"""Names of columns that tell which images the rows of a data frame are."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from skconvgp._typing import ImageShape

# What precedes the index of a value: the name of a step, and the shape (c, h, w).
FIRST = re.compile(r"(.*_(\d+)x(\d+)x(\d+)_)0")


class NamedShape(tuple[int, int, int]):
    """The shape (c, h, w) that names of columns tell; a setting goes before it."""

    __slots__ = ()


def image_columns(name: str, shape: ImageShape) -> list[str]:
    """Return the names of the values of images of a shape, row-major."""
    channels, height, width = shape
    return _names(f"{name}_{channels}x{height}x{width}_", shape)


def require_distinct_names(values: object, name: str) -> None:
    """Raise if several columns of a data frame have one name."""
    columns = getattr(values, "columns", None)
    names = Counter(() if columns is None else columns)
    twice = [each for each, count in names.items() if count > 1]
    if twice:
        raise ValueError(
            f"{name} has {names[twice[0]]} columns of the name {twice[0]!r}: rename "
            f"all but one of them, or pass {name}.to_numpy()."
        )


def shape_of_columns(X: Any) -> NamedShape | None:
    """Return the shape of the images that the columns of a data frame name.

    Images of one size that stand beside each other, as of a `FeatureUnion`, are one
    image with the channels of all. It is None where columns have other names.

    Parameters
    ----------
    X : object
        Samples; only a data frame has columns.
    """
    columns = getattr(X, "columns", None)
    if columns is None or not len(columns):
        return None
    names = list(columns)
    sizes: set[tuple[int, int]] = set()
    n_channels = start = 0
    while start < len(names):
        shape = _shape_at(names, start)
        if shape is None:
            return None
        n_channels += shape[0]
        sizes.add(shape[1:])
        start += math.prod(shape)
    if len(sizes) > 1:
        return None
    height, width = sizes.pop()
    return NamedShape((n_channels, height, width))


def _shape_at(names: Sequence[Any], start: int) -> ImageShape | None:
    """Return the shape of an image whose values are named from an index on."""
    match = FIRST.fullmatch(names[start]) if isinstance(names[start], str) else None
    if match is None:
        return None
    shape = int(match[2]), int(match[3]), int(match[4])
    n_values = math.prod(shape)
    if not 0 < n_values <= len(names) - start:
        return None
    is_whole = names[start : start + n_values] == _names(match[1], shape)
    return shape if is_whole else None


def _names(prefix: str, shape: ImageShape) -> list[str]:
    return [f"{prefix}{index}" for index in range(math.prod(shape))]
