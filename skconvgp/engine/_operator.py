"""A Gram matrix that is never stored: each product computes the covariances anew."""

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from skconvgp.engine._evaluate import KernelOracle

__all__ = ["KernelGram"]


@dataclass(frozen=True)
class KernelGram:
    """The Gram matrix of an oracle as an operator for solvers.

    A product evaluates all n (n + 1) / 2 covariances, block by block, within the memory
    budget of the oracle.
    """

    oracle: KernelOracle
    scale: float = 1.0  # divisor of the covariances

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return self.oracle.n_samples

    def dense(self) -> Tensor:
        """Return the matrix (n, n)."""
        return self.oracle.gram() / self.scale

    def diag(self) -> Tensor:
        """Return the diagonal (n,)."""
        return self._variances / self.scale

    def columns(self, indices: Tensor) -> Tensor:
        """Return the columns (n, b) at these indices."""
        return self.oracle.block(None, indices) / self.scale

    def matmul(self, rhs: Tensor) -> Tensor:
        """Return the product with columns (n, k)."""
        return self.oracle.product(rhs / self.scale)

    @cached_property
    def _variances(self) -> Tensor:
        return self.oracle.diag()
