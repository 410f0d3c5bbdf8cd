"""Tiles computed by torch, for any kernel: the definition of every value."""

import copy
import math
import threading
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.autograd import forward_ad

from skconvgp._protocols import TileBackend, TileCosts
from skconvgp._tensors import reals
from skconvgp._typing import ImageShape, Prepared
from skconvgp.kernels import Kernel
from skconvgp.kernels._checks import plain_value
from skconvgp.kernels._hyperparameters import assign_hyperparameters
from skconvgp.kernels._passes import n_passes

__all__ = ["ReferenceBackend", "TangentBackend", "TorchTangents"]

LIVE_MAPS = 8  # maps of a tile that torch holds at once, inputs and temporaries

# torch has one level of forward mode for all threads of a process.
_FORWARD_MODE = threading.Lock()


@dataclass(frozen=True)
class ReferenceBackend:
    """Tiles of a kernel, computed as its formulas state.

    Parameters
    ----------
    kernel : Kernel
        The covariance function.
    """

    kernel: Kernel

    def measure(self, image: Tensor) -> TileCosts:
        """Return the bytes that images like this one (1, c, h, w) need."""
        return measured(self, self.kernel, image, maps_of_a_position=1)

    def prepare(self, images: Tensor) -> Prepared:
        """Compute the tables of single images (n, c, h, w)."""
        return self.kernel.prepare(images)

    def cross(self, one: Prepared, two: Prepared) -> Tensor:
        """Return the covariances (n1, n2) of a tile."""
        return self.kernel.cross(one, two)

    def gram(self, one: Prepared) -> Tensor:
        """Return the covariances (n, n) of a tile on the diagonal."""
        return self.cross(one, one)

    def diag(self, one: Prepared) -> Tensor:
        """Return the prior variances (n,)."""
        return self.kernel.diag(one)


@dataclass(frozen=True)
class TorchTangents(ABC):
    """Tiles with their derivatives by each free hyperparameter, by torch.

    A value is followed by its derivatives by ``kernel.theta`` in one more dimension of
    size 1 + p.
    """

    kernel: Kernel

    def prepare(self, images: Tensor) -> Prepared:
        """Move the images to the last axis; tables would depend on hyperparameters."""
        return images.permute(1, 2, 3, 0)

    def cross(self, one: Prepared, two: Prepared) -> Tensor:
        """Return covariances and derivatives (n1, n2, 1 + p) of a tile."""
        return self._with_tangents(_images(one), _images(two))

    def gram(self, one: Prepared) -> Tensor:
        """Return covariances and derivatives (n, n, 1 + p) of a diagonal tile."""
        return self.cross(one, one)

    def diag(self, one: Prepared) -> Tensor:
        """Return prior variances and derivatives (n, 1 + p)."""
        return self._with_tangents(_images(one), None)

    @abstractmethod
    def _with_tangents(self, first: Tensor, second: Tensor | None) -> Tensor:
        """Return a tile of images (n, c, h, w); without second ones, variances."""


@dataclass(frozen=True)
class TangentBackend(TorchTangents):
    """Tiles with their derivatives by each free hyperparameter, in forward mode.

    Memory does not grow with the depth of the network, nor with the displacements in
    front of its pools.
    """

    def measure(self, image: Tensor) -> TileCosts:
        """Return the bytes that images like this one (1, c, h, w) need."""
        # A map and its tangent are held.
        return measured(self, self.kernel, image, maps_of_a_position=2)

    def _with_tangents(self, first: Tensor, second: Tensor | None) -> Tensor:
        _load_forward_mode()
        free = [one for one in self.kernel.hyperparameters if one.is_free]
        values = reals([plain_value(one.value) for one in free], first.device).unbind()
        columns = [value_of(self.kernel, first, second)]
        for i, one in enumerate(values):
            with _FORWARD_MODE, forward_ad.dual_level():
                moving = forward_ad.make_dual(one, one)  # type: ignore[no-untyped-call]
                kernel = copy.deepcopy(self.kernel)
                assign_hyperparameters(
                    kernel, free, [*values[:i], moving, *values[i + 1 :]]
                )
                value = forward_ad.unpack_dual(  # type: ignore[no-untyped-call]
                    value_of(kernel, first, second)
                )
                tangent = value.tangent
                if tangent is None:
                    tangent = torch.zeros_like(value.primal)
                columns.append(tangent)
        return torch.stack(columns, dim=-1)


def image_shape_of(image: Tensor) -> ImageShape:
    """Return the shape (c, h, w) of an image (1, c, h, w)."""
    _, channels, height, width = image.shape
    return channels, height, width


def count_bytes(prepared: Prepared) -> int:
    """Return the bytes of tables, including tables of branches."""
    if isinstance(prepared, tuple):
        return sum(count_bytes(branch) for branch in prepared)
    return 0 if prepared is None else prepared.nbytes


def measured(
    backend: TileBackend,
    kernel: Kernel,
    image: Tensor,
    *,
    maps_of_a_position: int,
) -> TileCosts:
    """Return the costs of a backend of a kernel, measured on one pair."""
    prepared = backend.prepare(image)
    value = backend.cross(prepared, prepared)
    shape = image_shape_of(image)
    n_positions = kernel.n_positions(shape)
    value_shape = tuple(value.shape[2:])
    of_a_value = n_passes(kernel, shape, n_positions)
    return TileCosts(
        image_bytes=count_bytes(prepared),
        pair_bytes=LIVE_MAPS * maps_of_a_position * n_positions * image.itemsize,
        value_bytes=value.nbytes,
        value_shape=value_shape,
        n_passes=of_a_value * math.prod(value_shape),
    )


def value_of(kernel: Kernel, first: Tensor, second: Tensor | None) -> Tensor:
    """Return covariances (n1, n2) of images; variances (n,) without second ones."""
    one = kernel.prepare(first)
    return (
        kernel.diag(one)
        if second is None
        else kernel.cross(one, kernel.prepare(second))
    )


@lru_cache(maxsize=1)
def _load_forward_mode() -> None:
    """Use forward mode once, since torch then compiles it with a warning of its own."""
    with _FORWARD_MODE, warnings.catch_warnings(), forward_ad.dual_level():
        warnings.simplefilter("ignore", DeprecationWarning)
        one, zero = reals([1.0]), reals([0.0])
        forward_ad.make_dual(one, zero)  # type: ignore[no-untyped-call]


def _images(prepared: Prepared) -> Tensor:
    assert isinstance(prepared, Tensor)
    return prepared.permute(3, 0, 1, 2)
