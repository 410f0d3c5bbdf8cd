"""Derivatives of kernels of patches, all of them in one pass over the pairs.

A covariance of patches is a function of inner products. If each image has a copy of the
hyperparameters of that function, the derivatives of a sum over images by the copies are
those of each image. Location lengthscales are in factors that no image changes.
"""

import copy
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor

from skconvgp._ambient import ordinary_torch
from skconvgp._protocols import TileBackend, TileCosts
from skconvgp._typing import ImageShape, Prepared
from skconvgp.backends._reference import measured
from skconvgp.backends._reverse_tangents import torch_tangents
from skconvgp.backends._terms import ScaledTangents, SumBackend
from skconvgp.kernels import (
    Kernel,
    PatchKernel,
    Product,
    Scale,
    Sum,
    arcsine,
    dot_product,
    matern,
    polynomial,
    rbf,
)
from skconvgp.kernels._checks import plain_value
from skconvgp.kernels._hyperparameters import Hyperparameter, assign_hyperparameters
from skconvgp.kernels._prepared import halves, rows_of, shape_and_type

__all__ = ["PatchTangentBackend", "patch_tangents"]

GRAPHS = 3  # what a graph and its derivatives take, in units of the maps of a pair
OF_INNER_PRODUCTS = (rbf, matern, dot_product, polynomial, arcsine)
LENGTH = "location_lengthscale"

Copies = dict[str, Tensor]


@dataclass(frozen=True)
class PatchTangentBackend:
    """Tiles of a kernel of patches with their derivatives by ``kernel.theta``."""

    kernel: PatchKernel  # its base is a function of inner products

    def measure(self, image: Tensor) -> TileCosts:
        """Return the bytes that images like this one (1, c, h, w) need."""
        costs = measured(self, self.kernel, image, maps_of_a_position=1)
        # One row of a tile has a graph at a time: a tile of one pair needs most.
        return replace(costs, worker_bytes=costs.pair_bytes * GRAPHS)

    def prepare(self, images: Tensor) -> Prepared:
        """Cut and prepare all patches of images (n, c, h, w)."""
        return self.kernel.prepare(images)

    def cross(self, one: Prepared, two: Prepared) -> Tensor:
        """Return covariances and derivatives (n1, n2, 1 + p) of a tile."""
        return self._rows(one, two)

    def gram(self, one: Prepared) -> Tensor:
        """Return covariances and derivatives (n, n, 1 + p) of a diagonal tile."""
        return self._rows(one, one)

    def diag(self, one: Prepared) -> Tensor:
        """Return prior variances and derivatives (n, 1 + p)."""
        return self._rows(one, None).squeeze(1)

    def _rows(self, one: Prepared, two: Prepared | None) -> Tensor:
        """Return the columns of all pairs; of each image with itself without others."""
        n_others = 1 if two is None else halves(two)[1].shape[-1]
        with ordinary_torch():
            factors = self._factors(one)
            kernel, copies = self._with_copies(factors.shape[-1] * n_others, factors)
            rows = [
                self._columns(kernel.row(*pair, factors), copies)
                for pair in rows_of(one, two)
            ]
        return torch.stack(rows)

    def _factors(self, one: Prepared) -> Tensor:
        """Return the factors of pairs (q, g, m, m), and their derivatives, if any."""
        shape, like = shape_and_type(one)
        factors = self.kernel.factors(shape, like)
        lengths = [free.value for free in _free(self.kernel) if free.name == LENGTH]
        distances2 = self.kernel.squared_distances(shape, like)
        slopes = [factors * (distances2 / plain_value(s) ** 2) for s in lengths]
        return torch.stack([factors, *slopes])

    def _with_copies(self, size: int, like: Tensor) -> tuple[PatchKernel, Copies]:
        """Return the kernel with copies (size,) of the hyperparameters of its base."""
        free = [one for one in _free(self.kernel) if one.name != LENGTH]
        copies = {
            one.name: like.new_full((size,), plain_value(one.value)).requires_grad_()
            for one in free
        }
        kernel = copy.deepcopy(self.kernel)
        assign_hyperparameters(kernel, free, list(copies.values()))
        return kernel, copies

    def _columns(self, row: Tensor, copies: Copies) -> Tensor:
        """Return a row (n,), and its derivatives by logarithms: (n, 1 + p)."""
        value, *by_length = row.detach()
        found = dict.fromkeys([LENGTH], by_length[0]) if by_length else {}
        if copies:
            gradients = torch.autograd.grad(
                row[0].sum(), list(copies.values()), materialize_grads=True
            )
            for (name, copied), by_copy in zip(copies.items(), gradients, strict=True):
                by_log = (copied * by_copy).detach()
                found[name] = by_log.reshape(-1, len(value)).sum(0)
        columns = [found[free.name] for free in _free(self.kernel)]
        return torch.stack([value, *columns], dim=-1)


def patch_tangents(kernel: Kernel, image_shape: ImageShape) -> TileBackend | None:
    """Return the backend of derivatives of a kernel of patches, or of sums of them.

    None if there is no kernel of patches, or its base is no function of inner products.
    """
    if type(kernel) is PatchKernel and _is_of_inner_products(kernel.base_kernel):
        return PatchTangentBackend(kernel)
    if type(kernel) is Scale:
        inner = patch_tangents(kernel.kernel, image_shape)
        factor = plain_value(kernel.factor)
        is_free = len(_free(kernel)) > len(_free(kernel.kernel))
        return inner and ScaledTangents(inner, factor, is_free)
    if type(kernel) is Sum:
        terms = [patch_tangents(term, image_shape) for term in kernel.parts]
        if any(term is not None for term in terms):
            pairs = zip(terms, kernel.parts, strict=True)
            return SumBackend(
                tuple(term or torch_tangents(k, image_shape) for term, k in pairs)
            )
    return None


def _is_of_inner_products(kernel: Kernel) -> bool:
    """Return whether all of a kernel is a function of inner products and numbers."""
    if type(kernel) is Scale:
        return _is_of_inner_products(kernel.kernel)
    if type(kernel) in (Sum, Product):
        return all(map(_is_of_inner_products, cast(Sum | Product, kernel).parts))
    has_tables = any(one.index is not None for one in kernel.hyperparameters)
    return type(kernel) in OF_INNER_PRODUCTS and not has_tables


def _free(kernel: Kernel) -> list[Hyperparameter]:
    return [one for one in kernel.hyperparameters if one.is_free]
