"""Samples, labels and weights as users give them: sequences, tensors and frames."""

import math
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from skconvgp._tensors import native
from skconvgp._typing import ImageShape
from skconvgp.engine import first_shapes, host_arrays, named_shapes
from skconvgp.estimators._columns import require_distinct_names, shape_of_columns
from skconvgp.estimators._pictures import (
    holds_pictures,
    is_picture,
    stack_pictures,
)

FLOATS = [np.float64, np.float32]  # arrays of other types become float64


def host_samples(X: Any) -> Any:
    """Return samples that are sequences, pictures or tensors as an array.

    Frames, arrays and what scikit-learn has to refuse are returned as they are.
    """
    if is_picture(X):
        raise ValueError("X is a single picture: pass [X], a list of one picture.")
    if holds_pictures(X):
        return stack_pictures(X)
    X = host_arrays(X, "X")
    _require_no_paths(X)
    return _stacked(X) if isinstance(X, list | tuple) else X


def _require_no_paths(X: Any) -> None:
    """Raise if samples are texts or paths: a single one, a sequence or a column."""
    is_column = isinstance(X, list | tuple) or len(getattr(X, "shape", ())) == 1
    first = next(iter(X), None) if is_column else X
    if isinstance(first, str | PathLike):
        raise ValueError(  # noqa: TRY004  (of what it holds)
            f"X names {first!r}: files of pictures are read by ReadImages(size=32) of "
            "skconvgp.transforms, in a pipeline, or by datasets.load_image_folder."
        )


def images_to_rows(X: Any) -> tuple[Any, ImageShape | None]:
    """Flatten images to rows; return also their shape (c, h, w), None for rows.

    Rows of a data frame have the shape that names of its columns tell.

    Parameters
    ----------
    X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
        Rows or images. Other arrays are returned for scikit-learn to check.
    """
    return rows_of(host_samples(X))


def rows_of(X: Any) -> tuple[Any, ImageShape | None]:
    """Return what `images_to_rows` does, of samples as `host_samples` returns them."""
    ndim = getattr(X, "ndim", None)
    _require_samples(X, ndim)
    if ndim not in (3, 4):
        return X, shape_of_columns(X)
    X = np.asarray(X)
    shape = (1, *X.shape[1:]) if ndim == 3 else tuple(X.shape[1:])
    return X.reshape(X.shape[0], math.prod(shape)), shape


def _stacked(X: Any) -> NDArray[Any]:
    """Return a sequence of samples as an array."""
    try:
        return np.asarray(X)
    except ValueError as error:
        raise ValueError(_of_different_sizes(X)) from error


def _of_different_sizes(samples: Any) -> str:
    """Return words about samples of different sizes, with one sample of each shape."""
    shapes = named_shapes(samples, "X")
    return (
        f"X holds samples of different sizes ({shapes}): bring images to one height, "
        "width and number of channels, as ReadImages(size=32) of skconvgp.transforms "
        "does; rows to one length."
    )


def _require_samples(X: Any, ndim: int | None) -> None:
    """Raise for arrays that scikit-learn would misread, or not explain."""
    if ndim is not None and ndim > 4:
        raise ValueError(
            f"Found array with dim {ndim}, shape {tuple(X.shape)!r}: X must have 2, 3 "
            "or 4 dimensions, rows (n, d) or images (n, h, w) or (n, c, h, w)."
        )
    require_distinct_names(X, "X")
    if ndim in (1, 2) and str(getattr(X, "dtype", "object")) == "object" and len(X):
        cells = np.asarray(X[:1], dtype=object).ravel().tolist()
        _require_no_image(X, cells[:1])


def _require_no_image(X: Any, cells: list[Any]) -> None:
    """Raise if the cells of the first row hold images, which cannot become numbers."""
    if any(map(is_picture, cells)):
        raise ValueError(
            "X holds pictures in its cells: pass the column of pictures as a list, as "
            "by list(X['image'])."
        )
    if any(isinstance(one, list) or getattr(one, "ndim", 0) for one in cells):
        if X.ndim == 1 and len(first_shapes(X)) > 1:
            raise ValueError(_of_different_sizes(X))
        raise ValueError(
            f"X holds arrays of shape {np.shape(cells[0])!r} in its cells: join the "
            "column of images to one array, as by np.stack(X['image'])."
        )


def checked_rows(estimator: Any, rows: Any, **options: Any) -> NDArray[Any]:
    """Return rows that `validate_data` of scikit-learn has checked, in native order.

    Parameters
    ----------
    estimator : estimator
        Gets `n_features_in_` and, if X has names, `feature_names_in_`.
    rows : array-like
        First result of `images_to_rows`.
    **options : object
        For :func:`sklearn.utils.validation.validate_data`.
    """
    return native(validate_data(estimator, rows, dtype=FLOATS, **options))


def checked_pair(
    estimator: Any, rows: Any, y: Any, **options: Any
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return rows as `checked_rows` does, and labels or targets."""
    require_distinct_names(y, "y")
    rows, y = validate_data(estimator, rows, y, dtype=FLOATS, **options)
    return native(rows), y
