"""Cost of a pair: how often its maps are computed."""

import math

from skconvgp._typing import ImageShape
from skconvgp.kernels._base import Kernel
from skconvgp.kernels._displacements import stages_of
from skconvgp.kernels._keys import by_settings
from skconvgp.kernels._layer import Layer
from skconvgp.kernels._map_layer import inner_of
from skconvgp.kernels._segments import first_pool, leaves, n_layers

__all__ = ["n_passes"]


def n_passes(
    kernel: Kernel, image_shape: ImageShape, n_positions: int | None = None
) -> int:
    """Return how often maps of a pair are computed one after another, at least once.

    Each layer of a network computes its maps anew, and with pools it does so for each
    displacement in front of them. A map has `n_positions`, by default those of the
    image.
    """
    size = math.prod(image_shape[1:]) if n_positions is None else n_positions
    return max(1, _n_layer_pairs(kernel, image_shape) // size)


@by_settings
def _n_layer_pairs(kernel: Kernel, image_shape: ImageShape) -> int:
    """Return how many pairs of positions all layers of a kernel compute."""
    n_pairs, shape = kernel.n_position_pairs(image_shape), image_shape[1:]
    if isinstance(kernel, Layer):
        if first_pool(kernel, shape) is None:
            return n_pairs * n_layers(leaves(kernel, shape))
        return n_pairs * stages_of(kernel, shape).depth
    inner = [part for part in inner_of(kernel) if isinstance(part, Kernel)]
    n_once = sum(part.n_position_pairs(image_shape) for part in inner)
    if not n_once:
        return n_pairs
    # An average over flips computes the pairs of its kernel twice.
    return n_pairs * sum(_n_layer_pairs(part, image_shape) for part in inner) // n_once
