"""Named networks, built only from layers; each expands when it is used."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from torch import Generator, Tensor

from skconvgp._typing import Bounds, ImageShape, MapShape, Prepared, Scalar, Value
from skconvgp.kernels._activations import ReLU
from skconvgp.kernels._base import Sum
from skconvgp.kernels._checks import (
    LARGEST_WINDOW,
    require_positive_int,
    require_variance,
)
from skconvgp.kernels._combinators import Residual, Sequential
from skconvgp.kernels._hyperparameters import DEFAULT_BOUNDS
from skconvgp.kernels._keys import by_settings
from skconvgp.kernels._layer import Layer
from skconvgp.kernels._linear import Conv2d, Dense, Flatten
from skconvgp.kernels._map_layer import NNGP, MapLayer, Maps, inner_of
from skconvgp.kernels._pooling import AvgPool2d, GlobalAvgPool2d

LARGEST_DEPTH = 1000  # layers, each of which is an object


class Network(Layer):
    """A network with a few settings, which expands to layers when it is used."""

    is_homogeneous: ClassVar[bool] = True
    weight_variance: Value
    bias_variance: Value
    shared_variances: bool

    @property
    @abstractmethod
    def fan_ins(self) -> tuple[int, ...]:
        """Positions under the window of each affine layer, readout last."""

    @abstractmethod
    def _build(self, variances: list[tuple[Scalar, Scalar]]) -> Sequential:
        """Return the layers, given (weight, bias) of each affine layer."""

    @property
    def idle_settings(self) -> tuple[str, ...]:
        """Settings without effect, each as the beginning of a sentence."""
        return ()

    @property
    def layers(self) -> Sequential:
        """The network as a chain of layers, with fan-in variances."""
        layers = self._build(self._variances())
        layers.kind = self.kind
        return layers

    @property
    def built(self) -> Sequential:
        """The layers for these settings, built once: nobody may change them."""
        return _layers_of(self)

    def unshared(self) -> Self:
        """Return the same kernel with separate variances for each layer.

        Returns
        -------
        kernel : Kernel
            `shared_variances` is False, and `weight_variance` and
            `bias_variance` are tuples in the fan-in convention, readout last.
        """
        weights, biases = zip(*self._variances(), strict=True)
        return self.replace(
            shared_variances=False, weight_variance=weights, bias_variance=biases
        )

    @property
    def is_spatial(self) -> bool:
        """Whether one of the layers distinguishes positions."""
        return self.built.is_spatial

    @property
    def map_strides(self) -> tuple[int, int]:
        """Rows and columns of the input for each of the output."""
        return self.built.map_strides

    def unrolled(self) -> Iterator[Any]:
        """Yield the layers."""
        return self.built.unrolled()

    def leaves(self, shape: MapShape) -> Iterator[tuple[Any, MapShape]]:
        """Yield the layers, each with the size of its input."""
        return self.built.leaves(shape)

    def out_shape(self, shape: MapShape) -> MapShape:
        """Return the size of the map after the last layer; name a layer without one."""
        layers = self.built
        try:
            return layers.out_shape(shape)
        except ValueError as error:
            size = f"{shape[0]}x{shape[1]}"
            message = f"{self!r} does not fit images of {size} pixels: {error}"
            raise ValueError(message) from error

    def check_flips(self, shape: ImageShape) -> None:
        """Raise a ValueError that names the first layer that flips change."""
        self.built.check_flips(shape)

    def is_turn_invariant(self, shape: ImageShape) -> bool:
        """Whether turns and flips of both images are known to change nothing."""
        return self.built.is_turn_invariant(shape)

    def sample(self, images: Tensor, *, width: int, generator: Generator) -> Tensor:
        """Draw all layers, and apply them to images (n, c, h, w)."""
        return self.built.sample(images, width=width, generator=generator)

    def image_pass(self, var: Tensor) -> tuple[Tensor, Prepared]:
        """Pass variance maps (h, w, n) through all layers."""
        return self.built.image_pass(var)

    def pair_pass(self, maps: Maps, one: Prepared, two: Prepared) -> Maps:
        """Pass covariance maps through all layers."""
        return self.built.pair_pass(maps, one, two)

    def _variances(self) -> list[tuple[Scalar, Scalar]]:
        self._check_settings()
        weight, bias = self.weight_variance, self.bias_variance
        if isinstance(weight, tuple) and isinstance(bias, tuple):
            return list(zip(weight, bias, strict=True))
        assert not isinstance(weight, tuple)
        assert not isinstance(bias, tuple)
        return [(weight * fan_in, bias) for fan_in in self.fan_ins]

    def _check_words(self) -> None:
        """Raise for a setting that only this network has; most have none."""

    def _check_settings(self) -> None:
        self._check_words()
        require_positive_int("depth", getattr(self, "depth", 1), LARGEST_DEPTH)
        require_positive_int("kernel_size", getattr(self, "kernel_size", 1))
        for name in ("weight_variance", "bias_variance"):
            self._check_variance(name, getattr(self, name))

    def _check_variance(self, name: str, value: Value) -> None:
        n_layers = len(self.fan_ins)
        if self.shared_variances == isinstance(value, tuple):
            raise ValueError(
                f"`{name}` must be a number with shared_variances=True and a tuple of "
                f"{n_layers} fan-in variances, readout last, with "
                f"shared_variances=False (`unshared()` makes it); got {value!r} with "
                f"shared_variances={self.shared_variances!r}."
            )
        if isinstance(value, tuple) and len(value) != n_layers:
            raise ValueError(
                f"`{name}` must have {n_layers} values, readout last, "
                f"got {len(value)}: {value!r}."
            )
        require_variance(name, value)


@by_settings
def _layers_of(network: Network) -> Sequential:
    return network.layers


def idle_settings(kernel: object) -> list[str]:
    """Return the settings without effect in the networks of a kernel."""
    own = kernel.idle_settings if isinstance(kernel, Network) else ()
    inner = (one for part in inner_of(kernel) for one in idle_settings(part))
    return [*own, *inner]


@dataclass(repr=False)
class convnet(Network):
    """ConvNet-GP: same-size convolutions with ReLU, then a dense readout.

    `depth` times [`Conv2d(kernel_size)`, `ReLU`], then `Flatten`, `Dense`. The
    defaults are the network published for MNIST. With `pooling`, positions are averaged
    before the readout, at many times the cost: :ref:`pooling`.

    Parameters
    ----------
    depth : int, default=7
        Number of hidden convolutions.
    kernel_size : int, default=7
        Height and width of the windows.
    weight_variance : float or tuple of float, default=2.79
        As published, variance per location: hidden convolutions get
        ``weight_variance * kernel_size**2`` in the fan-in convention (136.71 by
        default), the readout gets ``weight_variance``.
    bias_variance : float or tuple of float, default=7.86
        Variance of the bias of every layer.
    shared_variances : bool, default=True
        With False, the two variances are tuples with one fan-in value for each
        affine layer, readout last; :meth:`unshared` makes them.
    weight_variance_bounds, bias_variance_bounds : tuple of float or "fixed"
        Bounds of the variances when they are learned.
    pooling : {"global", "local"} or None, default=None
        What is averaged before the readout: all positions, those within `radius`, or
        none.
    radius : int, default=2
        Only with "local": positions on each side of a window: it has ``2 * radius + 1``
        elements along each axis. A pair costs :math:`(4 r + 1)^2` times as much as
        without pooling.
    step : int, default=1
        Only with "local": rows and columns between the elements of a window, which then
        reaches `radius * step` positions to each side at the same cost.
    kind : {"nngp", "ntk"}, default="nngp"
        "ntk" is the neural tangent kernel of the network: :ref:`ntk`.

    References
    ----------
    Garriga-Alonso, Aitchison and Rasmussen, "Deep convolutional networks as
    shallow Gaussian processes", 2019, table 1 (1.03 % error on MNIST).

    Examples
    --------
    >>> from skconvgp.kernels import convnet
    >>> convnet(depth=1).layers
    Sequential(Conv2d(kernel_size=7, weight_variance=136.71, bias_variance=7.86), ReLU(), Flatten(), Dense(weight_variance=2.79, bias_variance=7.86))
    """  # noqa: E501  (a doctest's output)

    depth: int = 7
    kernel_size: int = 7
    weight_variance: Value = 2.79
    bias_variance: Value = 7.86
    shared_variances: bool = True
    weight_variance_bounds: Bounds = DEFAULT_BOUNDS
    bias_variance_bounds: Bounds = DEFAULT_BOUNDS
    pooling: str | None = None
    radius: int = 2
    step: int = 1
    kind: str = NNGP

    @property
    def fan_ins(self) -> tuple[int, ...]:
        """Positions under the window of each affine layer, readout last."""
        return (self.kernel_size**2,) * self.depth + (1,)

    @property
    def idle_settings(self) -> tuple[str, ...]:
        """Settings of windows, if there are none."""
        given = {"radius": self.radius, "step": self.step}
        return tuple(
            f"`{name}`={value!r} has no effect without pooling='local'"
            for name, value in given.items()
            if self.pooling != "local" and value != getattr(type(self), name)
        )

    def _build(self, variances: list[tuple[Scalar, Scalar]]) -> Sequential:
        layers: list[MapLayer] = []
        for weight, bias in variances[:-1]:
            layers += [conv_layer(self.kernel_size, weight, bias), ReLU()]
        return Sequential(*layers, *self._head(), dense_layer(*variances[-1]))

    def _head(self) -> tuple[MapLayer, ...]:
        """Return the layers between the last convolution and the readout."""
        require_positive_int("radius", self.radius, (LARGEST_WINDOW - 1) // 2)
        require_positive_int("step", self.step)
        if self.pooling is None:
            return (Flatten(),)
        if self.pooling == "global":
            return (GlobalAvgPool2d(),)
        if self.pooling == "local":
            window = 2 * self.radius + 1
            pool = AvgPool2d(window, stride=1, padding="same", dilation=self.step)
            return pool, Flatten()
        raise ValueError(
            f"`pooling` must be 'global', 'local' or None, got {self.pooling!r}."
        )


@dataclass(repr=False)
class residual_convnet(Network):
    """Residual CNN-GP: same-size convolutions with shortcuts, a dense readout.

    `depth` - 1 times identity plus [`Conv2d(kernel_size)`, `ReLU`], then
    `Conv2d(kernel_size)`, `ReLU`, `Flatten`, `Dense`. The defaults are the network
    published for MNIST. The shortcuts are summed straight after a ReLU: a valid
    kernel, but not the limit of that finite network.

    Parameters
    ----------
    depth : int, default=9
        Number of hidden convolutions.
    kernel_size : int, default=4
        Height and width of the windows.
    weight_variance : float or tuple of float, default=7.27
        As published, variance per location: hidden convolutions get
        ``weight_variance * kernel_size**2`` in the fan-in convention (116.32 by
        default), the readout gets ``weight_variance``.
    bias_variance : float or tuple of float, default=4.69
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
    Garriga-Alonso, Aitchison and Rasmussen, "Deep convolutional networks as
    shallow Gaussian processes", 2019, table 1 (0.96 % error on MNIST).

    Examples
    --------
    >>> from skconvgp.kernels import residual_convnet
    >>> residual_convnet().layers.out_shape((28, 28))
    (1, 1)
    """

    depth: int = 9
    kernel_size: int = 4
    weight_variance: Value = 7.27
    bias_variance: Value = 4.69
    shared_variances: bool = True
    weight_variance_bounds: Bounds = DEFAULT_BOUNDS
    bias_variance_bounds: Bounds = DEFAULT_BOUNDS
    kind: str = NNGP

    @property
    def fan_ins(self) -> tuple[int, ...]:
        """Positions under the window of each affine layer, readout last."""
        return (self.kernel_size**2,) * self.depth + (1,)

    def _build(self, variances: list[tuple[Scalar, Scalar]]) -> Sequential:
        convs = [conv_layer(self.kernel_size, *pair) for pair in variances[:-1]]
        blocks = [Residual(conv, ReLU()) for conv in convs[:-1]]
        head = (convs[-1], ReLU(), Flatten(), dense_layer(*variances[-1]))
        return Sequential(*blocks, *head)


@dataclass(repr=False)
class resnet32(Network):
    """ResNet-GP with 32 layers, as published for MNIST.

    A 3x3 convolution; three groups of five residual blocks [`ReLU`, `Conv2d(3)`,
    `ReLU`, `Conv2d(3)`], where the second and third group begin with stride 2 and the
    first block of each group has a 1x1 convolution instead of the identity; then
    `Flatten`, `Dense`, `ReLU`, `Dense`. (The published 7x7 convolution without
    padding on the last 7x7 map is `Flatten` and `Dense`, which fits every size.)

    Parameters
    ----------
    weight_variance : float or tuple of float, default=1.0
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
    Garriga-Alonso, Aitchison and Rasmussen, "Deep convolutional networks as
    shallow Gaussian processes", 2019, table 1 (0.84 % error on MNIST).

    Examples
    --------
    >>> from skconvgp.kernels import resnet32
    >>> resnet32().layers.out_shape((28, 28))
    (1, 1)
    """

    weight_variance: Value = 1.0
    bias_variance: Value = 0.0
    shared_variances: bool = True
    weight_variance_bounds: Bounds = DEFAULT_BOUNDS
    bias_variance_bounds: Bounds = DEFAULT_BOUNDS
    kind: str = NNGP

    @property
    def fan_ins(self) -> tuple[int, ...]:
        """One for each affine layer: the published variances are fan-in already."""
        return (1,) * (1 + GROUPS * (2 * BLOCKS + 1) + 2)

    def _build(self, variances: list[tuple[Scalar, Scalar]]) -> Sequential:
        left = iter(variances)
        layers: list[MapLayer] = [conv_layer(3, *next(left))]
        for group in range(GROUPS):
            stride = 1 if group == 0 else 2
            layers += [
                ReLU(),
                Sum(
                    conv_layer(1, *next(left), stride=stride),
                    Sequential(
                        conv_layer(3, *next(left), stride=stride),
                        ReLU(),
                        conv_layer(3, *next(left)),
                    ),
                ),
            ]
            for _ in range(BLOCKS - 1):
                convs = (conv_layer(3, *next(left)), conv_layer(3, *next(left)))
                layers.append(Residual(ReLU(), convs[0], ReLU(), convs[1]))
        head = (Flatten(), dense_layer(*next(left)), ReLU(), dense_layer(*next(left)))
        return Sequential(*layers, *head)


GROUPS, BLOCKS = 3, 5  # of resnet32


@dataclass(repr=False)
class three_layer_convnet(Network):
    """Two 3x3 convolutions with ReLU, the second with stride 2, a dense readout.

    `Conv2d(3)`, `ReLU`, `Conv2d(3, stride=2)`, `ReLU`, `Flatten`, `Dense`.

    Parameters
    ----------
    weight_variance : float or tuple of float, default=1.0
        Variance per location: convolutions get ``9 * weight_variance`` in the
        fan-in convention, the readout gets ``weight_variance``.
    bias_variance : float or tuple of float, default=1.0
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
    Bin Khalid, "Learning convolutional network kernels with Kernel Flows", MSc
    thesis, 2022, section 3.4.

    Examples
    --------
    >>> from skconvgp.kernels import three_layer_convnet
    >>> three_layer_convnet().layers.out_shape((28, 28))
    (1, 1)
    """

    weight_variance: Value = 1.0
    bias_variance: Value = 1.0
    shared_variances: bool = True
    weight_variance_bounds: Bounds = DEFAULT_BOUNDS
    bias_variance_bounds: Bounds = DEFAULT_BOUNDS
    kind: str = NNGP

    @property
    def fan_ins(self) -> tuple[int, ...]:
        """Positions under the window of each affine layer, readout last."""
        return (9, 9, 1)

    def _build(self, variances: list[tuple[Scalar, Scalar]]) -> Sequential:
        first, second, last = variances
        body = (conv_layer(3, *first), ReLU(), conv_layer(3, *second, stride=2), ReLU())
        return Sequential(*body, Flatten(), dense_layer(*last))


@dataclass(repr=False)
class dense(Network):
    """Fully connected network with ReLU; images are flattened.

    `Flatten`, then `depth` times [`Dense`, `ReLU`], then `Dense`.

    Parameters
    ----------
    depth : int, default=3
        Number of hidden layers.
    weight_variance : float or tuple of float, default=2.0
        Fan-in variance of the weights of every layer.
    bias_variance : float or tuple of float, default=0.1
        Variance of the bias of every layer.
    shared_variances : bool, default=True
        With False, the two variances are tuples with one value for each layer,
        readout last; :meth:`unshared` makes them.
    weight_variance_bounds, bias_variance_bounds : tuple of float or "fixed"
        Bounds of the variances when they are learned.
    kind : {"nngp", "ntk"}, default="nngp"
        "ntk" is the neural tangent kernel of the network: :ref:`ntk`.

    References
    ----------
    Lee et al., "Deep neural networks as Gaussian processes", 2018, equation 4.

    Examples
    --------
    >>> import skconvgp
    >>> from skconvgp.kernels import dense
    >>> X = [[1.0, 0.0], [0.0, 1.0]]
    >>> skconvgp.gram_matrix(dense(depth=1), X, dtype="float64").round(3)
    array([[1.2  , 0.502],
           [0.502, 1.2  ]])
    """

    depth: int = 3
    weight_variance: Value = 2.0
    bias_variance: Value = 0.1
    shared_variances: bool = True
    weight_variance_bounds: Bounds = DEFAULT_BOUNDS
    bias_variance_bounds: Bounds = DEFAULT_BOUNDS
    kind: str = NNGP

    @property
    def fan_ins(self) -> tuple[int, ...]:
        """One for each layer."""
        return (1,) * (self.depth + 1)

    def _build(self, variances: list[tuple[Scalar, Scalar]]) -> Sequential:
        layers: list[MapLayer] = [Flatten()]
        for pair in variances[:-1]:
            layers += [dense_layer(*pair), ReLU()]
        return Sequential(*layers, dense_layer(*variances[-1]))


def conv_layer(size: int, weight: Scalar, bias: Scalar, stride: int = 1) -> Conv2d:
    """Return a same-size convolution with fan-in variances."""
    return Conv2d(size, stride=stride, weight_variance=weight, bias_variance=bias)


def dense_layer(weight: Scalar, bias: Scalar) -> Dense:
    """Return a dense layer with fan-in variances."""
    return Dense(weight_variance=weight, bias_variance=bias)
