"""The neural tangent kernel of a network, along with its covariances.

The formulas: docs/maths.rst, "Neural tangent kernel".
"""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from skconvgp._typing import MapShape
from skconvgp.kernels._map_layer import NNGP, NTK, Maps
from skconvgp.kernels._segments import is_pool, leaves

__all__ = ["require_kind", "same_images", "started"]


def started(maps: Maps, kind: str, is_same: Tensor | None = None) -> Maps:
    """Return the maps of the input, which has nothing that is trained."""
    if kind == NNGP:
        return maps
    return replace(maps, ntk=torch.zeros_like(maps.nngp), is_same=is_same)


def same_images(one: Tensor, two: Tensor) -> Tensor | None:
    """Return which images are equal, (n1, n2), for pixels (h, w, c, n1 and n2)."""
    n_images = one.shape[-1], two.shape[-1]
    flat = torch.cat([one.detach().flatten(0, 2), two.detach().flatten(0, 2)], 1)
    if 0 in n_images:
        return None
    codes = torch.unique(flat, dim=1, return_inverse=True)[1].split(n_images)
    is_same = codes[0][:, None] == codes[1]
    return is_same if bool(is_same.any()) else None


def require_kind(network: Any, shape: MapShape) -> None:
    """Raise unless all layers on images of a size have the kernel that is wanted."""
    if network.kind not in (NNGP, NTK):
        raise ValueError(f"`kind` must be 'nngp' or 'ntk', got {network.kind!r}.")
    if network.kind == NNGP:
        return
    for layer, size in leaves(network, shape):
        if is_pool(layer, size):
            continue
        ones = torch.ones(*size, 1, dtype=torch.float64, device="cpu")
        trace = layer.image_pass(ones)[1]
        maps = Maps(ones[..., None], ntk=ones[..., None])
        if layer.pair_pass(maps, trace, trace).ntk is None:
            raise ValueError(
                f"{layer!r} has no neural tangent kernel: take kind='nngp', or give "
                "its class the method `derivative(c, a, b)` if it is an `Activation`, "
                "the derivative of `expectation` by `c`. Other layers must return "
                "`ntk` of their `Maps`."
            )
