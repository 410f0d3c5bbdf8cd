"""Whitened features of images as a function of tensors, differentiable by each of them.

The formulas: docs/maths.rst, "Patches".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeAlias, cast

import torch
from torch import Tensor

from skconvgp._tensors import int_range
from skconvgp._typing import ImageShape, Scalar
from skconvgp.backends import Responses
from skconvgp.kernels import PatchKernel
from skconvgp.kernels._patch_grid import PatchGrid
from skconvgp.linalg import whitening_root

CUT = 1e-6  # share of the largest eigenvalue that may be rounding error

# Returns A of A A^T, the inverse of a matrix or what takes its place.
Root: TypeAlias = Callable[[Tensor], Tensor]
usual_root: Root = partial(whitening_root, cut=CUT)


class Whitening(NamedTuple):
    """Linear map from responses at inducing patches to whitened features.

    Parameters
    ----------
    rows, columns : Tensor of shape (a, h'), (b, w')
        Whitened location kernels along the height, with the factor 1 / sqrt(P), and
        along the width.
    lift : Tensor of shape (m, q)
        Takes covariances with inducing patches to features.
    """

    rows: Tensor
    columns: Tensor
    lift: Tensor


def whitening(
    kernel: PatchKernel,
    image_shape: ImageShape,
    patches: Tensor,
    n_locations: tuple[int, int],
    root: Root = usual_root,
) -> Whitening:
    """Return the factors of inducing patches (m, c', ph, pw) at a grid of places.

    With the usual root, derivatives are right for what depends on the features by their
    products alone.
    """
    grid = kernel.grid(image_shape)
    prepared = kernel.base_kernel.prepare(patches)
    lift = root(kernel.base_kernel.cross(prepared, prepared))
    rows, columns = (
        _whitened_axis(kernel, places, positions, root)
        for places, positions in zip(
            place_grid(grid, n_locations), grid.positions(), strict=True
        )
    )
    return Whitening(rows / math.sqrt(grid.n_patches), columns, lift)


def place_grid(grid: PatchGrid, n_locations: tuple[int, int]) -> list[Tensor]:
    """Return the places along the height and along the width, in pixels."""
    return [
        ((int_range(n).to(torch.float64) + 0.5) * (size / n) - 0.5) * grid.stride
        for size, n in zip(grid.shape, n_locations, strict=True)
    ]


def whitened_features(
    kernel: PatchKernel,
    responses: Responses,
    factors: Whitening,
    *versions: Tensor,
) -> Tensor:
    """Return features (n, r) of images (n, c, h, w), in the precision of the lift.

    Features of several versions of the images, such as their flips, are averaged. The
    lift is linear: it is applied to the mean alone. Products of matrices in single
    precision depend on how many images there are.
    """
    mean = mean_pooled(kernel, responses, factors, *versions)
    return (mean @ factors.lift).flatten(1)


def mean_pooled(
    kernel: PatchKernel,
    responses: Responses,
    factors: Whitening,
    *versions: Tensor,
) -> Tensor:
    """Return the mean over versions of images of their sums (n, g, a, b, m).

    The sums are over the patches of an image, at whitened places, in the precision of
    the lift.
    """
    first, *others = (
        _pooled(kernel, responses, factors, images).to(factors.lift)
        for images in versions
    )
    return sum(others, first) / len(versions) if others else first


def _pooled(
    kernel: PatchKernel, responses: Responses, factors: Whitening, images: Tensor
) -> Tensor:
    """Return sums (n, g, a, b, m) over the patches of images, at whitened places."""
    patches, weights = patches_of(kernel, images)
    parts = [
        responses.pooled(
            patches[:, group], weights[group], factors.rows, factors.columns
        )
        for group in range(patches.shape[1])
    ]
    return torch.stack(parts, 1)


def patches_of(kernel: PatchKernel, images: Tensor) -> tuple[Tensor, Tensor]:
    """Return patches (n, g, h', w', d) of images, and weights (g, h', w')."""
    grid = kernel.grid(cast(ImageShape, tuple(images.shape[1:])))
    shape = (grid.n_stacked * grid.shape[0], grid.shape[1])
    patches = kernel.normalized_patches(images).flatten(3)
    weights = kernel.weights_like(grid, images)
    n, n_groups, _, size = patches.shape
    return patches.reshape(n, n_groups, *shape, size), weights.reshape(-1, *shape)


def _whitened_axis(
    kernel: PatchKernel, places: Tensor, positions: Tensor, root: Root
) -> Tensor:
    """Return whitened covariances (a, m) of places with positions along a side."""
    length = kernel.location_lengthscale
    if length is None:
        return torch.ones(1, len(positions), dtype=torch.float64, device="cpu")
    cross, among = (
        torch.exp(-((places[:, None] - others) / cast(Scalar, length)).square() / 2)
        for others in (positions, places)
    )
    return root(among).mT @ cross
