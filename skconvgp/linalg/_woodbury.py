"""Low rank and a diagonal: inverse, determinant and a root by Woodbury's identity."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

__all__ = ["LowRankPlusDiagonal"]


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
        """Return the matrix of F (n, r) and d (n,), all > 0."""
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

    def logdet(self) -> Tensor:
        """Return log |P|."""
        return -2.0 * (self.scale.log().sum() + self.shrink.log().sum())

    def _shrink(self, columns: Tensor, shares: Tensor) -> Tensor:
        """Multiply what columns have of each vector by its share."""
        held = self.vectors.mT @ columns
        return columns - self.vectors @ ((1.0 - shares)[:, None] * held)
