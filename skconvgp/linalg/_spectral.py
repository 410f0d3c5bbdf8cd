"""Eigendecomposition of symmetric matrices."""

import torch
from torch import Tensor

__all__ = ["eigen_with_rounding", "symmetric_eigen"]


def symmetric_eigen(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Return eigenvalues (n,), ascending and not negative, and eigenvectors (n, n).

    Many matrices (b, n, n) have their eigenvalues in (b, n).

    Eigenvalues of a positive semi-definite matrix that rounding made negative
    are set to zero.
    """
    values, vectors = torch.linalg.eigh(matrix)
    return values.clamp(min=0.0), vectors


def eigen_with_rounding(matrix: Tensor) -> tuple[Tensor, Tensor, float]:
    """Return what `symmetric_eigen` does of (n, n), and how wrong rounding made values.

    That is at least a unit in the last place of the largest eigenvalue, and the size of
    the most negative one.
    """
    values, vectors = torch.linalg.eigh(matrix)
    unit = torch.finfo(values.dtype).eps * float(values[-1])
    return values.clamp(min=0.0), vectors, max(-float(values[0]), unit)
