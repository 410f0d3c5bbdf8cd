"""Named networks that average over positions."""

from dataclasses import dataclass
from numbers import Integral

from skconvgp._typing import Bounds, MapShape, Scalar, Value
from skconvgp.kernels._activations import ReLU
from skconvgp.kernels._architectures import Network, conv_layer, dense_layer
from skconvgp.kernels._combinators import Sequential
from skconvgp.kernels._hyperparameters import DEFAULT_BOUNDS
from skconvgp.kernels._map_layer import NNGP, MapLayer
from skconvgp.kernels._pooling import AvgPool2d, GlobalAvgPool2d

__all__ = ["convnet_gap", "myrtle"]

# Convolutions at each of three resolutions, by the depth of the network.
MYRTLE_CONVOLUTIONS = {5: (2, 1, 1), 7: (2, 2, 2), 10: (3, 3, 3)}
SMALLEST_SIDE = 4  # of an image, whose maps become half as large twice


@dataclass(repr=False)
class myrtle(Network):
    """Myrtle network: 3x3 convolutions with ReLU, 2x2 pools between, a global one.

    Convolutions at three resolutions, `AvgPool2d(2)` between them, then
    `GlobalAvgPool2d`, `Dense`: 2, 1 and 1 convolutions for a depth of 5, 2, 2 and 2 for
    7, and 3, 3 and 3 for 10. Images need four rows and columns at least. A pair of
    32x32 images costs 2000 to 3000 times that of a layer with `Flatten`.

    Parameters
    ----------
    depth : {5, 7, 10}, default=5
        Number of affine layers.
    weight_variance : float or tuple of float, default=2.0
        Fan-in variance of every layer, as published.
    bias_variance : float or tuple of float, default=0.0
        Variance of the bias of every layer.
    pooling : {"average"}, default="average"
        How maps become smaller. Other pools than averages have no exact kernel.
    shared_variances : bool, default=True
        With False, the two variances are tuples with one fan-in value for each
        affine layer, readout last; :meth:`unshared` makes them.
    weight_variance_bounds, bias_variance_bounds : tuple of float or "fixed"
        Bounds of the variances when they are learned.
    kind : {"nngp", "ntk"}, default="nngp"
        "ntk" is the neural tangent kernel of the network: :ref:`ntk`.

    References
    ----------
    Shankar, Fang, Guo, Fridovich-Keil, Ragan-Kelley, Schmidt and Recht, "Neural kernels
    without tangents", 2020, section 5.

    Examples
    --------
    >>> from skconvgp.kernels import myrtle
    >>> myrtle().layers.out_shape((32, 32))
    (1, 1)
    """

    depth: int = 5
    weight_variance: Value = 2.0
    bias_variance: Value = 0.0
    pooling: str = "average"
    shared_variances: bool = True
    weight_variance_bounds: Bounds = DEFAULT_BOUNDS
    bias_variance_bounds: Bounds = DEFAULT_BOUNDS
    kind: str = NNGP

    @property
    def fan_ins(self) -> tuple[int, ...]:
        """One for each affine layer: the published variances are fan-in already."""
        self._check_words()
        return (1,) * self.depth

    def out_shape(self, shape: MapShape) -> MapShape:
        """Return the size of the map after the last layer; raise for small images."""
        self._check_words()
        if min(shape) < SMALLEST_SIDE:
            advice = "take `convnet_gap`, whose maps keep their size"
            if shape == (1, 1):
                advice = (
                    "samples that are vectors are such images; pass (n, h, w), or the "
                    "`image_shape` of rows, and take `rbf` for tables"
                )
            raise ValueError(
                f"{self!r} halves its maps twice and needs images of "
                f"{SMALLEST_SIDE}x{SMALLEST_SIDE} pixels at least, got "
                f"{shape[0]}x{shape[1]}: {advice}."
            )
        return super().out_shape(shape)

    def _build(self, variances: list[tuple[Scalar, Scalar]]) -> Sequential:
        left = iter(variances)
        layers: list[MapLayer] = []
        for n_convolutions in MYRTLE_CONVOLUTIONS[self.depth]:
            layers += [AvgPool2d(2)] if layers else []
            for _ in range(n_convolutions):
                layers += [conv_layer(3, *next(left)), ReLU()]
        return Sequential(*layers, GlobalAvgPool2d(), dense_layer(*next(left)))

    def _check_words(self) -> None:
        is_known = (
            isinstance(self.depth, Integral) and self.depth in MYRTLE_CONVOLUTIONS
        )
        if not is_known:
            raise ValueError(f"`depth` must be 5, 7 or 10, got {self.depth!r}.")
        if self.pooling != "average":
            raise ValueError(
                f"`pooling` must be 'average', got {self.pooling!r}: only averages "
                "have an exact kernel."
            )


@dataclass(repr=False)
class convnet_gap(Network):
    """Same-size convolutions with ReLU, then global average pooling.

    `depth` times [`Conv2d(kernel_size)`, `ReLU`], then `GlobalAvgPool2d(lattice)`,
    `Dense`. A pair of 32x32 images costs a thousand times as much as with `Flatten`, and
    `lattice` squared times less than that.

    Parameters
    ----------
    depth : int, default=20
        Number of convolutions.
    kernel_size : int, default=3
        Height and width of the windows.
    lattice : int, default=1
        Rows and columns between the positions that are averaged; see
        :class:`GlobalAvgPool2d`.
    weight_variance : float or tuple of float, default=2.0
        Fan-in variance of every layer, as published.
    bias_variance : float or tuple of float, default=0.0
        Variance of the bias of every layer.
    shared_variances : bool, default=True
        With False, the two variances are tuples with one fan-in value for each
        affine layer, readout last; :meth:`unshared` makes them.
    weight_variance_bounds, bias_variance_bounds : tuple of float or "fixed"
        Bounds of the variances when they are learned.
    kind : {"nngp", "ntk"}, default="nngp"
        "ntk" is the neural tangent kernel of the network: :ref:`ntk`.

    References
    ----------
    Arora, Du, Hu, Li, Salakhutdinov and Wang, "On exact computation with an infinitely
    wide neural net", 2019, section 4 (with 21 affine layers, as by default).

    Examples
    --------
    >>> from skconvgp.kernels import convnet_gap
    >>> convnet_gap(depth=1, lattice=2).layers
    Sequential(Conv2d(kernel_size=3, weight_variance=2.0), ReLU(), GlobalAvgPool2d(lattice=2), Dense(weight_variance=2.0))
    """  # noqa: E501  (a doctest's output)

    depth: int = 20
    kernel_size: int = 3
    lattice: int = 1
    weight_variance: Value = 2.0
    bias_variance: Value = 0.0
    shared_variances: bool = True
    weight_variance_bounds: Bounds = DEFAULT_BOUNDS
    bias_variance_bounds: Bounds = DEFAULT_BOUNDS
    kind: str = NNGP

    @property
    def fan_ins(self) -> tuple[int, ...]:
        """One for each affine layer: the published variances are fan-in already."""
        return (1,) * (self.depth + 1)

    def _build(self, variances: list[tuple[Scalar, Scalar]]) -> Sequential:
        layers: list[MapLayer] = []
        for pair in variances[:-1]:
            layers += [conv_layer(self.kernel_size, *pair), ReLU()]
        return Sequential(
            *layers, GlobalAvgPool2d(self.lattice), dense_layer(*variances[-1])
        )
