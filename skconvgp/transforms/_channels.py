"""ChannelScaler and ChannelWhitening."""

from __future__ import annotations

from functools import partial
from typing import Any, Self

from skconvgp._settings import is_number
from skconvgp._typing import FloatArray
from skconvgp.estimators._public_fit import public_fit
from skconvgp.estimators.settings._checks import Given
from skconvgp.estimators.settings._types import (
    Budget,
    ShapeOfImages,
)
from skconvgp.image_maps import ChannelScaling, ChannelZCA
from skconvgp.transforms._base import InvertibleTransformer, require_not_negative

__all__ = ["ChannelScaler", "ChannelWhitening"]


class ChannelScaler(InvertibleTransformer):
    """Divides each channel by its root mean square over training images.

    All positions of a channel share one factor, so that images stay images. A channel
    of zeros is not changed.

    Parameters
    ----------
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
    scale_ : ndarray of shape (c,)
        The root mean squares.
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
    ChannelWhitening : Removes correlations of channels, too.

    Examples
    --------
    >>> import numpy as np
    >>> from skconvgp.transforms import ChannelScaler
    >>> images = np.random.default_rng(0).random((20, 3, 8, 8))
    >>> scaled = ChannelScaler().fit_transform(images)
    >>> np.round(np.sqrt((scaled**2).mean((0, 2, 3))), 6)
    array([1., 1., 1.])
    """

    map_: ChannelScaling

    def __init__(
        self,
        *,
        image_shape: ShapeOfImages = "auto",
        device: str = "auto",
        memory_budget: Budget = None,
    ) -> None:
        self.image_shape = image_shape
        self.device = device
        self.memory_budget = memory_budget

    @public_fit
    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002  (scikit-learn's)
        """Measure the channels.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Images.
        y : None
            Not read.

        Returns
        -------
        self : ChannelScaler
            The fitted transformer.
        """
        self._fit_map(ChannelScaling.fit, self._read(X))
        return self

    @property
    def scale_(self) -> FloatArray:
        """The root mean squares."""
        scale: FloatArray = self.map_.scale
        return scale


class ChannelWhitening(InvertibleTransformer):
    r"""Makes channels comparable: logarithms, centred and weakly whitened.

    Each channel is divided by its root mean square. Of the result x,
    :math:`\operatorname{sign}(x) \log(1 + |x| / \delta)` is taken, centred, and
    multiplied by :math:`U (\Lambda + \epsilon \bar\lambda I)^{-1/2} U^\top`, where
    :math:`U \Lambda U^\top` is the covariance of the channels over all training images
    and positions, and :math:`\bar\lambda` its mean eigenvalue. This is what scattering
    coefficients need before a kernel compares them.

    Parameters
    ----------
    offset : float or None, default=0.1
        :math:`\delta`, in root mean squares of a channel. None takes no logarithms.
    eps : float, default=1.0
        :math:`\epsilon`: 0 whitens fully, a large number only scales.
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
    ScatteringTransform : Makes such channels.

    Examples
    --------
    >>> import numpy as np
    >>> from skconvgp.transforms import ChannelWhitening
    >>> images = np.random.default_rng(0).random((20, 3, 8, 8))
    >>> white = ChannelWhitening(offset=None, eps=0.0).fit_transform(images)
    >>> np.allclose(np.cov(np.moveaxis(white, 1, 0).reshape(3, -1), ddof=0), np.eye(3))
    True
    """

    map_: ChannelZCA

    def __init__(
        self,
        offset: float | None = 0.1,
        eps: float = 1.0,
        *,
        image_shape: ShapeOfImages = "auto",
        device: str = "auto",
        memory_budget: Budget = None,
    ) -> None:
        self.offset = offset
        self.eps = eps
        self.image_shape = image_shape
        self.device = device
        self.memory_budget = memory_budget

    @public_fit
    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002  (scikit-learn's)
        """Measure the channels and their covariance.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Images.
        y : None
            Not read.

        Returns
        -------
        self : ChannelWhitening
            The fitted transformer.
        """
        if self.offset is not None and not is_number(self.offset):
            Given.of(self).reject("offset", "None or a finite number > 0")
        require_not_negative(self, "eps")
        offset = None if self.offset is None else float(self.offset)
        fit = partial(ChannelZCA.fit, offset=offset, eps=float(self.eps))
        self._fit_map(fit, self._read(X))
        return self
