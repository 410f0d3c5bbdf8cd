"""MapLayer: the protocol of a layer in a network."""

from dataclasses import dataclass, replace
from typing import Literal, Protocol, Self, runtime_checkable

from torch import Tensor

from skconvgp._typing import MapShape, Prepared

__all__ = ["MapLayer", "Maps", "map_layer"]


@dataclass(frozen=True)
class Maps:
    """Covariance maps of pairs of images, as they pass from layer to layer.

    Parameters
    ----------
    nngp : Tensor of shape (h, w, n1, n2) or (h, w, h, w, n1, n2)
        Covariances of the network's outputs; the second shape if `covers` is "all".
    ntk : Tensor of the same shape, or None, default=None
        Neural tangent kernel; None if it is not carried.
    covers : {"equal", "all"}, default="equal"
        Which pairs of positions there are covariances of: each position with the same
        one of the other image, or all with all.

    Examples
    --------
    >>> import torch
    >>> from skconvgp.kernels import Maps
    >>> maps = Maps(torch.ones(1, 1, 2, 2))
    >>> maps.with_nngp(2.0 * maps.nngp).nngp[0, 0]
    tensor([[2., 2.],
            [2., 2.]])
    """

    nngp: Tensor
    ntk: Tensor | None = None
    covers: Literal["equal", "all"] = "equal"

    def with_nngp(self, nngp: Tensor) -> Self:
        """Return maps after a layer that has passed the covariances alone.

        A tangent kernel is not carried on: the layer has not said what becomes of it.
        """
        return replace(self, nngp=nngp, ntk=None)


@runtime_checkable
class MapLayer(Protocol):
    """Protocol of a layer: how covariance maps pass through it."""

    @property
    def is_spatial(self) -> bool:
        """Whether the layer distinguishes positions."""
        ...

    def out_shape(self, shape: MapShape) -> MapShape:
        """Return the size of the map after the layer; raise if it does not fit."""
        ...

    def image_pass(self, var: Tensor) -> tuple[Tensor, Prepared]:
        """Pass variance maps (h, w, n); also return what `pair_pass` needs."""
        ...

    def pair_pass(self, maps: Maps, one: Prepared, two: Prepared) -> Maps:
        """Pass the covariance maps of all pairs."""
        ...


def map_layer(kernel: object) -> MapLayer:
    """Return a kernel as a layer; raise if it is not one."""
    if isinstance(kernel, type) or not isinstance(kernel, MapLayer):
        raise ValueError(  # noqa: TRY004  (a wrong setting, not a wrong type)
            f"{kernel!r} is a complete kernel and cannot be a layer of a network; "
            "add or multiply it with the finished network instead."
        )
    return kernel
