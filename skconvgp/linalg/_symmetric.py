"""Makes a matrix symmetric in its memory."""

from torch import Tensor

__all__ = ["symmetrize_"]

SYMMETRIZE_BLOCK = 256  # rows that are copied at once


def symmetrize_(matrix: Tensor) -> Tensor:
    """Replace a matrix (n, n) by the mean of it and its transpose; return it."""
    n = matrix.shape[0]
    for start in range(0, n, SYMMETRIZE_BLOCK):
        stop = min(start + SYMMETRIZE_BLOCK, n)
        upper, lower = matrix[start:stop, start:], matrix[start:, start:stop]
        mean = (upper + lower.mT).mul_(0.5)
        upper.copy_(mean)
        lower.copy_(mean.mT)
    return matrix
