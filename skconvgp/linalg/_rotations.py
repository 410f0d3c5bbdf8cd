"""Random orthogonal directions."""

import math

import torch
from torch import Generator, Tensor

from skconvgp._tensors import normals

__all__ = ["random_frames"]


def random_frames(size: int, count: int, generator: Generator) -> Tensor:
    """Return unit columns (size, count), of which each `size` in a row are orthogonal.

    References
    ----------
    Mezzadri, "How to generate random matrices from the classical compact groups", 2007.
    """
    width = min(size, count)
    shape = (math.ceil(count / width), size, width)
    normal = normals(shape, generator)
    columns, triangle = torch.linalg.qr(normal)
    # Without the signs the distribution depends on the algorithm.
    signs = triangle.diagonal(dim1=1, dim2=2).sign()
    columns = columns * torch.where(signs == 0.0, 1.0, signs)[:, None, :]
    frames: Tensor = columns.permute(1, 0, 2).reshape(size, -1)[:, :count]
    return frames
