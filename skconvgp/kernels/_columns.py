"""Columns of samples: which ones a kernel sees."""

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from skconvgp._settings import is_int, shown
from skconvgp._typing import ImageShape
from skconvgp.kernels._checks import SEQUENCES

__all__ = ["plain_columns", "require_columns", "taken"]


def plain_columns(columns: Any) -> Any:
    """Return columns as a tuple; what is neither a number nor a sequence stays."""
    if isinstance(columns, (*SEQUENCES, range)):
        return tuple(columns)
    return (columns,) if is_int(columns, least=0) else columns


def require_columns(columns: object, image_shape: ImageShape) -> None:
    """Raise unless columns are different positions in samples of a shape."""
    n_features, given = math.prod(image_shape), plain_columns(columns)
    is_usable = isinstance(given, tuple) and len(given) > 0
    if is_usable and all(is_int(one, 0, n_features - 1) for one in given):
        if len(set(given)) == len(given):
            return
        raise ValueError(f"`columns` names a column twice: {shown(columns)}.")
    raise ValueError(
        f"`columns` must be positions from 0 to {n_features - 1}, as X has "
        f"{n_features} features, got {shown(columns)}. The position of a named column "
        "is `list(X.columns).index(name)`."
    )


def taken(images: Tensor, columns: Sequence[int]) -> Tensor:
    """Return columns of images or rows (n, ...) as images (n, k, 1, 1)."""
    return images.flatten(1)[:, list(columns), None, None]
