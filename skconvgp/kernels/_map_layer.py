"""MapLayer: what a network asks of its layers."""

from typing import Protocol, runtime_checkable

from torch import Tensor

from skconvgp._typing import MapShape, Prepared

__all__ = ["MapLayer", "map_layer"]


@runtime_checkable
class MapLayer(Protocol):
    """What a network asks of its layers: how covariance maps pass through."""

    @property
    def is_spatial(self) -> bool:
        """Whether the layer distinguishes positions."""
        ...

    def out_shape(self, shape: MapShape) -> MapShape:
        """Return the size of the map after the layer; raise where there is none."""
        ...

    def image_pass(self, var: Tensor) -> tuple[Tensor, Prepared]:
        """Pass variance maps (h, w, n); also return what `pair_pass` needs."""
        ...

    def pair_pass(self, nngp: Tensor, one: Prepared, two: Prepared) -> Tensor:
        """Pass covariance maps (h, w, n1, n2) of all pairs."""
        ...


def map_layer(kernel: object) -> MapLayer:
    """Return a kernel as a layer; raise if it is none."""
    if isinstance(kernel, type) or not isinstance(kernel, MapLayer):
        raise ValueError(  # noqa: TRY004  (a wrong setting, not a wrong type)
            f"{kernel!r} is a kernel of its own and cannot be a layer of a network; "
            "add or multiply it with the finished network instead."
        )
    return kernel
