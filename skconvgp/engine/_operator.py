"""A Gram matrix that is never held: covariances anew for each product."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from skconvgp.engine._evaluate import KernelOracle
from skconvgp.engine._plan import slices, stream_rows

__all__ = ["KernelGram"]


@dataclass(frozen=True)
class KernelGram:
    """The Gram matrix of an oracle as solvers see it, some rows at a time.

    A product evaluates all n^2 covariances and holds no more of them than the memory
    budget of the oracle allows.

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
        n, config = self.n_samples, self.oracle.config
        n_rows = stream_rows(n, config.solve_dtype.itemsize, config.memory_budget)
        scaled, out = rhs / self.scale, torch.empty_like(rhs)
        covariances = self.oracle.stream(self.oracle.images, n_rows)
        for part, (rows, _) in zip(slices(n, n_rows), covariances, strict=True):
            # The variance of one image is exact; that of a pair i = i is rounded.
            rows.diagonal(part.start).copy_(self._variances[part])
            torch.matmul(rows, scaled, out=out[part])
        return out

    @cached_property
    def _variances(self) -> Tensor:
        return self.oracle.diag()
