"""ScatteringTransform."""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any, Self

import torch

from skconvgp._settings import is_int, shown
from skconvgp.engine import require_memory
from skconvgp.estimators._public_fit import public_fit
from skconvgp.estimators._validation import CHANNELS, has_channels_last
from skconvgp.estimators.settings._checks import Given, as_count
from skconvgp.estimators.settings._types import (
    Budget,
    ShapeOfImages,
)
from skconvgp.image_maps import Pooling, Scattering
from skconvgp.transforms._base import ImageTransformer

__all__ = ["ScatteringTransform"]

MOST_ANGLES = 128


class ScatteringTransform(ImageTransformer):
    r"""Scattering coefficients: local averages of moduli of wavelet transforms.

    An image of c channels becomes one of
    :math:`c\,(1 + J L + L^2 J (J - 1) / 2)` channels and a :math:`2^J`-th of the height
    and of the width. Coefficients change little if the image is moved by a few pixels
    or bent, and tell textures apart. Nothing is learned.

    Parameters
    ----------
    J : int, default=2
        Number of scales. Coefficients are averages over about :math:`2^J` pixels.
    L : int, default=8
        Number of angles of the wavelets, at most 128.
    order : {1, 2}, default=2
        Largest number of wavelet transforms in a row.
    image_shape : "auto", None, (h, w) or (c, h, w), default="auto"
        How a flat row becomes an image, in the order c, h, w. "auto" keeps the shape of
        images, and reads rows of s * s or 3 * s * s values with s >= 8 as square images
        (with a warning). It reads all other rows as 1x1 images, as None reads every
        row; these are not changed.
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
        Shape (c', h', w') of the coefficients of an image.
    map_ : object
        Map of tensors of images.
    n_features_in_ : int
        Number of values of an image.
    feature_names_in_ : ndarray of shape (d,)
        Names of the columns of X, if it has some.

    Raises
    ------
    ValueError
        If an image is larger than a pixel and smaller than :math:`2^J` on a side.

    See Also
    --------
    ChannelWhitening : Makes the coefficients comparable.

    Notes
    -----
    The channels of an image are transformed alone: first its average, then the
    coefficients of order 1 by scale and angle, then those of order 2. The filters
    follow Kymatio 0.3 [2]_, with pi in place of 3.1415.

    References
    ----------
    .. [1] Bruna and Mallat, "Invariant scattering convolution networks", IEEE
       Transactions on Pattern Analysis and Machine Intelligence 35(8), 2013, eqs. 4, 8.
    .. [2] Andreux et al., "Kymatio: Scattering transforms in Python", Journal of
       Machine Learning Research 21(60), 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from skconvgp.transforms import ScatteringTransform
    >>> images = np.random.default_rng(0).random((2, 3, 32, 32))
    >>> ScatteringTransform().fit_transform(images).shape
    (2, 243, 8, 8)
    """

    def __init__(
        self,
        J: int = 2,  # noqa: N803  (as in the literature)
        L: int = 8,
        order: int = 2,
        *,
        image_shape: ShapeOfImages = "auto",
        device: str = "auto",
        memory_budget: Budget = None,
    ) -> None:
        self.J = J
        self.L = L
        self.order = order
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
        self : ScatteringTransform
            The fitted transformer.
        """
        scattering = self._scattering()
        self._read(X)
        if self.image_shape_[1:] == (1, 1):
            self.map_ = Pooling(1)  # leaves a pixel as it is
            return self
        self._require_size(scattering)
        self._require_room(scattering)
        self.map_ = scattering
        self.output_shape_ = scattering.shape(self.image_shape_)
        return self

    def _scattering(self) -> Scattering:
        given, order = Given.of(self), self.order
        is_order = isinstance(order, Integral) and not isinstance(order, bool)
        if not is_order or order not in (1, 2):
            given.reject("order", "1 or 2")
        if not is_int(self.L, most=MOST_ANGLES):
            given.reject("L", f"an int from 1 to {MOST_ANGLES}")
        n_scales = given.read("J", as_count)
        return Scattering(n_scales, int(self.L), int(order))

    def _require_room(self, scattering: Scattering) -> None:
        """Raise a TileMemoryError unless filters and coefficients have memory."""
        shape = self.image_shape_
        n_values = scattering.n_filter_values(shape) + scattering.n_values(shape)
        n_values += math.prod(scattering.shape(shape))
        what = f"Scattering of an image of shape {shape!r}"
        host, remedy = torch.device("cpu"), "lower `L`, or use smaller images."
        require_memory(n_values * torch.float64.itemsize, host, what, remedy)

    def _require_size(self, scattering: Scattering) -> None:
        channels, height, width = self.image_shape_
        n_scales, shortest = scattering.n_scales, min(height, width)
        largest = shortest.bit_length() - 1
        if n_scales <= largest:
            return
        remedy = f"lower J={shown(self.J)} to {largest} or less."
        if not largest:
            remedy = "no J fits, as scattering takes 2 x 2 pixels or more."
        if has_channels_last(self.image_shape_):
            remedy = (
                f"they were read as {self.image_shape_!r} (c, h, w); if the last axis "
                f"holds the channels, pass np.moveaxis(X, -1, 1). Otherwise {remedy}"
            )
        elif channels == 1 and width in CHANNELS and height > width:
            remedy = (
                "if X is a single picture with its colours in the last axis, pass "
                f"np.moveaxis(X, -1, 0)[None]. Otherwise {remedy}"
            )
        raise ValueError(
            f"Images of {height} x {width} pixels are smaller than 2**J on a side, for "
            f"J={shown(self.J)}: {remedy}"
        )
