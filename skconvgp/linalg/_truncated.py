"""Leading eigenpairs and singular vectors, from a start that is nearly right."""

from typing import Protocol, cast

import torch
from torch import Generator, Tensor

from skconvgp._tensors import normals

__all__ = ["Symmetric", "leading_eigenpairs", "leading_right_vectors", "widened"]

SMALL = 500  # rows up to which the full decomposition is faster
SHARE = 0.2  # of all eigenpairs, from which on the full decomposition is faster, too


class Symmetric(Protocol):
    """A symmetric matrix that need not be stored."""

    def __matmul__(self, columns: Tensor, /) -> Tensor:
        """Return the product with a matrix (n, r)."""
        ...

    def dense(self) -> Tensor:
        """Return the whole matrix (n, n)."""
        ...


def leading_eigenpairs(
    matrix: Tensor | Symmetric, start: Tensor, max_rounds: int = 2, rtol: float = 1e-10
) -> tuple[Tensor, Tensor]:
    """Return the algebraically largest eigenvalues (r,) and their vectors (n, r).

    They descend. Each of at most `max_rounds` rounds takes the Ritz vectors in the span
    of the last ones and of their residuals, beginning with the orthonormal columns
    `start` (n, r). The rounds end once residuals are below the share `rtol` of the
    largest eigenvalue. The sum of the eigenvalues never falls below its value at the
    start.
    """
    n, rank = start.shape
    if n <= SMALL or rank >= SHARE * n:
        values, vectors = torch.linalg.eigh(
            matrix if isinstance(matrix, Tensor) else matrix.dense()
        )
        return values[-rank:].flip(0), vectors[:, -rank:].flip(1)
    basis, image = start, matrix @ start
    values, basis, image = _ritz(basis, image, rank)
    for _ in range(max_rounds):
        residual = image - basis * values
        norms = residual.square().sum(0).sqrt()
        if float(norms.max()) <= rtol * float(values.abs().max()):
            break
        # Scaled to length 1, so that QR does not lose the directions of small ones.
        residual = residual / norms.clamp(min=torch.finfo(norms.dtype).tiny)
        added = torch.linalg.qr(torch.cat([basis, residual], dim=1)).Q[:, rank:]
        both = torch.cat([basis, added], dim=1)
        values, basis, image = _ritz(
            both, torch.cat([image, matrix @ added], dim=1), rank
        )
    return values, basis


def _ritz(basis: Tensor, image: Tensor, rank: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the largest Ritz values of a basis (n, q), their vectors and images."""
    projected = basis.mT @ image
    values, rotation = torch.linalg.eigh((projected + projected.mT) / 2)
    rotation = rotation[:, -rank:].flip(1)
    return values[-rank:].flip(0), basis @ rotation, image @ rotation


def leading_right_vectors(matrix: Tensor, start: Tensor, n_rounds: int = 2) -> Tensor:
    """Return the top right singular vectors (n, r) of a matrix (n, n), not symmetric.

    They are in the order of their singular values. The orthonormal columns `start` (n,
    r) are multiplied `n_rounds` times by the matrix and its transpose.
    """
    n, rank = start.shape
    if n <= SMALL or rank >= SHARE * n:
        _, _, right = torch.linalg.svd(matrix)
        return cast(Tensor, right[:rank].mT)
    vectors = start
    for _ in range(n_rounds):
        vectors = torch.linalg.qr(matrix.mT @ (matrix @ vectors)).Q
    _, _, rotation = torch.linalg.svd(matrix @ vectors, full_matrices=False)
    return cast(Tensor, vectors @ rotation.mT)


def widened(columns: Tensor, rank: int, generator: Generator) -> Tensor:
    """Return orthonormal columns (n, rank): a basis of the given and of random ones."""
    n, known = columns.shape
    shape = (n, max(rank - known, 0))
    random = normals(shape, generator, columns.dtype)
    both = torch.cat([columns[:, :rank], random.to(columns.device)], dim=1)
    return cast(Tensor, torch.linalg.qr(both).Q)
