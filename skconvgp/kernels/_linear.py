"""Affine layers: convolution, dense readout, flattening.

The formulas: docs/maths.rst, "Affine layers".
"""

from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral
from typing import Any, ClassVar, cast

import torch
from torch import Generator, Tensor

from skconvgp._typing import Bounds, ImageShape, MapShape, Prepared, Scalar, Value
from skconvgp.kernels._capabilities import are_alike, require_symmetric
from skconvgp.kernels._checks import (
    LARGEST_WINDOW,
    SEQUENCES,
    numbers_of,
    require_positive_int,
    require_variance,
)
from skconvgp.kernels._finite import sample_convolution
from skconvgp.kernels._hyperparameters import DEFAULT_BOUNDS
from skconvgp.kernels._layer import Layer, settings_by_name
from skconvgp.kernels._map_layer import Maps
from skconvgp.kernels._steps import whole_size
from skconvgp.kernels._windows import Axis, windows_along

__all__ = ["Conv2d", "Dense", "Flatten", "mean_over_positions"]

PADDINGS = ("same", "valid", "circular")


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

    is_homogeneous: ClassVar[bool] = True
    masking: ClassVar[str] = "mixes"

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
        return self._windowed(var, Maps(var)) + self.bias_variance, None

    def pair_pass(self, maps: Maps, one: Prepared, two: Prepared) -> Maps:
        """Pass covariance maps (h, w, n1, n2)."""
        rows, cols = maps.displacement
        moved = (
            tuple(step // self.stride for step in rows),
            tuple(step // self.stride for step in cols),
        )
        out = maps.affine(lambda c: self._windowed(c, maps), self.bias_variance)
        return replace(out, displacement=moved)

    def _windowed(self, maps: Tensor, pairs: Maps) -> Tensor:
        """Return weighted sums over windows of maps, which pair positions as given."""
        # The box sum is separable: one banded matrix product for each axis.
        is_cyclic = pairs.is_cyclic
        height, width = (
            whole_size(length, steps, is_cyclic=is_cyclic)
            for length, steps in zip(maps.shape, pairs.displacement, strict=False)
        )
        rows, cols = self.axes((height, width))
        scale = self.weight_variance / (rows.kernel * cols.kernel)
        if rows.is_identity and cols.is_identity:
            return maps * scale
        by_row, by_col = (
            axis.paired_matrix(maps, steps, is_cyclic=is_cyclic)
            for axis, steps in zip((rows, cols), pairs.displacement, strict=True)
        )
        out = by_row @ maps.reshape(maps.shape[0], -1)
        out = (by_col * scale) @ out.reshape(len(by_row), maps.shape[1], -1)
        shape = (len(by_row), len(by_col), *maps.shape[2:])
        return out.reshape(shape)

    @property
    def map_strides(self) -> tuple[int, int]:
        """Rows and columns of the input for each of the output."""
        return self.stride, self.stride

    @property
    def is_circular(self) -> bool:
        """Whether windows wrap around."""
        return isinstance(self.padding, str) and self.padding == "circular"

    def axes(self, shape: MapShape) -> tuple[Axis, Axis]:
        """Return the windows along the rows and the columns of a map of a size."""
        rows, cols = (
            windows_along(
                size,
                kernel,
                stride=self.stride,
                padding=self.padding,
                dilation=self.dilation,
            )
            for size, kernel in zip(shape, self.window, strict=True)
        )
        return rows, cols

    def require_displaceable(
        self, shape: MapShape, is_cyclic: bool, pool: object
    ) -> None:
        """Raise if maps of different positions cannot pass, as a pool needs them."""
        for axis in self.axes(shape):
            reach = axis.stride * (axis.n_outputs - 1)
            if is_cyclic and axis.stride * axis.n_outputs != axis.size:
                raise ValueError(
                    f"{self!r} makes {axis.n_outputs} positions of {axis.size}, and a "
                    f"convolution with padding='circular' stands between it and "
                    f"{pool!r} or before: all strides and paddings up to the pool must "
                    "then divide the size of the map by the stride."
                )
            if not is_cyclic and reach >= axis.size:
                raise ValueError(
                    f"{self!r} stands in front of {pool!r}, and its windows begin up "
                    f"to {reach} positions apart on a map of {axis.size}: take less "
                    "padding."
                )

    def check_flips(self, shape: ImageShape) -> None:
        """Raise unless windows lie symmetrically on a map (c, h, w)."""
        remedy = (
            "Even windows need padding='valid', and strides a width at which the last "
            "window ends where the first one begins, such as an odd width for a stride "
            "of 2."
        )
        require_symmetric(self, self.axes(shape[1:])[1], remedy)

    def is_turn_invariant(self, shape: ImageShape) -> bool:
        """Whether turns and flips of both images are known to change nothing."""
        return are_alike(self.axes(shape[1:]))

    def sample(self, images: Tensor, *, width: int, generator: Generator) -> Tensor:
        """Draw weights to `width` channels, and apply them to images (n, c, h, w)."""
        return sample_convolution(
            images,
            width,
            generator,
            weight_variance=self.weight_variance,
            bias_variance=self.bias_variance,
            window=self.window,
            padding=self.padding,
            stride=self.stride,
            dilation=self.dilation,
        )

    def _check_settings(self) -> None:
        for name in ("stride", "dilation"):
            require_positive_int(name, getattr(self, name))
        if len(self.window) != 2:
            raise ValueError(
                "`kernel_size` must be an int or a pair (height, width), "
                f"got {self.kernel_size!r}."
            )
        for size in self.window:
            require_positive_int("kernel_size", size)
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
@dataclass(repr=False, eq=False)
class Dense(Layer):
    r"""Dense layer on a 1x1 map: :math:`\sigma_b^2 + \sigma_w^2 c`.

    Parameters
    ----------
    weight_variance : float or array-like of shape (d,), default=1.0
        Weights have variance `weight_variance` / fan-in. In the first layer of a
        network, with nothing but `Flatten` in front of it, an array has a number for
        each feature (automatic relevance determination): :math:`\sigma_b^2 + x^\top
        \Sigma x' / d` with the diagonal matrix :math:`\Sigma` of the array.
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

    weight_variance: Value = 1.0
    _: KW_ONLY
    bias_variance: Scalar = 0.0
    weight_variance_bounds: Bounds = DEFAULT_BOUNDS
    bias_variance_bounds: Bounds = DEFAULT_BOUNDS

    map_strides: ClassVar[tuple[int, int]] = (1, 1)
    is_homogeneous: ClassVar[bool] = True
    masking: ClassVar[str] = "mixes"

    @property
    def is_spatial(self) -> bool:
        """Whether the layer distinguishes positions: never."""
        return False

    def sample(self, images: Tensor, *, width: int, generator: Generator) -> Tensor:
        """Draw weights to `width` channels, and apply them to images (n, c, 1, 1)."""
        return sample_convolution(
            self.weigh(images) if self.weighing else images,
            width,
            generator,
            weight_variance=self.common_weight,
            bias_variance=self.bias_variance,
        )

    @property
    def weighing(self) -> Any:
        """The layer itself, if each feature has a weight variance of its own."""
        return self if isinstance(self.weight_variance, SEQUENCES) else None

    def weigh(self, images: Tensor) -> Tensor:
        """Return images (n, c, h, w) whose features have the deviations of weights."""
        roots = numbers_of(self.weight_variance, images).sqrt()
        return images * roots.reshape(images.shape[1:])

    def check_flips(self, shape: ImageShape) -> None:
        """Raise if features have weight variances of their own."""
        if self.weighing:
            raise ValueError(
                f"{self!r} has a number for each feature, and whether they are the "
                "same at the left and at the right is not known."
            )

    def is_turn_invariant(self, shape: ImageShape) -> bool:
        """Whether turns and flips of both images are known to change nothing."""
        return self.weighing is None

    @property
    def common_weight(self) -> Scalar:
        """The variance of weights of features that are weighed."""
        return 1.0 if self.weighing else cast(Scalar, self.weight_variance)

    def out_shape(self, shape: MapShape) -> MapShape:
        """Return (1, 1); raise for a larger map."""
        require_variance("weight_variance", self.weight_variance, is_of_each=True)
        require_variance("bias_variance", self.bias_variance)
        if shape != (1, 1):
            raise ValueError(
                f"Dense needs a 1x1 map and got {shape[0]}x{shape[1]}: put "
                "`Flatten()` before it."
            )
        return shape

    def image_pass(self, var: Tensor) -> tuple[Tensor, Prepared]:
        """Pass variance maps (1, 1, n)."""
        return var * self.common_weight + self.bias_variance, None

    def pair_pass(self, maps: Maps, one: Prepared, two: Prepared) -> Maps:
        """Pass covariance maps (1, 1, n1, n2)."""
        return maps.affine(lambda c: c * self.common_weight, self.bias_variance)


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

    map_strides: ClassVar[tuple[int, int]] = (1, 1)
    is_homogeneous: ClassVar[bool] = True
    keeps_features: ClassVar[bool] = True
    masking: ClassVar[str] = "keeps"

    @property
    def is_spatial(self) -> bool:
        """Whether the layer distinguishes positions: never."""
        return False

    def function(self, maps: Tensor) -> Tensor:
        """Make positions and channels of maps (n, c, h, w) the channels of one."""
        return maps.reshape(maps.shape[0], -1, 1, 1)

    def out_shape(self, shape: MapShape) -> MapShape:
        """Return (1, 1)."""
        return (1, 1)

    def image_pass(self, var: Tensor) -> tuple[Tensor, Prepared]:
        """Pass variance maps (h, w, n)."""
        return mean_over_positions(var), None

    def pair_pass(self, maps: Maps, one: Prepared, two: Prepared) -> Maps:
        """Pass covariance maps (h, w, n1, n2)."""
        return maps.linear(mean_over_positions)


def mean_over_positions(maps: Tensor) -> Tensor:
    """Return the mean of maps (h, w, ...) over positions, (1, 1, ...), in float64."""
    return maps.mean((0, 1), keepdim=True, dtype=torch.float64)
