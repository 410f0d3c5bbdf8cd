"""Eigendecomposition of symmetric matrices."""

import torch
from torch import Tensor

__all__ = ["symmetric_eigen"]


def symmetric_eigen(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Return eigenvalues (n,), ascending and not negative, and eigenvectors (n, n).

    Many matrices (b, n, n) have their eigenvalues in (b, n).

    Eigenvalues of a positive semi-definite matrix that rounding made negative
    are set to zero.
    """
    values, vectors = torch.linalg.eigh(matrix)
    return values.clamp(min=0.0), vectors
