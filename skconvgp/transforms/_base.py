"""ImageTransformer: the base of all transformers of images."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    OneToOneFeatureMixin,
    TransformerMixin,
)
from sklearn.utils import Tags
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_array, check_is_fitted
from torch import Tensor

from skconvgp._ambient import public
from skconvgp._documented import reference_page
from skconvgp._settings import is_number
from skconvgp._tensors import native
from skconvgp._typing import ImageShape
from skconvgp.engine import (
    Placement,
    compute_at,
    rows_to_images,
    slices,
    to_numpy,
)
from skconvgp.estimators._callbacks import BaseCallbacks
from skconvgp.estimators._columns import image_columns
from skconvgp.estimators._doors import read_new
from skconvgp.estimators._given import FLOATS, checked_rows, images_to_rows
from skconvgp.estimators._scale import require_squares
from skconvgp.estimators._validation import read_shape
from skconvgp.estimators.settings._checks import Given
from skconvgp.estimators.settings._compute import Compute
from skconvgp.exceptions import NotFiniteError, TileMemoryError
from skconvgp.image_maps import ImageBlocks

__all__ = [
    "ImageMap",
    "ImageTransformer",
    "InvertibleTransformer",
    "as_wanted",
    "require_not_negative",
]

MOST_IMAGES, MOST_FITTED = 64, 1000  # at once
# Of the pixels of an image, temporaries included.
COPIES, FIT_COPIES = 4, 7


class ImageMap(Protocol):
    """Maps images to images."""

    def __call__(self, images: Tensor) -> Tensor:
        """Return images (n, c', h', w') of images (n, c, h, w)."""
        ...

    def n_values(self, image_shape: ImageShape) -> int:
        """Return how many numbers are held at once for an image."""
        ...


class InvertibleMap(ImageMap, Protocol):
    """Maps images to images of the same shape, and back."""

    def inverse(self, images: Tensor) -> Tensor:
        """Return the images (n, c, h, w) that become these."""
        ...


class ImageTransformer(TransformerMixin, BaseCallbacks, BaseEstimator):
    """A transformer of images, which may come as rows."""

    _get_doc_link = reference_page

    image_shape: object
    device: str
    memory_budget: object

    image_shape_: ImageShape
    output_shape_: ImageShape
    map_: ImageMap

    _keeps_values = False  # whether each value of X becomes one value

    def __sklearn_tags__(self) -> Tags:
        """Declare that X may hold images, and that its precision is kept."""
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @public
    def transform(self, X: Any) -> Any:
        """Transform images.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Images, or rows that are read as images of the shape in `fit`.

        Returns
        -------
        X_new : ndarray of shape (n, c', h', w'), or (n, d')
            Images of shape `output_shape_`, in the precision of X. They are rows if X
            has rows that are read as single pixels, or if `set_output` asks for a data
            frame.

        Raises
        ------
        ValueError
            If images have another shape than in `fit`.
        TileMemoryError
            If `memory_budget` does not allow a single image.
        """
        check_is_fitted(self)
        rows = read_new(self, X)
        held = self.map_.n_values(self.image_shape_)
        images = self._apply(self.map_, rows, self.image_shape_, held)
        return _as_rows(images) if self._are_pixels(X) else as_wanted(self, images)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns of a data frame.

        Names of images tell their shape, as ``downsample_1x4x4_0``, so that the next
        step reads them without `image_shape`.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns of X, if X has none. They are kept where each value
            becomes one value.

        Returns
        -------
        feature_names_out : ndarray of str
            The names.
        """
        of_values = (
            OneToOneFeatureMixin
            if self._keeps_values
            else ClassNamePrefixFeaturesOutMixin
        )
        names: NDArray[Any] = of_values.get_feature_names_out(self, input_features)
        has_names = input_features is not None or hasattr(self, "feature_names_in_")
        if self._keeps_values and has_names:
            return names
        name = type(self).__name__.lower()
        return np.array(image_columns(name, self.output_shape_), dtype=object)

    @property
    def _n_features_out(self) -> int:
        return math.prod(self.output_shape_)

    def _read(self, X: Any) -> Tensor:
        """Return images (n, c, h, w) of `fit`, and set attributes that describe them.

        A device or budget that cannot be used is an error, also where `fit` needs none.
        """
        compute = Compute.of(self)
        compute.memory_budget(compute.placement().device)
        rows, given = images_to_rows(X)
        rows = checked_rows(self, rows)
        shape = read_shape(self.image_shape, rows.shape[1], given, is_spatial=True)
        self.image_shape_ = self.output_shape_ = shape
        return rows_to_images(rows, shape)

    def _fit_map(self, fit: Callable[[ImageBlocks], ImageMap], images: Tensor) -> None:
        """Fit the map on the device, to images on the host, a block at a time."""
        require_squares(to_numpy(images))
        placement = Compute.of(self).placement()
        an_image = FIT_COPIES * images[0].numel() * torch.float64.itemsize
        n_images = self._at_once(an_image, MOST_FITTED, placement)
        self.map_ = compute_at(
            placement, lambda at: fit(ImageBlocks(images, at.device, n_images))
        )

    def _at_once(self, an_image: int, most: int, placement: Placement) -> int:
        """Return how many images the budget allows, each of so many bytes."""
        budget = Compute.of(self).memory_budget(placement.device)
        if budget < an_image:
            raise TileMemoryError(
                f"An image of shape {self.image_shape_!r} needs {an_image} bytes and "
                f"`memory_budget` allows {budget}: raise it."
            )
        return min(most, budget // an_image)

    def _apply(
        self,
        image_map: Callable[[Tensor], Tensor],
        rows: NDArray[Any],
        shape: ImageShape,
        held: int,
    ) -> NDArray[Any]:
        """Return images (n, c', h', w') of rows, a block at a time.

        `held` is the number of numbers that are held at once for an image. Raises a
        NotFiniteError if results are not finite.
        """
        images = rows_to_images(rows, shape)
        placement = Compute.of(self).placement(is_fitted=True)
        an_image = COPIES * held * images.itemsize
        n_images = self._at_once(an_image, MOST_IMAGES, placement)

        def apply_at(at: Any) -> NDArray[Any]:
            first, *others = slices(len(images), n_images)
            with torch.no_grad():
                block = to_numpy(image_map(images[first].to(at.device)))
                found = np.empty((len(images), *block.shape[1:]), block.dtype)
                found[first] = block
                for part in others:
                    found[part] = to_numpy(image_map(images[part].to(at.device)))
            return found

        results = compute_at(placement, apply_at)
        if not np.isfinite([results.min(), results.max()]).all():
            raise NotFiniteError(
                f"Numbers of {type(self).__name__} are not finite in "
                f"{results.dtype.name}, which does not hold numbers of this size: pass "
                "X in float64, or scale X to numbers near 1."
            )
        return results

    def _are_pixels(self, X: Any) -> bool:
        """Return whether samples are rows that are read as single pixels."""
        return self.image_shape_[1:] == (1, 1) and images_to_rows(X)[1] is None


class InvertibleTransformer(ImageTransformer):
    """A transformer whose map has an inverse."""

    _keeps_values = True

    map_: InvertibleMap

    @public
    def inverse_transform(self, X: Any) -> NDArray[Any]:
        """Return the images that `transform` would turn into X.

        Parameters
        ----------
        X : array-like of shape (n, d) or (n, c, h, w)
            Transformed images.

        Returns
        -------
        X_original : ndarray of shape (n, c, h, w), or (n, d) for rows of single pixels
            The images.
        """
        check_is_fitted(self)
        rows, given = images_to_rows(X)
        rows = native(check_array(rows, dtype=FLOATS))
        if given not in (None, self.output_shape_) or (
            rows.shape[1] != self._n_features_out
        ):
            raise ValueError(
                f"X holds images of shape {given or rows.shape[1:]!r}, and `transform` "
                f"returns images of shape {self.output_shape_!r} (c, h, w)."
            )
        held = self.map_.n_values(self.output_shape_)
        images = self._apply(self.map_.inverse, rows, self.output_shape_, held)
        return _as_rows(images) if self._are_pixels(X) else images


def as_wanted(transformer: Any, images: NDArray[Any]) -> NDArray[Any]:
    """Return images, or rows where a transformer is to return a data frame."""
    wants_frame = _get_output_config("transform", transformer)["dense"] != "default"
    return _as_rows(images) if wants_frame else images


def _as_rows(images: NDArray[Any]) -> NDArray[Any]:
    return images.reshape(len(images), -1)


def require_not_negative(owner: Any, name: str) -> None:
    """Raise unless a setting is a finite number >= 0."""
    value = getattr(owner, name)
    is_zero = isinstance(value, int | float) and value == 0
    if not is_zero and not is_number(value):
        Given.of(owner).reject(name, "a finite number >= 0")
