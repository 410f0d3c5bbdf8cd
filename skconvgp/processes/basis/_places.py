"""Places of an image that a latent mean comes from, if it is a sum over positions.

The formulas: docs/maths.rst, "What a score comes from".
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import conv_transpose2d, pad

from skconvgp._typing import FloatArray
from skconvgp.backends import Responses
from skconvgp.engine import Placement, compute_at, slices, to_numpy, to_tensor
from skconvgp.kernels._flips import flip
from skconvgp.kernels._orbit_maps import returned, versions_of
from skconvgp.processes._run import Resources, Run
from skconvgp.processes.basis._folded import HELD, FoldedBasis, FoldedPatches
from skconvgp.processes.basis._inducing import InducingSet
from skconvgp.processes.basis._patch_features import patches_of
from skconvgp.processes.basis._plain import KernelBasis
from skconvgp.processes.basis._sight import Sight, seen_rows
from skconvgp.processes.basis._views import cell_of


def has_places(folded: FoldedBasis) -> bool:
    """Return whether means are sums over several positions, which pixels belong to."""
    return all(part.has_places for part in folded.parts)


def place_maps(
    folded: FoldedBasis,
    rows: NDArray[Any],
    outputs: NDArray[np.intp],
    resources: Resources,
) -> FloatArray:
    """Return maps (n, h, w) that add up to latent means, one output (n,) of each image.

    What a patch contributes is shared by its pixels.
    """
    shape = folded.images.image_shape
    maps = np.empty((len(rows), *shape[1:]))
    size = max(1, min(folded.at_once, HELD // math.prod(shape)))

    def maps_at(placement: Placement) -> FloatArray:
        run = resources.run(placement).quiet()
        for output in np.unique(outputs).tolist():
            own = np.flatnonzero(outputs == output)
            for block in slices(len(own), size):
                maps[own[block]] = _block(folded, rows[own[block]], output, run)
        return maps

    return compute_at(resources.placement(0), maps_at)


def _block(
    folded: FoldedBasis, rows: NDArray[Any], output: int, run: Run
) -> FloatArray:
    sight = Sight(folded.images.images(rows))
    parts: Any = folded.parts
    total = torch.stack([_of_part(part, sight, output, run) for part in parts]).sum(0)
    return to_numpy(_unpooled(folded.images, total, rows))


def _of_part(part: FoldedPatches, sight: Sight, output: int, run: Run) -> Tensor:
    """Return maps (n, h, w) of a part, on the host."""
    found: list[Tensor] = []
    for version in [sight, sight.flipped][: 1 + part.is_averaged]:
        rows, exact = to_numpy(seen_rows(part, version, run)), part.kernel_basis
        evaluate = partial(_of_terms, part.terms, output)
        maps = torch.cat(part.basis.in_tiles(evaluate, [rows], run)).to("cpu")
        maps = _unpooled(exact, maps, rows)
        size = version.images.shape[2:]
        maps = _on_pixels(maps, cell_of(part.view), (int(size[0]), int(size[1])))
        found.append(flip(maps) if found else maps)
    return torch.stack(found).mean(0)


def _of_terms(terms: Any, output: int, images: Tensor, *, backend: str) -> Tensor:
    """Return maps (n, h, w) of the terms of a kernel, of images as it sees them."""
    of_terms = [
        _of_term(term.inducing, term.weights[:, output], images, backend)
        for term in terms
    ]
    return torch.stack(of_terms).sum(0)


def _of_term(
    inducing: InducingSet, weights: FloatArray, images: Tensor, backend: str
) -> Tensor:
    """Return maps (n, h, w), given weights (s,) of sums of responses."""
    shape = len(inducing.rows), len(inducing.columns), len(inducing.patches)
    folded = np.ascontiguousarray(weights)
    factors = to_tensor(folded, images.device, torch.float64).reshape(-1, *shape)
    found: list[Tensor] = []
    for version in versions_of(images, inducing.maps):
        by_patch = torch.stack(
            list(_by_patch(inducing, factors, version, backend))
        ).sum(0)
        found.append(_on_patches(by_patch, inducing, images))
    return torch.stack(returned(found, inducing.maps)).mean(0)


def _by_patch(
    inducing: InducingSet, factors: Tensor, images: Tensor, backend: str
) -> Iterator[Tensor]:
    """Yield what patches contribute (n, h', w'), given factors (g, a, b, m)."""
    kernel, device = inducing.kernel, images.device
    patches, weights = patches_of(kernel, images)
    centres = to_tensor(inducing.patches, device, images.dtype)
    responses = Responses(kernel.base_kernel, centres, backend)
    rows = to_tensor(inducing.rows, device, torch.float64)
    columns = to_tensor(inducing.columns, device, torch.float64)
    grid = kernel.grid(inducing.image_shape)
    for group, own in enumerate(factors):
        at = weights[group].to(torch.float64)
        found = responses.by_position(patches[:, group], at, rows, columns, own)
        yield found.reshape(len(images), grid.n_stacked, *grid.shape).sum(1)


def _on_patches(by_patch: Tensor, inducing: InducingSet, images: Tensor) -> Tensor:
    """Return maps (n, h, w), where the pixels of a patch share its contribution."""
    grid, size = inducing.kernel.grid(inducing.image_shape), images.shape[2:]
    shares = by_patch.new_full((1, 1, *grid.size), 1.0 / math.prod(grid.size))
    spread = conv_transpose2d(by_patch[:, None], shares, stride=grid.stride)
    missing = [whole - seen for whole, seen in zip(size, spread.shape[2:], strict=True)]
    return pad(spread, (0, missing[1], 0, missing[0]))[:, 0]


def _on_pixels(maps: Tensor, cell: int, size: tuple[int, int]) -> Tensor:
    """Return maps (n, h, w), where the pixels of a cell share its contribution."""
    if cell == 1:
        return maps
    spread = maps.repeat_interleave(cell, 1).repeat_interleave(cell, 2) / cell**2
    missing = [whole - seen for whole, seen in zip(size, spread.shape[1:], strict=True)]
    return pad(spread, (0, missing[1], 0, missing[0]))


def _unpooled(basis: KernelBasis, maps: Tensor, rows: NDArray[Any]) -> Tensor:
    """Return maps (n, h, w) of whole images, given those of images of means."""
    if basis.pool == 1:
        return maps
    channels = basis.map_shape[0]
    of_channels = (maps / channels)[:, None].expand(-1, channels, -1, -1)
    return basis.unpooled(of_channels, rows).sum(1)
