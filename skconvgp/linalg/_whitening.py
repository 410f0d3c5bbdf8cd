"""A root of the pseudo-inverse of a matrix, with derivatives."""

from typing import Any, cast

import torch
from torch import Tensor

from skconvgp.linalg._spectral import symmetric_eigen

__all__ = ["smooth_root", "triangular_root", "whitening_root"]

JITTER = 1e-6  # of the mean of the diagonal, which is added to it


def whitening_root(matrix: Tensor, cut: float) -> Tensor:
    """Return A (m, q): A A^T is the pseudo-inverse of a matrix (m, m).

    The matrix is symmetric and positive semi-definite. Eigenvalues of at most the share
    `cut` of the largest one count as zeros. The derivatives of A are right for a
    function that depends on A by A A^T alone. They exist where eigenvalues are equal,
    as those of eigenvectors do not.
    """
    return cast(Tensor, _WhiteningRoot.apply(matrix, cut))  # type: ignore[no-untyped-call]


def smooth_root(matrix: Tensor) -> Tensor:
    """Return a lower triangular A (m, m): A A^T is nearly the inverse of a matrix.

    The diagonal of A is positive. A follows the matrix (m, m), which is symmetric and
    positive semi-definite, without steps, so that what has been learned of products
    with A holds after a small change. A multiple of the identity is added to the matrix
    before.
    """
    shift = JITTER * matrix.diagonal().mean()
    identity = torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)
    # A^-T from the last row and column on is the factor of a matrix that is turned.
    factor = torch.linalg.cholesky((matrix + shift * identity).flip(0, 1))
    inverse: Tensor = torch.linalg.solve_triangular(factor, identity, upper=False)
    return inverse.mT.flip(0, 1)


def triangular_root(root: Tensor) -> Tensor:
    """Return A (m, q) of the same A A^T as a root, with zeros above its diagonal.

    The diagonal of A is not negative.
    """
    upper: Tensor = torch.linalg.qr(root.mT, mode="r").R
    signs = torch.where(upper.diagonal() < 0.0, -1.0, 1.0).to(upper)
    return (signs[:, None] * upper).mT.contiguous()


class _WhiteningRoot(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: Tensor, cut: float) -> Tensor:
        values, vectors = symmetric_eigen(matrix)
        ctx.n_zeros = int((values <= cut * values[-1]).sum())
        ctx.save_for_backward(values, vectors)
        return vectors[:, ctx.n_zeros :] / values[ctx.n_zeros :].sqrt()

    @staticmethod
    def backward(ctx: Any, by_root: Tensor) -> tuple[Tensor, None]:
        values, vectors = ctx.saved_tensors
        zeros, kept = values[: ctx.n_zeros], values[ctx.n_zeros :]
        # Derivatives by the pseudo-inverse, between all vectors and those kept: that by
        # A is twice their product with A.
        inner = vectors.mT @ by_root * (kept.sqrt() / 2.0)
        # Divided differences of the function that is 1 / x where x is kept, else 0.
        differences = torch.cat(
            [
                1.0 / (kept * (kept - zeros[:, None])),
                -1.0 / (kept[:, None] * kept),
            ]
        )
        inner = inner * differences
        inner[: ctx.n_zeros] *= 2.0  # they stand for their transposes, too
        by_matrix = vectors @ inner @ vectors[:, ctx.n_zeros :].mT
        return (by_matrix + by_matrix.mT) / 2.0, None
