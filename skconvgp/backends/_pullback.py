"""Derivatives of a weighted sum of covariances, tile by tile.

The formulas: docs/maths.rst, "Derivatives".
"""

import math
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from skconvgp._ambient import ordinary_torch
from skconvgp._protocols import PullbackBackend, Pulled, TileBackend, TileCosts
from skconvgp._tensors import reals
from skconvgp.backends._choose import BackendChoice
from skconvgp.backends._graphs import graph_bytes
from skconvgp.backends._reference import image_shape_of
from skconvgp.kernels import Kernel
from skconvgp.kernels._passes import n_passes

__all__ = ["ReversePullback", "TangentPullback", "choose_pullback"]

LIVE_MAPS = 10  # maps of a tile that torch's backward pass holds beside the graph


@dataclass(frozen=True)
class ReversePullback:
    """Reverse mode through one tile by torch, for any kernel.

    The graph of a tile stores all layers of its pairs and is discarded with the tile.
    The cost is a few times that of the value, for any number of hyperparameters.
    """

    kernel: Kernel
    has_inputs: bool = True  # whether derivatives by the images are wanted

    def measure(self, image: Tensor) -> TileCosts:
        """Return the bytes held while a tile of images like this one is computed."""
        an_image, a_pair = graph_bytes(partial(self._graph_of_tile, image))
        shape = image_shape_of(image)
        n_positions = self.kernel.n_positions(shape)
        return TileCosts(
            image_bytes=an_image + 4 * image.nbytes,
            pair_bytes=a_pair + n_positions * LIVE_MAPS * image.itemsize,
            n_passes=n_passes(self.kernel, shape, n_positions),
        )

    def pull(self, one: Tensor, two: Tensor | None, weights: Tensor) -> Pulled:
        """Return derivatives of sum(weights * covariances) of images (n, c, h, w)."""
        sides = [one] if two is None else [one, two]
        with ordinary_torch():
            theta = reals(self.kernel.theta, one.device)
            theta.requires_grad_()
            sides = [side.detach().requires_grad_(self.has_inputs) for side in sides]
            values, seeds = self._weighted(theta, sides, weights)
        leaves = [theta, *(sides if self.has_inputs else [])]
        moving = [i for i, value in enumerate(values) if value.requires_grad]
        if not moving or all(leaf.numel() == 0 for leaf in leaves):
            return Pulled(*(torch.zeros_like(leaf) for leaf in leaves))
        gradients = torch.autograd.grad(
            [values[i] for i in moving],
            leaves,
            [seeds[i].to(values[i].dtype) for i in moving],
            materialize_grads=True,
        )
        return Pulled(*gradients)

    def _weighted(
        self, theta: Tensor, sides: list[Tensor], weights: Tensor
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Return the covariances of a tile, and the weight of each."""
        kernel = self.kernel.with_theta(theta)
        prepared = [kernel.prepare(side) for side in sides]
        values = [kernel.cross(prepared[0], prepared[-1])]
        if len(sides) == 2:
            return values, [weights]
        values.append(kernel.diag(prepared[0]))
        return values, [weights.triu(1), weights.diagonal()]

    def _graph_of_tile(self, image: Tensor, n_rows: int, n_cols: int) -> object:
        sides = [
            image.repeat(n, 1, 1, 1).requires_grad_(self.has_inputs)
            for n in (n_rows, n_cols)
        ]
        theta = reals(self.kernel.theta, image.device).requires_grad_()
        return self._weighted(theta, sides, image.new_zeros(n_rows, n_cols))


@dataclass(frozen=True)
class TangentPullback:
    """Contraction of forward tangents: derivatives by hyperparameters only."""

    tangents: TileBackend  # computes tiles with their derivatives, (n1, n2, 1 + p)

    def measure(self, image: Tensor) -> TileCosts:
        """Return the bytes held while a tile of images like this one is computed."""
        costs = self.tangents.measure(image)
        in_double = math.prod(costs.value_shape) * torch.float64.itemsize
        return TileCosts(
            image_bytes=costs.image_bytes + image.nbytes,
            pair_bytes=costs.pair_bytes + costs.value_bytes + 2 * in_double,
            worker_bytes=costs.worker_bytes,
            n_passes=costs.n_passes,
        )

    def pull(self, one: Tensor, two: Tensor | None, weights: Tensor) -> Pulled:
        """Return derivatives of sum(weights * covariances) of images (n, c, h, w)."""
        first = self.tangents.prepare(one)
        if two is not None:
            values = self.tangents.cross(first, self.tangents.prepare(two))
            return Pulled(_contract(weights, values[..., 1:]))
        values = self.tangents.gram(first)[..., 1:]
        above = torch.ones_like(weights, dtype=torch.bool).triu(1)
        # Values below the diagonal are undefined. They may be NaN, and 0 NaN is NaN.
        by_pairs = _contract(weights[above], values[above])
        diag = self.tangents.diag(first)[..., 1:]
        return Pulled(by_pairs + _contract(weights.diagonal(), diag))


def choose_pullback(choice: BackendChoice, *, has_inputs: bool) -> PullbackBackend:
    """Choose how weights are pulled back; `choice` is the backend of the values.

    Fused tangents are far cheaper than reverse mode by torch for any network of less
    than a hundred hyperparameters, but they have no derivatives by the images and none
    of tangent kernels.
    """
    if choice.has_tangents and not has_inputs:
        return TangentPullback(choice.tangents())
    return ReversePullback(choice.kernel, has_inputs)


def _contract(weights: Tensor, tangents: Tensor) -> Tensor:
    """Return sum(weights * tangents) in float64 over all dimensions but the last."""
    rows = tangents.flatten(0, -2).to(torch.float64)
    return rows.mT @ weights.reshape(-1).to(torch.float64)
