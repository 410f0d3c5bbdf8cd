r"""Derivatives of each covariance by hyperparameters, from reverse mode alone.

For numbers u, one for each pair, reverse mode has :math:`w = \sum_{ij} u_{ij} \,
\partial_\theta K_{ij}`, as a graph of operations that are linear in u. The derivatives
of w by u are those of each covariance. Forward mode of torch has them too, in as much
time or more, and imports the compiler of torch, which takes seconds.
"""

from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from skconvgp._ambient import ordinary_torch
from skconvgp._protocols import TileBackend, TileCosts
from skconvgp._tensors import reals
from skconvgp._typing import ImageShape
from skconvgp.backends._graphs import graph_bytes
from skconvgp.backends._reference import (
    TangentBackend,
    TorchTangents,
    measured,
    value_of,
)
from skconvgp.kernels import Kernel, Layer
from skconvgp.kernels._layer import has_pools
from skconvgp.kernels._map_layer import inner_of

__all__ = ["ReverseTangentBackend", "torch_tangents"]


@dataclass(frozen=True)
class ReverseTangentBackend(TorchTangents):
    """Tiles with their derivatives by each free hyperparameter, in reverse mode.

    The graph of a tile stores all layers of its pairs.
    """

    def measure(self, image: Tensor) -> TileCosts:
        """Return the bytes that images like this one (1, c, h, w) need."""
        costs = measured(self, self.kernel, image, maps_of_a_position=2)
        an_image, a_pair = graph_bytes(partial(self._graph_of_tile, image))
        return replace(
            costs,
            image_bytes=costs.image_bytes + an_image,
            pair_bytes=costs.pair_bytes + a_pair,
        )

    def _with_tangents(self, first: Tensor, second: Tensor | None) -> Tensor:
        seeds, sums = self._graph(first, second)
        columns = [value_of(self.kernel, first, second).detach()]
        for one in sums:
            columns += torch.autograd.grad(one, seeds, retain_graph=True)
        return torch.stack(columns, dim=-1)

    def _graph_of_tile(self, image: Tensor, n_rows: int, n_cols: int) -> object:
        return self._graph(*(image.repeat(n, 1, 1, 1) for n in (n_rows, n_cols)))

    def _graph(
        self, first: Tensor, second: Tensor | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return numbers u for all pairs, and the sum w of each hyperparameter."""
        with ordinary_torch():
            theta = reals(self.kernel.theta, first.device).requires_grad_()
            value = value_of(self.kernel.with_theta(theta), first.detach(), second)
            seeds = torch.zeros_like(value, requires_grad=True)
            value = value + 0.0 * theta.sum()  # of which some do not depend on it
            (sums,) = torch.autograd.grad(value, theta, seeds, create_graph=True)
            return seeds, sums.unbind()


def torch_tangents(kernel: Kernel, image_shape: ImageShape) -> TileBackend:
    """Return the backend of derivatives by torch.

    In front of pools a graph would store maps of all displacements: forward mode, which
    stores none of them, then takes far less memory.
    """
    if _has_pools(kernel, image_shape):
        return TangentBackend(kernel)
    return ReverseTangentBackend(kernel)


def _has_pools(kernel: object, image_shape: ImageShape) -> bool:
    if isinstance(kernel, Layer):
        return has_pools(kernel, image_shape[1:])
    return any(_has_pools(one, image_shape) for one in inner_of(kernel))
