"""Low rank and a diagonal: inverse, determinant and a root by Woodbury's identity."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from skconvgp.exceptions import NotPSDError
from skconvgp.linalg._cholesky import back_solve, factor_with_jitter_, half_solve

__all__ = ["BoundedInverse", "LowRankPlusDiagonal"]

# Share of a unit vector outside of the span of others that is rounding.
WITHIN = 1e-10


@dataclass(frozen=True)
class LowRankPlusDiagonal:
    """A matrix P = F F^T + diag(d) = C C^T, by what its inverse needs.

    Parameters
    ----------
    scale : Tensor of shape (n,)
        1 / sqrt(d).
    vectors : Tensor of shape (n, r)
        Left singular vectors U of diag(scale) F.
    shrink : Tensor of shape (r,)
        1 / sqrt(1 + s^2) for its singular values s.

    Notes
    -----
    The root is C = diag(d)^1/2 (I + U diag(s^2) U^T)^1/2, the second factor symmetric.
    """

    scale: Tensor
    vectors: Tensor
    shrink: Tensor

    @classmethod
    def from_factor(cls, factor: Tensor, diagonal: Tensor) -> Self:
        """Return the matrix of F (n, r) and d (n,), all > 0.

        Raises
        ------
        NotPSDError
            If F is not finite.
        """
        if not bool(factor.isfinite().all()):
            raise NotPSDError("Some covariances with its columns are not finite.")
        scale = diagonal.rsqrt()
        basis, mixed = torch.linalg.qr(factor * scale[:, None])
        turn, sizes, _ = torch.linalg.svd(mixed, full_matrices=False)
        return cls(scale, basis @ turn, (1.0 + sizes.square()).rsqrt())

    def solve(self, rhs: Tensor) -> Tensor:
        """Return P^-1 times columns (n, k)."""
        shrunk = self._shrink(self.scale[:, None] * rhs, self.shrink.square())
        return self.scale[:, None] * shrunk

    def whiten(self, rhs: Tensor) -> Tensor:
        """Return C^-1 times columns (n, k)."""
        return self._shrink(self.scale[:, None] * rhs, self.shrink)

    def whiten_transposed(self, rhs: Tensor) -> Tensor:
        """Return C^-T times columns (n, k)."""
        return self.scale[:, None] * self._shrink(rhs, self.shrink)

    def unwhiten(self, columns: Tensor) -> Tensor:
        """Return C times columns (n, k)."""
        return self._shrink(columns, 1.0 / self.shrink) / self.scale[:, None]

    def inverse_near(self, diag: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return A, B (n, r) and d (n,): A B^T + diag(d) is near the inverse of M.

        M has the diagonal given (n,), which P falls short of where F leaves something
        out. In the span of F the inverse is that of P; where F leaves all out, that of
        the part of M which is the same in all directions.
        """
        squares = self.scale.square()
        n_left = max(len(squares) - len(self.shrink), 1)
        held = (1.0 / self.shrink.square()).sum()
        outside = (squares @ diag - held).clamp(min=n_left) / n_left
        vectors = self.scale[:, None] * self.vectors
        shares = self.shrink.square() - 1.0 / outside
        return vectors * shares, vectors, squares / outside

    def logdet(self) -> Tensor:
        """Return log |P|."""
        return -2.0 * (self.scale.log().sum() + self.shrink.log().sum())

    def _shrink(self, columns: Tensor, shares: Tensor) -> Tensor:
        """Multiply what columns have of each vector by its share."""
        held = self.vectors.mT @ columns
        return columns - self.vectors @ ((1.0 - shares)[:, None] * held)


@dataclass(frozen=True)
class BoundedInverse:
    r"""A matrix that is nowhere above the inverse of M, from a few vectors.

    Parameters
    ----------
    factor : Tensor of shape (r, r)
        Cholesky factor of :math:`U^T N U`, with the vectors U of a matrix near M.
    rest : Tensor of shape (n, r)
        :math:`N U - U U^T N U`.
    ceiling : float
        At least the largest eigenvalue of C^-1 M C^-T, where C C^T is near M.

    Notes
    -----
    With N = diag(scale) M diag(scale), A = U (U^T N U)^-1 U^T is the inverse in the
    span of U, and

    .. math:: N^{-1} = A + (I - N A)^T N^{-1} (I - N A).

    The columns of I - N A are orthogonal to U. There N^-1 is no smaller than the
    inverse of what N is there, and that no larger than `ceiling`.
    """

    factor: Tensor
    rest: Tensor
    ceiling: float

    @classmethod
    def from_products(
        cls, near: LowRankPlusDiagonal, matmul: Callable[[Tensor], Tensor]
    ) -> Self:
        """Return it without a ceiling, from M times columns (n, r).

        Raises
        ------
        NotPSDError
            If M is not positive definite in the span of the vectors.
        """
        scale, vectors = near.scale[:, None], near.vectors
        image = matmul(scale * vectors).mul_(scale)
        small = vectors.mT @ image
        small = (small + small.mT) / 2
        # Where it has to be raised, the inverse is lower.
        factor = factor_with_jitter_(small, float(small.diagonal().max()))
        return cls(factor, image.addmm_(vectors, small, alpha=-1.0), math.inf)

    def half_solve(self, near: LowRankPlusDiagonal, rhs: Tensor) -> Tensor:
        """Return R (r + n, k) with R^T R nowhere above rhs^T M^-1 rhs."""
        half = self._split(near, rhs)
        half[near.vectors.shape[1] :] /= self.ceiling**0.5
        return half

    def left_out_variances(
        self,
        near: LowRankPlusDiagonal,
        columns: Tensor,
        indices: Tensor,
        noise: Tensor,
    ) -> Tensor:
        r"""Return variances of samples that all but themselves predict, or above them.

        Parameters
        ----------
        near : LowRankPlusDiagonal
            The matrix with the vectors.
        columns : Tensor of shape (n, k)
            Columns of M.
        numbers : Tensor of shape (k,)
            Their numbers.
        noise : Tensor of shape (k,)
            Their noise, below which no variance is.

        Returns
        -------
        variances : Tensor of shape (k,)
            The diagonal of M less what `half_solve` would take off it, if M and U had
            neither row nor column of the sample: at least 1 / (M^-1)_ii and the noise.

        Notes
        -----
        With :math:`B = A e_i`, :math:`f = e_i - N B`, :math:`g = (I - N A) N e_i` and
        entries :math:`\alpha = B_i, q = f_i, e = g_i`, the span of the vectors without
        entry i leaves :math:`v = e / (\alpha e + q^2)` and, outside of it,
        :math:`v (q g / e - f)`, whose entry i is not a residual.
        """
        rank = near.vectors.shape[1]
        each = torch.arange(len(indices), device=indices.device)
        unit = torch.zeros_like(columns)
        unit[indices, each] = 1.0 / near.scale[indices]
        own = self._split(near, unit)
        image = self._split(near, columns * near.scale[indices])
        alpha = own[:rank].square().sum(0)
        f, g = own[rank:], image[rank:]
        q, e = f[indices, each], g[indices, each]
        # A sample within the span takes a vector with it: e and q are rounding then.
        is_within = 1.0 - near.vectors[indices].square().sum(1) <= WITHIN
        e, q = torch.where(is_within, 1.0, e), torch.where(is_within, 0.0, q)
        share = 1.0 / (alpha * e + q.square())
        residual = g * (q * share) - f * (e * share)
        residual[indices, each] = 0.0
        left = e * share - residual.square().sum(0) / self.ceiling
        return torch.maximum(left / near.scale[indices].square(), noise)

    def _split(self, near: LowRankPlusDiagonal, rhs: Tensor) -> Tensor:
        """Return what a half solution has within the span (r, k), and the rest (n, k).

        These are L^-1 U^T D rhs and (I - N A) D rhs, with D = diag(scale).
        """
        vectors = near.vectors
        rank = vectors.shape[1]
        half = rhs.new_empty(rank + len(rhs), rhs.shape[1])
        outside = torch.mul(near.scale[:, None], rhs, out=half[rank:])
        held = vectors.mT @ outside
        half[:rank] = half_solve(self.factor, held)
        outside.addmm_(vectors, held, alpha=-1.0)
        outside.addmm_(self.rest, back_solve(self.factor, half[:rank]), alpha=-1.0)
        return half
