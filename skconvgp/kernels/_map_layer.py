"""MapLayer: the protocol of a layer in a network."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, Protocol, Self, runtime_checkable

from torch import Tensor

from skconvgp._tensors import int_range
from skconvgp._typing import MapShape, Prepared, Scalar
from skconvgp.kernels._steps import SAME, Steps, facing

__all__ = [
    "NNGP",
    "NTK",
    "MapLayer",
    "Maps",
    "has_tangent_kernel",
    "map_layer",
    "require_layer_kind",
]

NNGP, NTK = "nngp", "ntk"  # kinds of a network's kernel


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
    displacement : tuple of tuple of int, default=((0,), (0,))
        Steps from a row of the first image to the row of the second one, and from its
        column to the column of the second one. Only rows and columns that have both are
        part of the maps; those of several steps follow one another.
    is_cyclic : bool, default=False
        Whether positions that a displacement moves out of the image enter it at the
        other side. Maps then keep their size.
    is_self : bool, default=False
        Whether each image is paired with itself alone, so that maps are (h, w, n).
    is_same : Tensor of bool of shape (n1, n2), or None, default=None
        Which images of both sides are equal; None if none are.

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
    displacement: tuple[Steps, Steps] = (SAME, SAME)
    is_cyclic: bool = False
    is_self: bool = False
    is_same: Tensor | None = None

    def sides(self, one: Tensor, two: Tensor) -> tuple[Tensor, Tensor]:
        """Return tables of images at the positions of the pairs, to be broadcast.

        Parameters
        ----------
        one, two : Tensor of shape (..., h, w, n1) and (..., h, w, n2)
            Tables of a layer whose input these maps are.

        Returns
        -------
        first, second : Tensor
            Shapes (..., h', w', n1, 1) and (..., h', w', 1, n2), where (h', w') is the
            size of the maps; both (..., h', w', n) if `is_self`.
        """
        one, two = facing(one, two, self.displacement, -3, is_cyclic=self.is_cyclic)
        return (one, two) if self.is_self else (one.unsqueeze(-1), two.unsqueeze(-2))

    def coinciding(self, table: Tensor) -> Tensor | None:
        """Return at which pairs both arguments of an activation are one variable.

        Parameters
        ----------
        table : Tensor of shape (h, w, n)
            A table of the layer whose input these maps are.

        Returns
        -------
        is_one : Tensor of bool or None
            To be broadcast against the maps; None if there is no such pair.
        """
        if any(0 not in steps for steps in self.displacement):
            return None
        if self.is_same is None and not self.is_self:
            return None
        height, width = table.shape[:2]
        grid = int_range(height * width, table.device)
        grid = grid.reshape(height, width, 1)
        one, two = facing(grid, grid, self.displacement, 0, is_cyclic=self.is_cyclic)
        is_one = one == two
        return is_one if self.is_same is None else is_one[..., None] & self.is_same

    def linear(self, function: Callable[[Tensor], Tensor]) -> Self:
        """Return maps after a layer without weights that is linear in both."""
        ntk = None if self.ntk is None else function(self.ntk)
        return replace(self, nngp=function(self.nngp), ntk=ntk)

    def affine(
        self, weighted: Callable[[Tensor], Tensor], bias_variance: Scalar
    ) -> Self:
        """Return maps after a layer whose weights and biases are trained."""
        nngp = weighted(self.nngp) + bias_variance
        ntk = None if self.ntk is None else nngp + weighted(self.ntk)
        return replace(self, nngp=nngp, ntk=ntk)

    def plus(self, other: Self) -> Self:
        """Return the maps of a sum of branches."""
        is_carried = self.ntk is not None and other.ntk is not None
        ntk = self.ntk + other.ntk if is_carried else None  # type: ignore[operator]
        return replace(self, nngp=self.nngp + other.nngp, ntk=ntk)

    def of_kind(self, kind: str) -> Tensor:
        """Return the covariances or the tangent kernel."""
        if kind == NNGP:
            return self.nngp
        assert self.ntk is not None
        return self.ntk

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
        """Pass variance maps (h, w, n); also return values for `pair_pass`."""
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
    require_layer_kind(kernel)
    return kernel


def require_layer_kind(layer: object) -> None:
    """Raise if a layer of a network is a tangent kernel by itself."""
    if getattr(layer, "kind", NNGP) != NNGP:
        raise ValueError(
            f"{layer!r} is a complete kernel and cannot be a layer of a network: set "
            "`kind` of the whole network alone."
        )


def has_tangent_kernel(kernel: object) -> bool:
    """Return whether a kernel, or one that it consists of, is a tangent kernel."""
    if getattr(kernel, "kind", NNGP) == NTK:
        return True
    return any(has_tangent_kernel(part) for part in inner_of(kernel))


def inner_of(kernel: object) -> list[object]:
    """Return the parts of a kernel; some may be no kernels."""
    parts = getattr(kernel, "parts", ())
    inner = [
        *(parts if isinstance(parts, tuple) else ()),
        getattr(kernel, "kernel", None),
    ]
    return [part for part in inner if part is not None]
