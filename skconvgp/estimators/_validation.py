"""Checks of samples: their shape, their weights, and common mistakes."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_consistent_length

from skconvgp._settings import shown
from skconvgp._typing import FloatArray, ImageShape
from skconvgp.engine import host_values, kernel_shape
from skconvgp.estimators._columns import NamedShape
from skconvgp.estimators._warn import warn_once
from skconvgp.exceptions import ImageShapeWarning
from skconvgp.kernels import Kernel
from skconvgp.kernels._architectures import idle_settings

SMALLEST_SQUARE = 8  # smallest side of an image that a flat row is read as
IMAGE_CHANNELS = (1, 3)
ASYMMETRY = 1e-5  # of the largest entry: what rounding in float32 may leave
COMPARED = 2**18  # entries that are compared with those across the diagonal at once
CHANNELS = (1, 3, 4)  # of grey images, colours, and colours with their opacity
MAX_PROPOSALS = 4
# Whether images come from within the package, where channels are first.
KNOWS_AXES: ContextVar[bool] = ContextVar("KNOWS_AXES", default=False)


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
    require_channels_first(image_shape, given)
    shape, is_guess = resolve_image_shape(
        image_shape, n_features, given, is_spatial=is_spatial
    )
    if is_guess:
        _warn_of_guess(shape)
    if is_spatial and given is None:
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
    return width in CHANNELS and channels not in CHANNELS and height > max(CHANNELS)


@contextmanager
def channels_are_first() -> Iterator[None]:
    """Let transformers take images of any shape, because their axes are known."""
    token = KNOWS_AXES.set(True)
    try:
        yield
    finally:
        KNOWS_AXES.reset(token)


def require_channels_first(image_shape: object, given: ImageShape | None) -> None:
    """Raise if images have channels last, as it seems, and no setting says otherwise.

    Parameters are those of `resolve_image_shape`.
    """
    if given is None or isinstance(given, NamedShape) or image_shape is None:
        return
    if KNOWS_AXES.get():
        return
    is_auto = isinstance(image_shape, str) and image_shape == "auto"
    if not has_channels_last(given) or (
        not is_auto and normalize_shape(image_shape) == given
    ):
        return
    channels, height, width = given
    raise ValueError(
        f"X holds images of shape {given!r}, whose last axis seems to hold the "
        f"channels, and (c, h, w) are expected: these would be {channels} channels of "
        f"{height} x {width} pixels. Pass np.moveaxis(X, -1, 1), or set "
        f"image_shape={given!r} if that is what they are."
    )


def _warn_of_channels(shape: ImageShape) -> None:
    """Warn if a setting says that rows have channels last, as it seems."""
    channels, height, width = shape
    if has_channels_last(shape):
        warn_once(
            f"Rows are read as images (c, h, w) = {shape!r}: {channels} channels of "
            f"{height} x {width} pixels. If the last of the axes holds the channels, "
            "pass rows of images that were transposed by np.moveaxis(X, -1, 1); if "
            "these are series, set image_shape=(c, 1, length).",
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


def check_same_shape(
    fitted: ImageShape, image_shape: object, given: ImageShape | None
) -> None:
    """Raise if images have another shape than in `fit`; rows have none."""
    if given is None or isinstance(given, NamedShape):
        return
    if fitted == (math.prod(given), 1, 1):
        require_channels_first(image_shape, given)
        return
    if given != fitted:
        is_last = given == (*fitted[1:], fitted[0]) or has_channels_last(given)
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


def check_weights(
    sample_weight: ArrayLike | None, X: Any, *, can_be_zero: bool = False
) -> FloatArray:
    """Return sample weights (n,): ones for None, else finite and >= 0.

    Parameters
    ----------
    sample_weight : array-like of shape (n,), or None
        The weights.
    X : array
        Has a row for each of them.
    can_be_zero : bool, default=False
        Whether all may be 0.
    """
    n_samples = X.shape[0]
    if sample_weight is None:
        return np.ones(n_samples)
    weights: FloatArray = check_array(
        host_values(sample_weight, "sample_weight"),
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
    if not can_be_zero and not weights.any():
        raise ValueError(
            "`sample_weight` must not be zero for every sample: begin with samples of "
            "which one counts."
        )
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


def random_source(random_state: Any) -> np.random.RandomState:
    """Return the generator that `random_state` stands for in scikit-learn."""
    try:
        source: np.random.RandomState = check_random_state(random_state)
    except (ValueError, TypeError, OverflowError):
        raise ValueError(
            "random_state must be None, an int from 0 to 2**32 - 1 or a "
            f"numpy.random.RandomState. Got {shown(random_state)} instead."
        ) from None
    return source


def make_generator(random_state: Any) -> torch.Generator:
    """Return a source of randomness from scikit-learn's `random_state`."""
    seed = random_source(random_state).randint(2**31 - 1)
    return torch.Generator().manual_seed(int(seed))
