"""Checks of samples: their shape, their weights, and common mistakes."""

import math
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_consistent_length

from skconvgp._typing import FloatArray, ImageShape
from skconvgp.engine import kernel_shape
from skconvgp.estimators._columns import NamedShape, shape_of_columns
from skconvgp.estimators._warn import warn_once
from skconvgp.exceptions import ImageShapeWarning
from skconvgp.kernels import Kernel
from skconvgp.kernels._architectures import idle_settings

__all__ = [
    "check_same_shape",
    "check_weights",
    "has_channels_last",
    "images_to_rows",
    "make_generator",
    "normalize_shape",
    "read_shape",
    "require_many",
    "require_symmetric",
    "require_unmasked",
    "resolve_image_shape",
    "shape_of_rows",
    "warn_of_idle",
]

SMALLEST_SQUARE = 8  # smallest side of an image that a flat row is read as
IMAGE_CHANNELS = (1, 3)
ASYMMETRY = 1e-5  # of the largest entry: what rounding in float32 may leave
COMPARED = 2**18  # entries that are compared with those across the diagonal at once
CHANNELS = (1, 3, 4)  # of grey images, colours, and colours with their opacity
MAX_PROPOSALS = 4


def images_to_rows(X: Any) -> tuple[Any, ImageShape | None]:
    """Flatten images to rows; return also their shape (c, h, w), None for rows.

    Rows of a data frame have the shape that names of its columns tell.

    Parameters
    ----------
    X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
        Rows or images. Other arrays are returned for scikit-learn to check.
    """
    if isinstance(X, list | tuple):
        X = _stacked(X)
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


def _first_of_each_shape(samples: Any) -> dict[tuple[int, ...], int]:
    """Return the shapes of samples, each with the index of the first that has it."""
    first: dict[tuple[int, ...], int] = {}
    for i, one in enumerate(samples):
        with suppress(ValueError):  # a sample may itself be uneven
            first.setdefault(tuple(np.shape(one)), i)
    return first


def _of_different_sizes(samples: Any) -> str:
    """Return what to say of samples of different sizes: one of each shape."""
    each = list(_first_of_each_shape(samples).items())[:MAX_PROPOSALS]
    listed = ", ".join(f"X[{i}] has shape {shape!r}" for shape, i in each)
    return (
        f"X holds samples of different sizes ({listed}): bring images to one height, "
        "width and number of channels, and rows to one length."
    )


def _require_samples(X: Any, ndim: int | None) -> None:
    """Raise for arrays that scikit-learn would misread, or not explain."""
    if ndim is not None and ndim > 4:
        raise ValueError(
            f"Found array with dim {ndim}, shape {tuple(X.shape)!r}: X must have 2, 3 "
            "or 4 dimensions, rows (n, d) or images (n, h, w) or (n, c, h, w)."
        )
    require_unmasked(X, "X")
    if ndim in (1, 2) and str(getattr(X, "dtype", "object")) == "object" and len(X):
        first = np.asarray(X[:1], dtype=object).flat[0]
        if getattr(first, "ndim", 0):
            if ndim == 1 and len(_first_of_each_shape(X)) > 1:
                raise ValueError(_of_different_sizes(X))
            raise ValueError(
                f"X holds arrays of shape {np.shape(first)!r} in its cells: join the "
                "column of images to one array, as by np.stack(X['image'])."
            )


def require_unmasked(values: Any, name: str) -> None:
    """Raise for masked values, because scikit-learn ignores masks."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(
            f"{name} is a masked array with masked values, which would be taken as "
            f"they are: fill them, as by {name}.filled(value), or leave these samples "
            "out."
        )


def shape_of_rows(
    kernel: Kernel, image_shape: object, n_features: int, given: ImageShape | None
) -> ImageShape:
    """Return the shape as which a kernel reads rows; warn of a doubtful guess.

    Also warns of settings of the kernel that have no effect. Parameters are those of
    `resolve_image_shape`. Raises a ValueError if the kernel cannot be used on images of
    this shape.
    """
    shape = read_shape(image_shape, n_features, given, is_spatial=kernel.is_spatial)
    kernel.check(kernel_shape(kernel, shape))
    warn_of_idle(kernel)
    return shape


def warn_of_idle(kernel: Kernel) -> None:
    """Warn of settings of a kernel that have no effect."""
    for setting in idle_settings(kernel):
        warn_once(f"{setting}.", UserWarning)


def read_shape(
    image_shape: object, n_features: int, given: ImageShape | None, *, is_spatial: bool
) -> ImageShape:
    """Return the shape of images; warn of a doubtful guess.

    Parameters are those of `resolve_image_shape`.
    """
    shape, is_guess = resolve_image_shape(
        image_shape, n_features, given, is_spatial=is_spatial
    )
    if is_guess:
        _warn_of_guess(shape)
    if is_spatial:
        _warn_of_channels(shape)
    return shape


def resolve_image_shape(
    image_shape: object, n_features: int, given: ImageShape | None, *, is_spatial: bool
) -> tuple[ImageShape, bool]:
    """Return the shape of the image that a row becomes.

    Parameters
    ----------
    image_shape : "auto", None, (h, w) or (c, h, w)
        The setting.
    n_features : int
        Number of values in a row.
    given : tuple or None
        Shape of the images if X did not hold rows.
    is_spatial : bool
        Whether the kernel uses the shape.

    Returns
    -------
    shape : tuple of int
        (c, h, w).
    is_guess : bool
        Whether "auto" read rows as square images.

    Raises
    ------
    ValueError
        If the shape does not fit the data.
    """
    if image_shape is None:
        return (n_features, 1, 1), False
    if isinstance(image_shape, str) and image_shape == "auto":
        if given is not None:
            channels, height, width = given  # a plain tuple, which files may hold
            return (channels, height, width), False
        square = _square_shape(n_features) if is_spatial else None
        return (square, True) if square else ((n_features, 1, 1), False)
    shape = normalize_shape(image_shape)
    given = None if isinstance(given, NamedShape) else given
    is_fitting = math.prod(shape) == n_features and given in (None, shape)
    if not is_spatial and not is_fitting:
        return given or (n_features, 1, 1), False
    if math.prod(shape) != n_features:
        proposals = ", ".join(str(fit) for fit in _fitting_shapes(n_features))
        raise ValueError(
            f"`image_shape`={image_shape!r} has {math.prod(shape)} values and each "
            f"sample of X has {n_features}: use one of {proposals}, or None to read a "
            "sample as a plain vector."
        )
    if given is not None and given != shape:
        raise ValueError(
            f"`image_shape`={image_shape!r} and X holds images of shape {given!r} "
            "(c, h, w): leave image_shape='auto', or pass X as rows."
        )
    return shape, False


def _warn_of_guess(shape: ImageShape) -> None:
    """Warn that rows were read as images of this shape."""
    warn_once(
        f"Each row of X was read as an image of shape {shape!r} (c, h, w). Set "
        f"image_shape={shape!r} to confirm, or image_shape=None to read rows as plain "
        "vectors; both silence this. For tables take a kernel for vectors, as in "
        "ConvNetGPClassifier(rbf()).",
        ImageShapeWarning,
    )


def has_channels_last(shape: ImageShape) -> bool:
    """Return whether the shape of the images suggests that channels are last."""
    channels, height, width = shape
    return width in CHANNELS and channels not in CHANNELS and height not in CHANNELS


def _warn_of_channels(shape: ImageShape) -> None:
    """Warn if the shape of the images suggests that channels are last."""
    channels, height, width = shape
    if has_channels_last(shape):
        warn_once(
            f"Images are read as (c, h, w) = {shape!r}: {channels} channels of "
            f"{height} x {width} pixels. If the last of the axes holds the channels, "
            "pass np.moveaxis(X, -1, 1), or rows of images that were transposed so; if "
            "these are series, pass them as (c, 1, length).",
            ImageShapeWarning,
        )


def normalize_shape(image_shape: object) -> ImageShape:
    """Return an explicit `image_shape` as (c, h, w)."""
    sizes = tuple(image_shape) if isinstance(image_shape, tuple | list) else ()
    is_sizes = all(isinstance(s, int | np.integer) and s > 0 for s in sizes)
    if len(sizes) not in (2, 3) or not is_sizes:
        raise ValueError(
            "`image_shape` must be 'auto', None, (height, width) or (channels, height, "
            f"width), got {image_shape!r}."
        )
    channels, height, width = (
        int(s) for s in ((1, *sizes) if len(sizes) == 2 else sizes)
    )
    return channels, height, width


def check_same_shape(given: ImageShape | None, fitted: ImageShape) -> None:
    """Raise if images have another shape than in `fit`; rows have none."""
    if given is None or isinstance(given, NamedShape):
        return
    if fitted == (math.prod(given), 1, 1):
        return
    if given != fitted:
        is_last = given == (*fitted[1:], fitted[0])
        remedy = " Its last axis has the channels: pass np.moveaxis(X, -1, 1)."
        raise ValueError(
            f"X holds images of shape {given!r} (c, h, w) and the estimator was fitted "
            f"on images of shape {fitted!r}.{remedy if is_last else ''}"
        )


def require_many(shape: tuple[int, ...], fitted: ImageShape) -> None:
    """Raise if X is a single image of the shape in `fit`."""
    is_image = fitted[1] > 1 and shape in (fitted, fitted[1:])
    if is_image and not (shape == fitted and fitted[0] == 1):
        raise ValueError(
            f"X has shape {shape!r}, which is that of a single image in `fit`: pass "
            "X[None], an array of one image."
        )


def require_symmetric(gram: NDArray[Any]) -> None:
    """Raise if a square matrix differs from its transpose by more than rounding."""
    n_rows = max(1, COMPARED // len(gram))
    largest = 0.0
    apart, i, j = 0.0, 0, 0
    for start in range(0, len(gram), n_rows):
        rows = gram[start : start + n_rows, start:]
        largest = max(largest, float(rows.max()), -float(rows.min()))
        gaps = np.abs(rows - gram[start:, start : start + n_rows].T)
        row, column = np.unravel_index(gaps.argmax(), gaps.shape)
        if gaps[row, column] > apart:
            apart = float(gaps[row, column])
            i, j = start + int(row), start + int(column)
    if apart > ASYMMETRY * largest:
        raise ValueError(
            "With kernel='precomputed', X in `fit` must be a symmetric matrix, and its "
            f"entries [{i}, {j}] and [{j}, {i}] differ by {apart:.3g}, with entries up "
            f"to {largest:.3g}. If both mean the same covariance, pass (X + X.T) / 2."
        )


def check_weights(sample_weight: ArrayLike | None, X: Any) -> FloatArray:
    """Return sample weights (n,): ones for None, else finite, >= 0 and not all 0."""
    n_samples = X.shape[0]
    if sample_weight is None:
        return np.ones(n_samples)
    require_unmasked(sample_weight, "sample_weight")
    weights: FloatArray = check_array(
        sample_weight,
        ensure_2d=False,
        dtype=np.float64,
        copy=True,  # the model keeps them
        input_name="sample_weight",
    )
    if weights.ndim != 1:
        raise ValueError(
            f"`sample_weight` must have one dimension, got shape {weights.shape!r}."
        )
    check_consistent_length(weights, X)
    if (weights < 0.0).any():
        raise ValueError(
            "`sample_weight` must be >= 0, its smallest value is "
            f"{float(weights.min())!r}."
        )
    if not weights.any():
        raise ValueError("`sample_weight` must not be zero for every sample.")
    return weights


def _square_shape(n_features: int) -> ImageShape | None:
    for channels in IMAGE_CHANNELS:
        side = math.isqrt(n_features // channels)
        if side >= SMALLEST_SQUARE and channels * side * side == n_features:
            return (channels, side, side)
    return None


def _fitting_shapes(n_features: int) -> list[ImageShape]:
    """Return shapes with as many values, the squarest first."""
    shapes = [
        (channels, height, n_features // channels // height)
        for channels in IMAGE_CHANNELS
        if n_features % channels == 0
        for height in range(1, math.isqrt(n_features // channels) + 1)
        if (n_features // channels) % height == 0
    ]
    shapes.sort(key=lambda shape: (shape[2] - shape[1], shape[0]))
    return shapes[:MAX_PROPOSALS]


def make_generator(random_state: Any) -> torch.Generator:
    """Return a source of randomness from scikit-learn's `random_state`."""
    seed = check_random_state(random_state).randint(2**31 - 1)
    return torch.Generator().manual_seed(int(seed))
