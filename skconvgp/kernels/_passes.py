"""How often the maps of a pair are computed, which is what a pair takes."""

import math
from typing import Any

from skconvgp._typing import ImageShape
from skconvgp.kernels._base import Kernel
from skconvgp.kernels._displacements import stages_of
from skconvgp.kernels._layer import Layer
from skconvgp.kernels._segments import first_pool, leaves, n_layers

__all__ = ["n_passes"]


def n_passes(
    kernel: Kernel, image_shape: ImageShape, n_positions: int | None = None
) -> int:
    """Return how often maps of a pair are computed one after another, at least once.

    Each layer of a network computes its maps anew, and with pools it does so for each
    displacement in front of them.

    Parameters
    ----------
    kernel : Kernel
        The covariance function.
    image_shape : (c, h, w)
        Shape of the images.
    n_positions : int, optional
        Positions of a map; by default those of the image.
    """
    size = math.prod(image_shape[1:]) if n_positions is None else n_positions
    n_pairs = kernel.n_position_pairs(image_shape)
    return max(1, n_pairs * _depth(kernel, image_shape) // size)


def _depth(kernel: Any, image_shape: ImageShape) -> int:
    """Return how many layers a pair of positions passes in the deepest network."""
    if not isinstance(kernel, Layer):
        inner = [*getattr(kernel, "parts", ()), getattr(kernel, "kernel", None)]
        return max((_depth(part, image_shape) for part in inner if part), default=1)
    shape = image_shape[1:]
    if first_pool(kernel, shape) is None:
        return n_layers(leaves(kernel, shape))
    return stages_of(kernel, shape).depth
