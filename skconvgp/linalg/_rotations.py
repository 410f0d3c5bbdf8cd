"""Random orthogonal directions."""

import torch
from torch import Generator, Tensor

__all__ = ["random_frame"]


def random_frame(size: int, count: int, generator: Generator) -> Tensor:
    """Return orthonormal columns (size, count) in directions that are all as likely.

    Parameters
    ----------
    size : int
        Length of a column.
    count : int
        Number of columns, at most `size`.
    generator : torch.Generator
        Source of randomness.

    References
    ----------
    Mezzadri, "How to generate random matrices from the classical compact groups", 2007.
    """
    normal = torch.randn(size, count, generator=generator, dtype=torch.float64)
    columns, triangle = torch.linalg.qr(normal)
    # Without the signs the distribution depends on the algorithm.
    signs = triangle.diagonal().sign()
    frame: Tensor = columns * torch.where(signs == 0.0, 1.0, signs)
    return frame
