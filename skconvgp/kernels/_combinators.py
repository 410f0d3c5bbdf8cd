"""Layers made of layers: a chain, and a chain with a shortcut."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from torch import Generator, Tensor

from skconvgp._parts import Part, distinct
from skconvgp._typing import ImageShape, MapShape, Prepared
from skconvgp.kernels._capabilities import (
    is_turn_invariant,
    require_mirrored,
    sample_network,
)
from skconvgp.kernels._layer import Layer
from skconvgp.kernels._map_layer import NNGP, NTK, MapLayer, Maps, require_layer_kind
from skconvgp.kernels._segments import (
    image_pass,
    leaves,
    pair_pass,
    require_no_pool,
    strides_of,
    unrolled,
)

__all__ = ["Residual", "Sequential"]


class _Chain(Layer):
    """Layers in order; their settings are ``layer0__...``, ``layer1__...``."""

    part_name: ClassVar[str] = "layer"
    is_homogeneous: ClassVar[bool] = True

    @property
    def layers(self) -> tuple[MapLayer, ...]:
        """The layers in order."""
        return cast(tuple[MapLayer, ...], self.parts)

    @property
    def is_spatial(self) -> bool:
        """Whether one of the layers distinguishes positions."""
        return any(getattr(layer, "is_spatial", True) for layer in self.layers)

    @property
    def map_strides(self) -> tuple[int, int]:
        """Rows and columns of the input for each of the output."""
        rows, cols = 1, 1
        for layer in self.layers:
            strides = strides_of(layer)
            rows, cols = rows * strides[0], cols * strides[1]
        return rows, cols

    def leaves(self, shape: MapShape) -> Iterator[tuple[Any, MapShape]]:
        """Yield the layers in order, each with the size of its input."""
        for layer in self.layers:
            yield from leaves(layer, shape)
            shape = layer.out_shape(shape)

    def check_flips(self, shape: ImageShape) -> None:
        """Raise a ValueError that names the first layer that flips change."""
        for i, layer in enumerate(self.layers):
            try:
                require_mirrored(layer, shape)
            except ValueError as error:
                name = f"layer{i} of a {type(self).__name__}"
                raise ValueError(f"{name}, {error}") from error
            shape = (shape[0], *layer.out_shape(shape[1:]))

    def is_turn_invariant(self, shape: ImageShape) -> bool:
        """Whether turns and flips of both images are known to change nothing."""
        for layer in self.layers:
            if not is_turn_invariant(layer, shape):
                return False
            shape = (shape[0], *layer.out_shape(shape[1:]))
        return True

    def _chain_sample(self, images: Tensor, width: int, generator: Generator) -> Tensor:
        for layer in self.layers:
            images = sample_network(layer, images, width=width, generator=generator)
        return images

    def _chain_shape(self, shape: MapShape) -> MapShape:
        for i, layer in enumerate(self.layers):
            if isinstance(layer, type):
                raise ValueError(  # noqa: TRY004  (a wrong setting, not a wrong type)
                    f"layer{i} of a {type(self).__name__} must be a layer of a "
                    f"network, got the class {layer.__name__}: write "
                    f"{layer.__name__}(...)."
                )
            if not isinstance(layer, MapLayer):
                raise ValueError(  # noqa: TRY004  (a wrong setting, not a wrong type)
                    f"layer{i} of a {type(self).__name__} must be a layer of a "
                    f"network, got {layer!r}; kernels for vectors are added to or "
                    "multiplied with the finished network."
                )
            try:
                require_layer_kind(layer)
                shape = layer.out_shape(shape)
            except ValueError as error:
                raise ValueError(f"layer{i}, {layer!r}: {error}") from error
        return shape


@dataclass(repr=False, init=False)
class Sequential(_Chain):
    """Layers that are applied in order.

    Parameters
    ----------
    *layers : Layer
        The layers, first to last. Their settings are reached as
        ``layer0__weight_variance`` and so on.
    kind : {"nngp", "ntk"}, default="nngp"
        The kernel: the covariances of outputs of a random network, or the neural
        tangent kernel, which governs the training of all its layers by gradient
        descent: :ref:`ntk`.

    Examples
    --------
    >>> from skconvgp.kernels import Conv2d, Dense, Flatten, ReLU, Sequential
    >>> net = Sequential(Conv2d(3), ReLU(), Flatten(), Dense())
    >>> net.replace(layer0__weight_variance=2.0).theta.round(3)
    array([0.693, 0.   ])
    """

    parts: tuple[Part, ...]
    kind: str = NNGP

    def __init__(self, *layers: MapLayer, kind: str = NNGP) -> None:
        self.parts = distinct(layers)
        self.kind = kind

    def sample(self, images: Tensor, *, width: int, generator: Generator) -> Tensor:
        """Draw all layers, and apply them to images (n, c, h, w)."""
        if self.kind == NTK:
            raise TypeError(
                f"{self!r} has no finite twin: outputs of random networks have the "
                "covariances of kind='nngp'."
            )
        return self._chain_sample(images, width, generator)

    @property
    def weighing(self) -> Any:
        """The first layer, if it gives each feature of the images its own weight."""
        layers = (one for one in self.layers if not hasattr(one, "keeps_features"))
        return getattr(next(layers, None), "weighing", None)

    def unrolled(self) -> Iterator[Any]:
        """Yield the layers, also of chains among them."""
        for layer in self.layers:
            yield from unrolled(layer)

    def out_shape(self, shape: MapShape) -> MapShape:
        """Return the size of the map after the last layer."""
        return self._chain_shape(shape)

    def image_pass(self, var: Tensor) -> tuple[Tensor, Prepared]:
        """Pass variance maps (h, w, n) through all layers."""
        return image_pass(self.layers, var)

    def pair_pass(self, maps: Maps, one: Prepared, two: Prepared) -> Maps:
        """Pass covariance maps through all layers."""
        return pair_pass(self.layers, maps, one, two)


@dataclass(repr=False, init=False)
class Residual(_Chain):
    """Identity plus layers that are applied in order.

    Parameters
    ----------
    *layers : Layer
        The layers of the branch; the map must keep its size. The branch should
        end in an affine layer: only then is the kernel the limit of a network.

    References
    ----------
    Garriga-Alonso, Aitchison and Rasmussen, "Deep convolutional networks as
    shallow Gaussian processes", 2019, section 2.4.

    Examples
    --------
    >>> from skconvgp.kernels import Conv2d, ReLU, Residual
    >>> Residual(ReLU(), Conv2d(3))
    Residual(ReLU(), Conv2d(kernel_size=3))
    """

    parts: tuple[Part, ...]

    def __init__(self, *layers: MapLayer) -> None:
        self.parts = distinct(layers)

    def sample(self, images: Tensor, *, width: int, generator: Generator) -> Tensor:
        """Draw all layers, and add their output for images (n, c, h, w) to these."""
        return images + self._chain_sample(images, width, generator)

    def out_shape(self, shape: MapShape) -> MapShape:
        """Return the size of the map; raise if the branch changes it."""
        after = self._chain_shape(shape)
        if after != shape:
            require_no_pool(self, shape)
            raise ValueError(
                f"the branch of a Residual must keep the size of the map, but makes "
                f"{after[0]}x{after[1]} of {shape[0]}x{shape[1]}: use a `Sum` with a "
                "strided 1x1 `Conv2d` as the other branch."
            )
        return shape

    def image_pass(self, var: Tensor) -> tuple[Tensor, Prepared]:
        """Pass variance maps (h, w, n) and add them."""
        out, trace = image_pass(self.layers, var)
        return out + var, trace

    def pair_pass(self, maps: Maps, one: Prepared, two: Prepared) -> Maps:
        """Pass covariance maps (h, w, n1, n2) and add them."""
        return pair_pass(self.layers, maps, one, two).plus(maps)
