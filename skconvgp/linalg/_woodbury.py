"""Low rank plus diagonal: inverse, determinant and a root by Woodbury's identity."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from skconvgp._tensors import int_range
from skconvgp._threads import threads_for
from skconvgp.exceptions import NotPSDError
from skconvgp.linalg._cholesky import back_solve, factor_with_jitter_, half_solve

__all__ = ["BoundedInverse", "LowRankPlusDiagonal"]

# A unit vector lies in a span if the square of its part outside is at most this.
WITHIN = 1e-10


@dataclass(frozen=True)
class LowRankPlusDiagonal:
    """A matrix P = F F^T + diag(d) = C C^T, stored so that its inverse is cheap.

    Notes
    -----
    The root is C = diag(d)^1/2 (I + U diag(s^2) U^T)^1/2, the second factor symmetric.
    """

    scale: Tensor  # (n,), 1 / sqrt(d)
    vectors: Tensor  # (n, r), left singular vectors U of diag(scale) F
    shrink: Tensor  # (r,), 1 / sqrt(1 + s^2) for its singular values s

    @classmethod
    def from_factor(cls, factor: Tensor, diagonal: Tensor) -> Self:
        """Return the matrix for F (n, r) and positive d (n,).

        Raises a `NotPSDError` if F is not finite.
        """
        if not bool(factor.isfinite().all()):
            raise NotPSDError("Some covariances in the low-rank factor are not finite.")
        scale = diagonal.rsqrt()
        with threads_for(factor.shape[1] * factor.numel()):
            basis, upper = torch.linalg.qr(factor * scale[:, None])
        rotation, sizes, _ = torch.linalg.svd(upper, full_matrices=False)
        return cls(scale, basis @ rotation, (1.0 + sizes.square()).rsqrt())

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

        M has the given diagonal (n,); P is near M, but F may leave a part of M out. In
        the span of U, the scaled matrix diag(scale) M diag(scale) is taken from P.
        Outside, it is a multiple of the identity that gives it the trace of M.
        """
        squares = self.scale.square()
        n_left = max(len(squares) - len(self.shrink), 1)
        within = (1.0 / self.shrink.square()).sum()
        outside = (squares @ diag - within).clamp(min=n_left) / n_left
        vectors = self.scale[:, None] * self.vectors
        shares = self.shrink.square() - 1.0 / outside
        return vectors * shares, vectors, squares / outside

    def logdet(self) -> Tensor:
        """Return log |P|."""
        return -2.0 * (self.scale.log().sum() + self.shrink.log().sum())

    def _shrink(self, columns: Tensor, shares: Tensor) -> Tensor:
        """Multiply the part of columns along each vector by its share."""
        with threads_for(self.vectors.shape[1] * columns.numel()):
            within = self.vectors.mT @ columns
            return columns - self.vectors @ ((1.0 - shares)[:, None] * within)


@dataclass(frozen=True)
class BoundedInverse:
    r"""A matrix bounded above by M^-1 in the Loewner order, from a few vectors.

    Notes
    -----
    With N = diag(scale) M diag(scale), A = U (U^T N U)^-1 U^T is the inverse in the
    span of U, and

    .. math:: N^{-1} = A + (I - N A)^T N^{-1} (I - N A).

    The columns of I - N A are orthogonal to U. On the space orthogonal to U, N^-1 is
    bounded below by the inverse of the part of N in that space, and this part has no
    eigenvalue above `ceiling`.
    """

    # (r, r), Cholesky factor of U^T N U, with the vectors U of a matrix near M.
    factor: Tensor
    residual: Tensor  # (n, r), N U - U U^T N U
    # At least the largest eigenvalue of C^-1 M C^-T, where C C^T is near M.
    ceiling: float

    @classmethod
    def from_products(
        cls, near: LowRankPlusDiagonal, matmul: Callable[[Tensor], Tensor]
    ) -> Self:
        """Return the bound from M times columns (n, r); its ceiling is still infinite.

        Raises a `NotPSDError` if M is not positive definite in the span of the vectors.
        """
        scale, vectors = near.scale[:, None], near.vectors
        image = matmul(scale * vectors).mul_(scale)
        projected = vectors.mT @ image
        projected = (projected + projected.mT) / 2
        # Jitter, if needed, raises the matrix: its inverse stays a lower bound.
        factor = factor_with_jitter_(projected, float(projected.diagonal().max()))
        return cls(factor, image.addmm_(vectors, projected, alpha=-1.0), math.inf)

    def half_solve(self, near: LowRankPlusDiagonal, rhs: Tensor) -> Tensor:
        """Return R (r + n, k), where rhs^T M^-1 rhs bounds R^T R from above."""
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
        r"""Return leave-one-out variances (k,) of samples, or numbers above them.

        They are the diagonal of M minus the part that `half_solve` explains after row
        and column of the sample are removed from M and U. A variance is at least 1 /
        (M^-1)_ii and at least the noise (k,) of its sample. `near` is the matrix with
        the vectors U, and `columns` (n, k) holds the columns of M at the indices (k,).

        Notes
        -----
        With :math:`B = A e_i`, :math:`f = e_i - N B`, :math:`g = (I - N A) N e_i` and
        entries :math:`\alpha = B_i, q = f_i, e = g_i`, the vectors without entry i
        leave the variance :math:`v = e / (\alpha e + q^2)`. The residual outside of
        their span is :math:`v (q g / e - f)`, of which entry i is left out.
        """
        rank = near.vectors.shape[1]
        each = int_range(len(indices), indices.device)
        unit = torch.zeros_like(columns)
        unit[indices, each] = 1.0 / near.scale[indices]
        half_unit = self._split(near, unit)
        half_image = self._split(near, columns * near.scale[indices])
        alpha = half_unit[:rank].square().sum(0)
        f, g = half_unit[rank:], half_image[rank:]
        q, e = f[indices, each], g[indices, each]
        # If e_i lies within the span, the span loses a dimension with the sample, and e
        # and q are rounding errors.
        is_within = 1.0 - near.vectors[indices].square().sum(1) <= WITHIN
        e, q = torch.where(is_within, 1.0, e), torch.where(is_within, 0.0, q)
        share = 1.0 / (alpha * e + q.square())
        residual = g * (q * share) - f * (e * share)
        residual[indices, each] = 0.0
        left = e * share - residual.square().sum(0) / self.ceiling
        return torch.maximum(left / near.scale[indices].square(), noise)

    def _split(self, near: LowRankPlusDiagonal, rhs: Tensor) -> Tensor:
        """Return the parts of a half solution within and outside of the span, stacked.

        With D = diag(scale) they are L^-1 U^T D rhs (r, k) and (I - N A) D rhs (n, k).
        """
        vectors = near.vectors
        rank = vectors.shape[1]
        half = rhs.new_empty(rank + len(rhs), rhs.shape[1])
        outside = torch.mul(near.scale[:, None], rhs, out=half[rank:])
        within = vectors.mT @ outside
        half[:rank] = half_solve(self.factor, within)
        outside.addmm_(vectors, within, alpha=-1.0)
        outside.addmm_(self.residual, back_solve(self.factor, half[:rank]), alpha=-1.0)
        return half
