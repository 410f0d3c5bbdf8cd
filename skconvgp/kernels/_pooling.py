"""Layers that average over positions.

The formulas: docs/maths.rst, "Pooling".
"""

from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import ClassVar

from torch import Tensor

from skconvgp._tensors import int_range, reals
from skconvgp._typing import ImageShape, MapShape, Prepared
from skconvgp.kernels._capabilities import are_alike, require_symmetric
from skconvgp.kernels._checks import LARGEST_WINDOW, require_positive_int
from skconvgp.kernels._layer import Layer, settings_by_name
from skconvgp.kernels._linear import mean_over_positions
from skconvgp.kernels._map_layer import Maps
from skconvgp.kernels._pools import Lattice, Windows
from skconvgp.kernels._windows import Axis, windows_along

__all__ = ["AvgPool2d", "GlobalAvgPool2d"]

Pair = tuple[int, int]


@settings_by_name("A window's zeros outside of the map always count in its average.")
@dataclass(repr=False)
class AvgPool2d(Layer):
    r"""Average over windows of positions.

    .. math:: \mathrm{Cov}(y_P, y'_{P'}) = \frac1{k^4} \sum_{i, j}
              \mathrm{Cov}(x_{sP - b + i}, x'_{sP' - b + j})

    over the k x k positions i and j of a window, with stride s and padding b. It needs
    covariances of different positions of the layers in front of it, exactly: a network
    whose last layers are ``AvgPool2d(k)`` and `Flatten` costs :math:`(2k - 1)^2` times
    as much as with `Flatten` alone, and less on a map that is not much larger than the
    window.

    Parameters
    ----------
    window : int or tuple of int
        Height and width of a window.
    stride : int or tuple of int or None, default=None
        Rows and columns between windows; None takes the window itself.
    padding : int or tuple of int or "same", default=0
        Zeros on every side, at most half a window, or so many that the size of the map
        stays (divided by `stride`); of an odd number the last one is at the end, and a
        :class:`FlipAverage` refuses such windows. Zeros count in the averages. A window
        may be larger than a map of n rows, up to 2 n - 1 rows with stride 1, but each
        of its elements must have a position on the map in one of the windows.
    dilation : int or tuple of int, default=1
        Distance between the elements of a window. Half of the positions along each
        axis, ``dilation=2``, cost a quarter for the same reach.

    Notes
    -----
    ``AvgPool2d(2 * r + 1, stride=1, padding="same")`` in front of `Flatten` makes a
    kernel insensitive to shifts of up to 2r pixels between two images, at
    :math:`(4 r + 1)^2` times the cost. Rows and columns that no window reaches are
    left out, as always in average pooling.

    References
    ----------
    Li, Wang, Yu, Du, Hu, Salakhutdinov and Arora, "Enhanced convolutional neural
    tangent kernels", 2019, section 4 (local average pooling).
    Novak et al., "Bayesian deep convolutional networks with many channels are Gaussian
    processes", 2019, section 3.3.

    Examples
    --------
    >>> from skconvgp.kernels import AvgPool2d
    >>> AvgPool2d(2).out_shape((14, 14))
    (7, 7)
    >>> AvgPool2d(5, stride=1, padding="same").out_shape((14, 14))
    (14, 14)
    """

    window: int | Pair = 1
    _: KW_ONLY
    stride: int | Pair | None = None
    padding: int | Pair | str = 0
    dilation: int | Pair = 1

    in_double: ClassVar[bool] = False
    is_homogeneous: ClassVar[bool] = True

    @property
    def is_spatial(self) -> bool:
        """Whether the layer distinguishes positions: always."""
        return True

    @property
    def map_strides(self) -> Pair:
        """Rows and columns of the input for each of the output."""
        return _pair(self.window if self.stride is None else self.stride)

    def is_pool(self, shape: MapShape) -> bool:
        """Whether it averages over positions of a map of a size, or leaves some out."""
        return not all(axis.is_identity for axis in self.axes(shape))

    def out_shape(self, shape: MapShape) -> MapShape:
        """Return the size of the map after the layer; raise if it does not fit."""
        self._check_settings()
        rows, cols = self.axes(shape)
        if rows.n_outputs < 1 or cols.n_outputs < 1:
            advice = "take a smaller window, or `GlobalAvgPool2d()`"
            if shape == (1, 1):
                advice = "leave it out, or put it where maps are larger"
            raise ValueError(
                f"`window`={self.window!r} with `padding`={self.padding!r} and "
                f"`dilation`={self.dilation!r} does not fit into a map of size "
                f"{shape[0]}x{shape[1]}: {advice}."
            )
        for axis in (rows, cols):
            if not axis.matrix(reals([])).any(1).all():
                raise ValueError(
                    f"a window of {self!r} has no position on a map of size "
                    f"{shape[0]}x{shape[1]}: take a smaller `dilation`."
                )
            if axis.has_idle_elements:
                raise ValueError(
                    f"`window`={self.window!r} with `dilation`={self.dilation!r} is "
                    f"larger than a map of size {shape[0]}x{shape[1]}, and some of its "
                    "elements never lie on the map: take a smaller window, or "
                    "`GlobalAvgPool2d()`."
                )
        return rows.n_outputs, cols.n_outputs

    def axes(self, shape: MapShape) -> tuple[Axis, Axis]:
        """Return the windows along the rows and the columns of a map of a size."""
        padding = self.padding
        sides: tuple[int | str, int | str]
        sides = (padding, padding) if isinstance(padding, str) else _pair(padding)
        window, dilation = _pair(self.window), _pair(self.dilation)
        strides = self.map_strides
        rows, cols = (
            windows_along(
                shape[i],
                window[i],
                stride=strides[i],
                padding=sides[i],
                dilation=dilation[i],
            )
            for i in (0, 1)
        )
        return rows, cols

    def pool_axes(self, shape: MapShape) -> tuple[Windows, Windows]:
        """Return its windows along the rows and the columns of a map of a size."""
        rows, cols = self.axes(shape)
        return Windows(rows), Windows(cols)

    def image_pass(self, var: Tensor) -> tuple[Tensor, Prepared]:
        """Pass variance maps (h, w, n), if windows are single positions."""
        _require_in_chain(self, self.is_pool((var.shape[0], var.shape[1])))
        return var, None

    def pair_pass(self, maps: Maps, one: Prepared, two: Prepared) -> Maps:
        """Pass covariance maps (h, w, n1, n2), if windows are single positions."""
        return maps

    def check_flips(self, shape: ImageShape) -> None:
        """Raise unless windows lie symmetrically on a map (c, h, w)."""
        remedy = (
            "Take a width at which the last window ends with the map, and an odd "
            "window for padding='same'."
        )
        require_symmetric(self, self.axes(shape[1:])[1], remedy)

    def is_turn_invariant(self, shape: ImageShape) -> bool:
        """Whether turns and flips of both images are known to change nothing."""
        return are_alike(self.axes(shape[1:]))

    def function(self, maps: Tensor) -> Tensor:
        """Average over the windows of maps (n, c, h, w)."""
        rows, cols = self.axes((maps.shape[2], maps.shape[3]))
        sums = rows.matrix(maps) @ maps @ cols.matrix(maps).T
        return sums / (rows.kernel * cols.kernel)

    def _check_settings(self) -> None:
        stride = self.window if self.stride is None else self.stride
        settings = {"window": self.window, "stride": stride, "dilation": self.dilation}
        for name, value in settings.items():
            _require_pair(name, value, 1, LARGEST_WINDOW)
        padding = self.padding
        if isinstance(padding, str):
            if padding != "same":
                raise ValueError(
                    f"`padding` must be 'same' or an int, or a pair, got {padding!r}."
                )
            return
        spans = zip(_pair(self.window), _pair(self.dilation), strict=True)
        halves = [(step * (kernel - 1) + 1) // 2 for kernel, step in spans]
        _require_pair("padding", padding, 0, max(halves))
        for amount, half in zip(_pair(padding), halves, strict=True):
            if amount > half:
                raise ValueError(
                    f"`padding` must be at most half a window along each axis, here "
                    f"{tuple(halves)}, got {padding!r}."
                )


@dataclass(repr=False)
class GlobalAvgPool2d(Layer):
    r"""Average over all positions, or over a lattice of positions.

    .. math:: k(x, x') = \frac1{h^2 w^2} \sum_{p, p'} \mathrm{Cov}(x_p, x'_{p'})

    It needs the covariances of all pairs of positions of the layers in front of it:
    h w times the cost of `Flatten`.

    Parameters
    ----------
    lattice : int, default=1
        1 averages over all positions, s over those that are s rows and columns apart;
        the s x s averages are then flattened. It costs :math:`1 / s^2`. From the size
        of the map on it is `Flatten`.

    Notes
    -----
    A lattice of s is the sum over pairs of positions that agree modulo s, with weights
    s / h^2 along rows and s / w^2 along columns, so a network for any s. A window of
    few positions, `AvgPool2d` in front of `Flatten`, is the better bargain: positions
    that are close to each other say more about shifts than those far apart.

    References
    ----------
    Novak et al., "Bayesian deep convolutional networks with many channels are Gaussian
    processes", 2019, section 3.3.
    Arora, Du, Hu, Li, Salakhutdinov and Wang, "On exact computation with an infinitely
    wide neural net", 2019, section 4 (global average pooling).

    Examples
    --------
    >>> from skconvgp import gram_matrix
    >>> from skconvgp.kernels import Conv2d, Dense, GlobalAvgPool2d, ReLU, Sequential
    >>> net = Sequential(Conv2d(3), ReLU(), GlobalAvgPool2d(), Dense())
    >>> X = [[[1.0, 2.0, 0.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]
    >>> gram_matrix(net, X, dtype="float64").round(4)
    array([[0.0893]])
    """

    lattice: int = 1

    in_double: ClassVar[bool] = True
    map_strides: ClassVar[Pair] = (1, 1)
    is_homogeneous: ClassVar[bool] = True

    @property
    def is_spatial(self) -> bool:
        """Whether the layer distinguishes positions: always."""
        return True

    def is_pool(self, shape: MapShape) -> bool:
        """Whether it averages over positions of a map of a size."""
        return self.lattice < max(shape)

    def out_shape(self, shape: MapShape) -> MapShape:
        """Return (1, 1)."""
        require_positive_int("lattice", self.lattice)
        return (1, 1)

    def check_flips(self, shape: ImageShape) -> None:
        """Accept every map: flips exchange positions of which all count alike."""

    def is_turn_invariant(self, shape: ImageShape) -> bool:
        """Whether turns and flips of both images are known to change nothing."""
        return shape[1] == shape[2]

    def function(self, maps: Tensor) -> Tensor:
        """Average maps (n, c, h, w) over the lattice, and flatten the averages."""
        by_row, by_col = (_averages(maps, self.lattice, axis) for axis in (2, 3))
        return (by_row @ maps @ by_col.T).reshape(maps.shape[0], -1, 1, 1)

    def pool_axes(self, shape: MapShape) -> tuple[Lattice, Lattice]:
        """Return its lattices along the rows and the columns of a map of a size."""
        return Lattice(shape[0], self.lattice), Lattice(shape[1], self.lattice)

    def image_pass(self, var: Tensor) -> tuple[Tensor, Prepared]:
        """Pass variance maps (h, w, n), if the lattice has one position."""
        _require_in_chain(self, self.is_pool((var.shape[0], var.shape[1])))
        return mean_over_positions(var), None

    def pair_pass(self, maps: Maps, one: Prepared, two: Prepared) -> Maps:
        """Pass covariance maps (h, w, n1, n2), if the lattice has one position."""
        return maps.linear(mean_over_positions)


def _averages(maps: Tensor, lattice: int, axis: int) -> Tensor:
    """Return the averages over a lattice as a matrix (lattice, size)."""
    size = maps.shape[axis]
    step = min(lattice, size)
    groups = int_range(size, maps.device) % step
    is_member = groups == int_range(step, maps.device)[:, None]
    return is_member.to(maps.dtype) * (step / size)


def _require_in_chain(layer: Layer, is_pool: bool) -> None:
    if is_pool:
        raise ValueError(
            f"{layer!r} averages over positions, whose covariances only a `Sequential` "
            "computes: put it into one, with the layers in front of it."
        )


def _pair(value: int | Pair) -> Pair:
    return value if isinstance(value, tuple) else (value, value)


def _require_pair(name: str, value: object, least: int, most: int) -> None:
    """Raise unless a setting is a whole number within bounds, or a pair of these."""
    items = value if isinstance(value, tuple) else (value, value)
    is_valid = len(items) == 2 and all(
        isinstance(item, Integral) and not isinstance(item, bool) for item in items
    )
    if not (is_valid and all(least <= item <= most for item in items)):
        raise ValueError(
            f"`{name}` must be an int from {least} to {most} or a pair (rows, columns) "
            f"of them, got {value!r}."
        )
