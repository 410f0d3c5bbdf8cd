"""ContrastNormalization, Downsample and ZCAWhitening."""

from __future__ import annotations

from functools import partial
from typing import Any, Self

from skconvgp.estimators._public_fit import public_fit
from skconvgp.estimators.settings._checks import Given, as_count
from skconvgp.estimators.settings._types import (
    Budget,
    ShapeOfImages,
)
from skconvgp.image_maps import Contrast, PixelZCA, Pooling
from skconvgp.transforms._base import ImageTransformer, require_not_negative

__all__ = ["ContrastNormalization", "Downsample", "ZCAWhitening"]


class ContrastNormalization(ImageTransformer):
    r"""Subtracts the mean of each image, and divides by its standard deviation.

    :math:`\epsilon \bar v` is added to the variance, where :math:`\bar v` is the mean
    variance within a training image, so that images without contrast stay faint.

    Parameters
    ----------
    eps : float, default=0.01
        :math:`\epsilon`, >= 0.
    image_shape : "auto", None, (h, w) or (c, h, w), default="auto"
        How a flat row becomes an image, as in
        :class:`~skconvgp.transforms.ScatteringTransform`.
    device : str, default="auto"
        "cpu", "cuda", "cuda:1" and the like. "auto" uses a GPU if there is one.
    memory_budget : None, int or str, default=None
        Memory that may be used in addition to X and the result, in bytes or as in
        "2 GiB". None is half of the free memory.

    Attributes
    ----------
    image_shape_ : tuple of int
        Shape (c, h, w) of the images in `fit`.
    output_shape_ : tuple of int
        Shape of the result.
    map_ : object
        Fitted map of tensors of images.
    n_features_in_ : int
        Number of values of an image.
    feature_names_in_ : ndarray of shape (d,)
        Names of the columns of X, if it has some.

    See Also
    --------
    ZCAWhitening : Removes correlations of pixels.

    Examples
    --------
    >>> import numpy as np
    >>> from skconvgp.transforms import ContrastNormalization
    >>> images = np.random.default_rng(0).random((20, 3, 8, 8))
    >>> normalized = ContrastNormalization(eps=0.0).fit_transform(images)
    >>> np.allclose(normalized.std((1, 2, 3)), 1.0)
    True
    """

    _keeps_values = True

    def __init__(
        self,
        eps: float = 0.01,
        *,
        image_shape: ShapeOfImages = "auto",
        device: str = "auto",
        memory_budget: Budget = None,
    ) -> None:
        self.eps = eps
        self.image_shape = image_shape
        self.device = device
        self.memory_budget = memory_budget

    @public_fit
    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002  (scikit-learn's)
        """Measure the variance within images.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Images.
        y : None
            Not read.

        Returns
        -------
        self : ContrastNormalization
            The fitted transformer.
        """
        require_not_negative(self, "eps")
        self._fit_map(partial(Contrast.fit, eps=self.eps), self._read(X))
        return self


class ZCAWhitening(ImageTransformer):
    r"""Removes correlations of pixels; whitened images look like their edges.

    Each image is centred and scaled to length 1. The result, minus its mean over
    training images, is multiplied by
    :math:`U (\Lambda + \epsilon \bar\lambda I)^{-1/2} U^\top`, where
    :math:`U \Lambda U^\top` is the covariance of the pixels and :math:`\bar\lambda` its
    mean eigenvalue. `fit` holds a square matrix of the number of pixels or of images,
    whichever is smaller.

    Parameters
    ----------
    eps : float, default=0.1
        :math:`\epsilon`, >= 0.
    image_shape : "auto", None, (h, w) or (c, h, w), default="auto"
        How a flat row becomes an image, as in
        :class:`~skconvgp.transforms.ScatteringTransform`.
    device : str, default="auto"
        "cpu", "cuda", "cuda:1" and the like. "auto" uses a GPU if there is one.
    memory_budget : None, int or str, default=None
        Memory that may be used in addition to X, the result and the matrices of `fit`,
        in bytes or as in "2 GiB". None is half of the free memory.

    Attributes
    ----------
    image_shape_ : tuple of int
        Shape (c, h, w) of the images in `fit`.
    output_shape_ : tuple of int
        Shape of the result.
    map_ : object
        Fitted map of tensors of images.
    n_features_in_ : int
        Number of values of an image.
    feature_names_in_ : ndarray of shape (d,)
        Names of the columns of X, if it has some.

    See Also
    --------
    ChannelWhitening : Removes correlations of channels alone.

    Examples
    --------
    >>> import numpy as np
    >>> from skconvgp.transforms import ZCAWhitening
    >>> images = np.random.default_rng(0).random((20, 1, 8, 8))
    >>> ZCAWhitening().fit_transform(images).shape
    (20, 1, 8, 8)
    """

    _keeps_values = True

    def __init__(
        self,
        eps: float = 0.1,
        *,
        image_shape: ShapeOfImages = "auto",
        device: str = "auto",
        memory_budget: Budget = None,
    ) -> None:
        self.eps = eps
        self.image_shape = image_shape
        self.device = device
        self.memory_budget = memory_budget

    @public_fit
    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002  (scikit-learn's)
        """Compute the covariance of pixels.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Images.
        y : None
            Not read.

        Returns
        -------
        self : ZCAWhitening
            The fitted transformer.
        """
        require_not_negative(self, "eps")
        self._fit_map(partial(PixelZCA.fit, eps=self.eps), self._read(X))
        return self


class Downsample(ImageTransformer):
    """Averages squares of pixels, so that images become smaller.

    Squares at the lower and right edge may be smaller. Nothing is learned.

    Parameters
    ----------
    factor : int, default=2
        Side of the squares.
    image_shape : "auto", None, (h, w) or (c, h, w), default="auto"
        How a flat row becomes an image, as in
        :class:`~skconvgp.transforms.ScatteringTransform`.
    device : str, default="auto"
        "cpu", "cuda", "cuda:1" and the like. "auto" uses a GPU if there is one.
    memory_budget : None, int or str, default=None
        Memory that may be used in addition to X and the result, in bytes or as in
        "2 GiB". None is half of the free memory.

    Attributes
    ----------
    image_shape_ : tuple of int
        Shape (c, h, w) of the images in `fit`.
    output_shape_ : tuple of int
        Shape of the result.
    map_ : object
        Fitted map of tensors of images.
    n_features_in_ : int
        Number of values of an image.
    feature_names_in_ : ndarray of shape (d,)
        Names of the columns of X, if it has some.

    Examples
    --------
    >>> import numpy as np
    >>> from skconvgp.transforms import Downsample
    >>> Downsample().fit_transform(np.ones((2, 3, 32, 32))).shape
    (2, 3, 16, 16)
    """

    def __init__(
        self,
        factor: int = 2,
        *,
        image_shape: ShapeOfImages = "auto",
        device: str = "auto",
        memory_budget: Budget = None,
    ) -> None:
        self.factor = factor
        self.image_shape = image_shape
        self.device = device
        self.memory_budget = memory_budget

    @public_fit
    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002  (scikit-learn's)
        """Read the shape of images.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Images.
        y : None
            Not read.

        Returns
        -------
        self : Downsample
            The fitted transformer.
        """
        self.map_ = Pooling(Given.of(self).read("factor", as_count))
        self._read(X)
        channels, *sizes = self.image_shape_
        height, width = (-(-size // self.map_.factor) for size in sizes)
        self.output_shape_ = channels, height, width
        return self
