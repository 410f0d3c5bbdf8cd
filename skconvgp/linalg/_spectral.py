"""Eigendecomposition of symmetric matrices."""

import torch
from torch import Tensor

from skconvgp._threads import threads_for
from skconvgp.exceptions import NotFiniteError

__all__ = ["eigen_with_rounding", "symmetric_eigen", "without_rounding"]

MARGIN = 10.0  # of the bound for the rounding errors of eigenvalues


def symmetric_eigen(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Return eigenvalues (n,), ascending and not negative, and eigenvectors (n, n).

    For matrices (b, n, n) the eigenvalues are (b, n). Eigenvalues of a positive
    semi-definite matrix that rounding made negative are set to zero. Raises a
    `NotFiniteError` if the matrix has numbers that are not finite.
    """
    values, vectors = _eigen(matrix)
    return values.clamp(min=0.0), vectors


def eigen_with_rounding(matrix: Tensor) -> tuple[Tensor, Tensor, float]:
    """Return `symmetric_eigen` of a matrix (n, n) and the rounding error of its values.

    The error is a unit in the last place of the largest eigenvalue or, if larger, the
    size of the most negative one.
    """
    values, vectors = _eigen(matrix)
    unit = torch.finfo(values.dtype).eps * float(values[-1])
    return values.clamp(min=0.0), vectors, max(-float(values[0]), unit)


def _eigen(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Return eigenvalues and eigenvectors; raise if there are none."""
    if not bool(matrix.sum().isfinite() or matrix.isfinite().all()):
        raise NotFiniteError(
            f"A matrix of shape {tuple(matrix.shape)!r} has numbers that are not "
            "finite: scale X to numbers near 1."
        )
    with threads_for(matrix.shape[-1] * matrix.numel()):
        values, vectors = torch.linalg.eigh(matrix)
    return values, vectors


def without_rounding(values: Tensor) -> Tensor:
    """Return ascending eigenvalues (n,), zero where rounding may have made them."""
    unit = torch.finfo(values.dtype).eps * float(values[-1])
    return torch.where(values > MARGIN * len(values) * unit, values, 0.0)
