"""DenseGram: a matrix in memory as an operator."""

from dataclasses import dataclass

from torch import Tensor

from skconvgp._threads import threads_for

__all__ = ["DenseGram"]


@dataclass(frozen=True)
class DenseGram:
    """A Gram matrix held in memory."""

    matrix: Tensor  # (n, n), symmetric

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return self.matrix.shape[0]

    def dense(self) -> Tensor:
        """Return the matrix (n, n)."""
        return self.matrix

    def diag(self) -> Tensor:
        """Return the diagonal (n,)."""
        return self.matrix.diagonal()

    def columns(self, indices: Tensor) -> Tensor:
        """Return the columns (n, b) at these indices."""
        return self.matrix[:, indices]

    def matmul(self, rhs: Tensor) -> Tensor:
        """Return the product with columns (n, k)."""
        with threads_for(self.n_samples * rhs.numel()):
            return self.matrix @ rhs
