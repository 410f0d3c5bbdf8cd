"""Affine layers: convolution, dense readout, flattening, pooling.

The formulas: docs/maths.rst, "Affine layers".
"""

from dataclasses import KW_ONLY, dataclass
from numbers import Integral

import torch
from torch import Tensor

from skconvgp._typing import Bounds, MapShape, Prepared, Scalar
from skconvgp.kernels._checks import require_positive_int, require_variance
from skconvgp.kernels._hyperparameters import DEFAULT_BOUNDS
from skconvgp.kernels._layer import Layer, settings_by_name
from skconvgp.kernels._map_layer import Maps
from skconvgp.kernels._windows import Axis

__all__ = ["AvgPool2d", "Conv2d", "Dense", "Flatten", "GlobalAvgPool2d"]

PADDINGS = ("same", "valid", "circular")
LARGEST_WINDOW = 2**16  # positions: far beyond any map that fits into memory


@settings_by_name(
    "There are no in_channels and out_channels: the number of channels is infinite."
)
@dataclass(repr=False)
class Conv2d(Layer):
    r"""Convolution with independent Gaussian weights, fan-in convention.

    .. math:: c^{out}_\mu = \sigma_b^2
              + \frac{\sigma_w^2}{k^2} \sum_{\delta} c^{in}_{\mu + \delta}

    over the k x k window around each position, with zeros outside the image.

    Parameters
    ----------
    kernel_size : int or tuple of int
        Height and width of the window.
    stride : int, default=1
        Every `stride`-th position is kept.
    padding : {"same", "valid", "circular"} or int, default="same"
        Zeros around the image so that its size stays (divided by `stride`), no
        padding, wrapping around, or that many zeros on every side.
    dilation : int, default=1
        Distance between the elements of the window.
    weight_variance : float, default=1.0
        Weights have variance `weight_variance` / fan-in. Papers that give the
        variance per location use `weight_variance / kernel_size**2`.
    bias_variance : float, default=0.0
        Variance of the bias.
    weight_variance_bounds, bias_variance_bounds : tuple of float or "fixed"
        Bounds of the variances when they are learned.

    References
    ----------
    Garriga-Alonso, Aitchison and Rasmussen, "Deep convolutional networks as
    shallow Gaussian processes", 2019, equation 7.

    Examples
    --------
    >>> from skconvgp.kernels import Conv2d, Dense, Flatten, ReLU, Sequential
    >>> Sequential(Conv2d(3, weight_variance=2.0), ReLU(), Flatten(), Dense())
    Sequential(Conv2d(kernel_size=3, weight_variance=2.0), ReLU(), Flatten(), Dense())
    """

    kernel_size: int | tuple[int, int]
    _: KW_ONLY
    stride: int = 1
    padding: str | int = "same"
    dilation: int = 1
    weight_variance: Scalar = 1.0
    bias_variance: Scalar = 0.0
    weight_variance_bounds: Bounds = DEFAULT_BOUNDS
    bias_variance_bounds: Bounds = DEFAULT_BOUNDS

    @property
    def is_spatial(self) -> bool:
        """Whether the layer distinguishes positions: always."""
        return True

    @property
    def window(self) -> tuple[int, int]:
        """Height and width of the window."""
        size = self.kernel_size
        return size if isinstance(size, tuple) else (size, size)

    def out_shape(self, shape: MapShape) -> MapShape:
        """Return the size of the map after the layer; raise if it does not fit."""
        self._check_settings()
        height, width = (axis.n_outputs for axis in self.axes(shape))
        if height < 1 or width < 1:
            raise ValueError(
                f"`kernel_size`={self.kernel_size!r} with `padding`={self.padding!r} "
                f"and `dilation`={self.dilation!r} does not fit into a map of size "
                f"{shape[0]}x{shape[1]}: take a smaller kernel or padding='same'."
            )
        return height, width

    def image_pass(self, var: Tensor) -> tuple[Tensor, Prepared]:
        """Pass variance maps (h, w, n)."""
        return self._affine(var), None

    def pair_pass(self, maps: Maps, one: Prepared, two: Prepared) -> Maps:
        """Pass covariance maps (h, w, n1, n2)."""
        return maps.with_nngp(self._affine(maps.nngp))

    def _affine(self, maps: Tensor) -> Tensor:
        # The box sum is separable: one banded matrix product for each axis.
        (height, width), pairs = maps.shape[:2], maps.shape[2:]
        rows, cols = self.axes((height, width))
        scale = self.weight_variance / (rows.kernel * cols.kernel)
        if rows.is_identity and cols.is_identity:
            return maps * scale + self.bias_variance
        out = rows.matrix(maps) @ maps.reshape(height, -1)
        out = (cols.matrix(maps) * scale) @ out.reshape(rows.n_outputs, width, -1)
        return out.reshape(rows.n_outputs, cols.n_outputs, *pairs) + self.bias_variance

    def axes(self, shape: MapShape) -> tuple[Axis, Axis]:
        """Return the windows along the rows and the columns of a map of a size."""
        return self._axis(shape[0], self.window[0]), self._axis(
            shape[1], self.window[1]
        )

    def _axis(self, size: int, kernel: int) -> Axis:
        span = self.dilation * (kernel - 1)
        before = self.dilation * ((kernel - 1) // 2)
        after = span - before
        if self.padding == "valid":
            before = after = 0
        elif isinstance(self.padding, Integral):
            before = after = int(self.padding)
        return Axis(
            size,
            kernel,
            self.stride,
            before,
            after,
            self.dilation,
            is_circular=isinstance(self.padding, str) and self.padding == "circular",
        )

    def _check_settings(self) -> None:
        for name in ("stride", "dilation"):
            require_positive_int(name, getattr(self, name), LARGEST_WINDOW)
        if len(self.window) != 2:
            raise ValueError(
                "`kernel_size` must be an int or a pair (height, width), "
                f"got {self.kernel_size!r}."
            )
        for size in self.window:
            require_positive_int("kernel_size", size, LARGEST_WINDOW)
        padding = self.padding
        is_size = isinstance(padding, Integral) and not isinstance(padding, bool)
        is_word = isinstance(padding, str) and padding in PADDINGS
        if not (is_word or (is_size and 0 <= int(padding) <= LARGEST_WINDOW)):
            raise ValueError(
                f"`padding` must be one of {PADDINGS!r} or an int from 0 to "
                f"{LARGEST_WINDOW}, got {self.padding!r}."
            )
        require_variance("weight_variance", self.weight_variance)
        require_variance("bias_variance", self.bias_variance)


@settings_by_name(
    "There are no in_features and out_features: the number of units is infinite."
)
@dataclass(repr=False)
class Dense(Layer):
    r"""Dense layer on a 1x1 map: :math:`\sigma_b^2 + \sigma_w^2 c`.

    Parameters
    ----------
    weight_variance : float, default=1.0
        Weights have variance `weight_variance` / fan-in.
    bias_variance : float, default=0.0
        Variance of the bias.
    weight_variance_bounds, bias_variance_bounds : tuple of float or "fixed"
        Bounds of the variances when they are learned.

    References
    ----------
    Lee et al., "Deep neural networks as Gaussian processes", 2018, equation 4.

    Examples
    --------
    >>> from skconvgp.kernels import Dense, Erf, Flatten, Sequential
    >>> Sequential(Flatten(), Dense(bias_variance=0.1), Erf(), Dense())
    Sequential(Flatten(), Dense(bias_variance=0.1), Erf(), Dense())
    """

    weight_variance: Scalar = 1.0
    _: KW_ONLY
    bias_variance: Scalar = 0.0
    weight_variance_bounds: Bounds = DEFAULT_BOUNDS
    bias_variance_bounds: Bounds = DEFAULT_BOUNDS

    @property
    def is_spatial(self) -> bool:
        """Whether the layer distinguishes positions: never."""
        return False

    def out_shape(self, shape: MapShape) -> MapShape:
        """Return (1, 1); raise for a larger map."""
        require_variance("weight_variance", self.weight_variance)
        require_variance("bias_variance", self.bias_variance)
        if shape != (1, 1):
            raise ValueError(
                f"Dense needs a 1x1 map and got {shape[0]}x{shape[1]}: put "
                "`Flatten()` before it."
            )
        return shape

    def image_pass(self, var: Tensor) -> tuple[Tensor, Prepared]:
        """Pass variance maps (1, 1, n)."""
        return var * self.weight_variance + self.bias_variance, None

    def pair_pass(self, maps: Maps, one: Prepared, two: Prepared) -> Maps:
        """Pass covariance maps (1, 1, n1, n2)."""
        return maps.with_nngp(maps.nngp * self.weight_variance + self.bias_variance)


@dataclass(repr=False)
class Flatten(Layer):
    """All positions and channels become the channels of a 1x1 map.

    The covariance becomes its mean over the positions, summed in float64.

    Examples
    --------
    >>> from skconvgp.kernels import Flatten
    >>> Flatten().out_shape((28, 28))
    (1, 1)
    """

    @property
    def is_spatial(self) -> bool:
        """Whether the layer distinguishes positions: never."""
        return False

    def out_shape(self, shape: MapShape) -> MapShape:
        """Return (1, 1)."""
        return (1, 1)

    def image_pass(self, var: Tensor) -> tuple[Tensor, Prepared]:
        """Pass variance maps (h, w, n)."""
        return _mean(var), None

    def pair_pass(self, maps: Maps, one: Prepared, two: Prepared) -> Maps:
        """Pass covariance maps (h, w, n1, n2)."""
        return maps.with_nngp(_mean(maps.nngp))


class _Pooling(Layer):
    """Average over windows of a single position; larger windows are refused.

    Larger windows need the covariance between different positions, which
    layers do not carry; `out_shape` says so.
    """

    @property
    def is_spatial(self) -> bool:
        """Whether the layer distinguishes positions: always."""
        return True

    def image_pass(self, var: Tensor) -> tuple[Tensor, Prepared]:
        """Pass variance maps (h, w, n)."""
        return var, None

    def pair_pass(self, maps: Maps, one: Prepared, two: Prepared) -> Maps:
        """Pass covariance maps (h, w, n1, n2)."""
        return maps


@dataclass(repr=False)
class AvgPool2d(_Pooling):
    """Average over windows of a single position; larger windows are refused.

    Parameters
    ----------
    window : int, default=1
        Height and width of a window. Larger windows than 1 need the covariance
        between all pairs of positions, which is not computed yet: a
        `ValueError` says so before any work.

    Examples
    --------
    >>> from skconvgp.kernels import AvgPool2d
    >>> AvgPool2d(1).out_shape((14, 14))
    (14, 14)
    """

    window: int = 1

    def out_shape(self, shape: MapShape) -> MapShape:
        """Return the size of the map; raise if positions would be averaged."""
        require_positive_int("window", self.window)
        if self.window > 1:
            raise ValueError(_ALL_PAIRS.format(self))
        return shape


@dataclass(repr=False)
class GlobalAvgPool2d(_Pooling):
    """Average over all positions of a 1x1 map; larger maps are refused.

    Larger maps need the covariance between all pairs of positions, which is not
    computed yet: a `ValueError` says so before any work.

    Examples
    --------
    >>> from skconvgp.kernels import GlobalAvgPool2d
    >>> GlobalAvgPool2d().out_shape((1, 1))
    (1, 1)
    """

    def out_shape(self, shape: MapShape) -> MapShape:
        """Return (1, 1); raise if positions would be averaged."""
        if shape != (1, 1):
            raise ValueError(_ALL_PAIRS.format(self))
        return shape


_ALL_PAIRS = (
    "{!r} averages over positions, so its covariance needs all pairs of positions; "
    "this is not built yet. Use `Flatten()` for the readout, or a strided `Conv2d` to "
    "make maps smaller."
)


def _mean(maps: Tensor) -> Tensor:
    return maps.mean((0, 1), keepdim=True, dtype=torch.float64)
