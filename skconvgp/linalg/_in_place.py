"""A matrix and its Cholesky factor in one array of single precision.

The matrix is kept in one triangle and the factor in the other: docs/adr/solvers.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from scipy.linalg import lapack
from torch import Tensor

from skconvgp._threads import threads_for
from skconvgp.exceptions import NotPSDError
from skconvgp.linalg._cholesky import LEAST_PIVOT

__all__ = ["FactorInPlace", "SingleGram", "factor_in_place_", "row_values"]

# Numbers of a block of rows in double precision, at most; it is a sixteenth of the
# matrix, at most, too.
ROW_NUMBERS, ROW_BLOCKS = 2**23, 16
COLUMNS = 128  # right-hand sides in single precision, at once


@dataclass(frozen=True)
class SingleGram:
    """A Gram matrix in single precision, whose products are sums in double precision.

    A solver may overwrite the matrix.
    """

    matrix: Tensor  # (n, n), symmetric, in the order of rows

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return self.matrix.shape[0]

    def dense(self) -> Tensor:
        """Return the matrix (n, n)."""
        return self.matrix

    def given_away(self) -> Tensor:
        """Return the matrix (n, n), which is no longer needed here."""
        return self.matrix

    def diag(self) -> Tensor:
        """Return the diagonal (n,)."""
        return self.matrix.diagonal().to(torch.float64)

    def columns(self, indices: Tensor) -> Tensor:
        """Return the columns (n, b) at these indices."""
        return self.matrix[:, indices].to(torch.float64)

    def matmul(self, rhs: Tensor) -> Tensor:
        """Return the product with columns (n, k)."""
        product = torch.empty_like(rhs)
        for rows in _row_blocks(self.n_samples):
            with threads_for(self.n_samples * (rows.stop - rows.start) * rhs.shape[1]):
                product[rows] = self.matrix[rows].to(rhs.dtype) @ rhs
        return product


@dataclass(frozen=True)
class FactorInPlace:
    """A symmetric matrix K, and the factor of K + noise in the place of its triangle.

    Its array (n, n) has K below the diagonal, and on it and above it L^T with
    L L^T = K + diag(noise) up to rounding.
    """

    matrix: Tensor  # (n, n), single precision
    diagonal: Tensor  # (n,), of K
    noise: Tensor  # (n,), that is added to it

    def matmul(self, columns: Tensor) -> Tensor:
        """Return K + diag(noise) times columns (n, k), from its triangle.

        Products are added in double precision.
        """
        n, k = columns.shape
        double = columns.to(torch.float64)
        product = (self.diagonal + self.noise)[:, None] * double
        for rows in _row_blocks(n):
            left = self.matrix[rows, : rows.stop].to(torch.float64)
            left[:, rows.start :].tril_(-1)
            with threads_for(left.numel() * k):
                product[rows] += left @ double[: rows.stop]
                product[: rows.stop].addmm_(left.mT, double[rows])
        return product.to(columns.dtype)

    def half_solve(self, rhs: Tensor) -> Tensor:
        """Solve L x = rhs for right-hand sides (n, k), in single precision."""
        return self._solved(rhs, is_half=True)

    def near_solve(self, rhs: Tensor) -> Tensor:
        """Solve L L^T x = rhs for right-hand sides (n, k), in single precision."""
        return self._solved(rhs, is_half=False)

    def back_solve(self, rhs: Tensor) -> Tensor:
        """Solve L^T x = rhs for right-hand sides (n, k), in single precision."""
        return self._back(rhs.to(self.matrix.dtype)).to(rhs.dtype)

    def logdet(self) -> Tensor:
        """Return log |L L^T|, a sum in double precision."""
        return 2.0 * self.matrix.diagonal().to(torch.float64).log().sum()

    def _solved(self, rhs: Tensor, *, is_half: bool) -> Tensor:
        value = torch.empty_like(rhs)
        for start in range(0, rhs.shape[1], COLUMNS):
            part = slice(start, start + COLUMNS)
            single = rhs[:, part].to(self.matrix.dtype)
            with threads_for(len(rhs) * single.numel()):
                single = torch.linalg.solve_triangular(
                    self.matrix.mT, single, upper=False
                )
            value[:, part] = single if is_half else self._back(single)
        return value

    def _back(self, single: Tensor) -> Tensor:
        with threads_for(len(single) * single.numel()):
            solved: Tensor = torch.linalg.solve_triangular(
                self.matrix, single, upper=True
            )
        return solved


def factor_in_place_(matrix: Tensor, noise: Tensor) -> FactorInPlace:
    """Factor a matrix (n, n) plus diag(noise), in the place of one of its triangles.

    The matrix is symmetric, in single precision and in the order of rows. Raises a
    `ValueError` on a GPU, as LAPACK overwrites memory of the host. Raises a
    `NotPSDError`, and leaves it as it was, if it has no factor in this
    precision, or if a pivot is as small as a rounding error.
    """
    if matrix.device.type != "cpu":
        raise ValueError(
            "A factor in single precision in place is computed on the CPU: use "
            f"device='cpu', got {str(matrix.device)!r}, or another solver."
        )
    diagonal = matrix.diagonal().to(torch.float64, copy=True)
    scale = float(diagonal.mean())
    matrix.diagonal().add_(noise.to(matrix.dtype))
    # For LAPACK, whose arrays are in the order of columns, it is the lower triangle.
    by_columns = matrix.numpy().T
    factor, info = lapack.spotrf(by_columns, lower=1, clean=0, overwrite_a=1)
    pivot = float(matrix.diagonal().min())
    least = LEAST_PIVOT * torch.finfo(matrix.dtype).eps * scale
    is_factor = info == 0 and bool(matrix.diagonal().isfinite().all())
    if is_factor and pivot**2 > least and factor is by_columns:
        return FactorInPlace(matrix, diagonal, noise)
    _mirror_(matrix)
    matrix.diagonal().copy_(diagonal)
    raise NotPSDError(
        "The Gram matrix with its noise has no Cholesky factor in single precision: "
        "raise `noise_variance`, or fit in double precision."
    )


def row_values(n: int) -> int:
    """Return how many numbers in double precision a product holds at once."""
    return 2 * n * len(range(n)[_row_blocks(n)[0]])


def _row_blocks(n: int) -> list[slice]:
    """Return blocks of rows that are read in double precision at once."""
    height = max(1, min(-(-n // ROW_BLOCKS), ROW_NUMBERS // n))
    return [slice(start, min(start + height, n)) for start in range(0, n, height)]


def _mirror_(matrix: Tensor) -> None:
    """Overwrite what is above the diagonal by what is below it."""
    for rows in _row_blocks(len(matrix)):
        matrix[rows, rows.stop :] = matrix[rows.stop :, rows].mT
        block = matrix[rows, rows]
        block.copy_(block.tril() + block.tril(-1).mT)
