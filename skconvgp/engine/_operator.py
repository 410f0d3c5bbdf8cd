"""A Gram matrix that is never held: covariances anew for each product."""

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from skconvgp.engine._evaluate import KernelOracle

__all__ = ["KernelGram"]


@dataclass(frozen=True)
class KernelGram:
    """The Gram matrix of an oracle as solvers see it, some rows at a time.

    A product evaluates all n (n + 1) / 2 covariances and holds no more of them than the
    memory budget of the oracle allows.

    Parameters
    ----------
    oracle : KernelOracle
        Evaluates covariances.
    scale : float, default=1.0
        What they are divided by.
    """

    oracle: KernelOracle
    scale: float = 1.0

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

    def columns(self, numbers: Tensor) -> Tensor:
        """Return columns (n, b) given by number."""
        return self.oracle.block(None, numbers) / self.scale

    def matmul(self, rhs: Tensor) -> Tensor:
        """Return the product with columns (n, k)."""
        return self.oracle.product(rhs / self.scale)

    @cached_property
    def _variances(self) -> Tensor:
        return self.oracle.diag()
