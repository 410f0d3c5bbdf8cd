"""Layer: the base class of all layers of a network."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import fields
from functools import reduce, wraps
from typing import Any, TypeVar

import torch
from torch import Tensor

from skconvgp._typing import ImageShape, MapShape, Prepared
from skconvgp.kernels._base import Kernel, split
from skconvgp.kernels._checks import as_items
from skconvgp.kernels._displacements import stages_of
from skconvgp.kernels._keys import by_settings
from skconvgp.kernels._map_layer import NNGP, NTK, MapLayer, Maps, inner_of
from skconvgp.kernels._segments import first_pool
from skconvgp.kernels._tangents import require_kind, same_images, started

__all__ = ["Layer", "has_pools", "settings_by_name"]

# Values of maps: sums over channels and functions of these, pixels, and masked values.
KINDS = MIXED, INPUT, MASKED = "mixed", "input", "masked"

LayerClass = TypeVar("LayerClass", bound=type)


class Layer(Kernel, ABC):
    """A map layer, and so a network of one layer: a kernel if its map is 1x1.

    A layer states how the variance maps of images, `Tensor` s of shape (h, w, n), and
    the covariance maps of pairs, `Maps`, pass through it. Covariances are of equal
    positions, (h, w, n1, n2), and, in front of a pool, of positions at a displacement.
    """

    kind: str = NNGP  # settings of whole networks replace it
    # The first layer, if it gives each feature of the images a weight of its own.
    weighing: Any = None

    @abstractmethod
    def out_shape(self, shape: MapShape) -> MapShape:
        """Return the size of the map after the layer; raise if it does not fit."""

    @abstractmethod
    def image_pass(self, var: Tensor) -> tuple[Tensor, Prepared]:
        """Pass variance maps (h, w, n); also return values for `pair_pass`."""

    @abstractmethod
    def pair_pass(self, maps: Maps, one: Prepared, two: Prepared) -> Maps:
        """Pass the covariance maps of all pairs."""

    def check(self, image_shape: ImageShape) -> None:
        """Raise a ValueError that says why images of this shape cannot be used."""
        _require_usable(self, image_shape[1:])
        _require_first(self, image_shape)
        noisy = _within(self, "is_noisy")
        if noisy and has_pools(self, image_shape[1:]):
            raise ValueError(
                f"{noisy[0]!r} stands in a network that averages over positions, for "
                "which its variances are not known: take a network without pools."
            )
        if noisy:
            _values_behind(self, INPUT)

    def n_positions(self, image_shape: ImageShape) -> int:
        """Return the positions of the map of one pair.

        With pools, these are positions that are in work at a time. With kind="ntk"
        each counts twice, as there are two maps.
        """
        shape = image_shape[1:]
        n_maps = 2 if self.kind == NTK else 1
        if has_pools(self, shape):
            return n_maps * stages_of(self, shape).n_positions
        return n_maps * shape[0] * shape[1]

    def n_position_pairs(self, image_shape: ImageShape) -> int:
        """Return the pairs of positions whose covariances a pair of images needs."""
        shape = image_shape[1:]
        if has_pools(self, shape):
            return stages_of(self, shape).n_position_pairs
        return shape[0] * shape[1]

    def prepare(self, images: Tensor) -> Prepared:
        """Compute all that depends on one image only, for images (n, c, h, w)."""
        images = images if self.weighing is None else self.weighing.weigh(images)
        pixels = images.permute(2, 3, 1, 0).contiguous()
        shape = images.shape[2], images.shape[3]
        if has_pools(self, shape):
            return pixels, stages_of(self, shape).prepare(pixels), None
        squares = (pixels * pixels).mean(2)
        var, trace = self.image_pass(squares)
        if self.kind == NTK:
            return pixels, trace, None
        if _within(self, "is_noisy"):  # variances of a single pass are larger
            var = self.pair_pass(Maps(squares, is_self=True), trace, trace).nngp
        return pixels, trace, var.reshape(-1)

    def cross(self, one: Prepared, two: Prepared) -> Tensor:
        """Return the covariance (n1, n2) of two prepared sets of images."""
        pixels1, trace1, diag = split(one)
        pixels2, trace2, _ = split(two)
        assert isinstance(pixels1, Tensor)
        assert isinstance(pixels2, Tensor)
        shape = pixels1.shape[0], pixels1.shape[1]
        if diag is None and has_pools(self, shape):
            stages = stages_of(self, shape)
            return stages.cross((pixels1, trace1), (pixels2, trace2))
        n_channels = pixels1.shape[2]
        # docs/maths.rst, "Affine layers"
        nngp = torch.matmul(pixels1.mT / n_channels, pixels2)
        is_same = same_images(pixels1, pixels2) if self.kind == NTK else None
        maps = started(Maps(nngp), self.kind, is_same)
        return self.pair_pass(maps, trace1, trace2).of_kind(self.kind)[0, 0]

    def diag(self, one: Prepared) -> Tensor:
        """Return the prior variance (n,) of each prepared image.

        Behind a pool it takes half the work of a pair, which only this method does. The
        tangent kernel's is computed in float64.
        """
        pixels, trace, diag = split(one)
        if isinstance(diag, Tensor):
            return diag
        assert isinstance(pixels, Tensor)
        shape = pixels.shape[0], pixels.shape[1]
        if self.kind == NNGP:
            return stages_of(self, shape).diag(pixels, trace)
        pixels = pixels.double()
        if has_pools(self, shape):
            stages = stages_of(self, shape)
            return stages.diag(pixels, stages.prepare(pixels))
        var = (pixels * pixels).mean(2)
        maps = started(Maps(var, is_self=True), NTK)
        _, trace = self.image_pass(var)
        return self.pair_pass(maps, trace, trace).of_kind(NTK).reshape(-1)


def settings_by_name(hint: str) -> Callable[[LayerClass], LayerClass]:
    """Add a hint to the error of a layer that is given positional settings.

    The decorator is for dataclasses of which only the first setting is positional. The
    hint says what users of other libraries may have meant.
    """

    def decorate(layer: LayerClass) -> LayerClass:
        store = layer.__init__  # type: ignore[misc]
        first, *others = (field.name for field in fields(layer))

        @wraps(store)
        def init(self: object, *settings: object, **named: object) -> None:
            if len(settings) > 1:
                given = ", ".join(map(repr, settings))
                raise TypeError(
                    f"{layer.__name__}({given}): only `{first}` may be given by "
                    f"position, {', '.join(others)} by name. {hint}"
                )
            store(self, *settings, **named)

        layer.__init__ = init  # type: ignore[misc]
        return layer

    return decorate


@by_settings
def _require_usable(network: Layer, shape: MapShape) -> None:
    _require_closed(network, network.out_shape(shape))
    require_kind(network, shape)
    if has_pools(network, shape):
        stages_of(network, shape)


def _require_first(network: Layer, image_shape: ImageShape) -> None:
    """Raise unless weights of features are those of the first layer."""
    for layer in _within(network, "weighing"):
        if layer is not network.weighing:
            raise ValueError(
                f"`weight_variance` of {layer!r} has a number for each feature: only "
                "the first layer of a network can, with nothing but `Flatten()` in "
                "front of it, and not in a branch."
            )
        n_given, n_features = (
            len(as_items(layer.weight_variance)),
            math.prod(image_shape),
        )
        if n_given != n_features:
            raise ValueError(
                "`weight_variance` must be a number or have one for each of the "
                f"{n_features} features of X, got {n_given}."
            )


def _within(part: object, name: str) -> list[Any]:
    """Return the layers within a part that have an attribute which is true."""
    inner = inner_of(part)
    if not inner:
        return [part] if getattr(part, name, None) else []
    return [found for one in inner for found in _within(one, name)]


def _values_behind(part: Any, state: str) -> str:
    """Return of which kind values behind a layer are; raise if dropout does not fit.

    Sums over many values that are masked are normal again. Activations of masked values
    have other expectations, and an image has few values to mask.
    """
    part = getattr(part, "built", part)
    inner = inner_of(part)
    if hasattr(part, "layers"):
        behind = reduce(lambda kind, one: _values_behind(one, kind), inner, state)
        is_sum = not hasattr(part, "unrolled")  # with what comes in
        return max(behind, state if is_sum else behind, key=KINDS.index)
    if inner:
        return max((_values_behind(one, state) for one in inner), key=KINDS.index)
    role = getattr(part, "masking", None)
    if (role == "masks" and state == INPUT) or (role is None and state == MASKED):
        where = "the images" if state == INPUT else f"{part!r}"
        raise ValueError(
            f"Dropout must stand behind an activation and in front of the next Conv2d "
            f"or Dense, as its covariances hold for sums over many channels. Here it "
            f"stands between these and {where}."
        )
    return {"masks": MASKED, "mixes": MIXED}.get(role or "", state)


@by_settings
def has_pools(network: Layer, shape: MapShape) -> bool:
    """Return whether covariances of different positions are needed."""
    return first_pool(network, shape) is not None


def _require_closed(network: MapLayer, shape: MapShape) -> None:
    if shape != (1, 1):
        raise ValueError(
            f"the last map of {network!r} has size {shape[0]}x{shape[1]} and a kernel "
            "needs 1x1: end the network with `Flatten()` and `Dense()`."
        )
