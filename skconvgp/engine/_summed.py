"""The sum of a kernel's Gram matrix and of a product of features."""

from dataclasses import dataclass

from torch import Tensor

from skconvgp._threads import threads_for
from skconvgp.engine._evaluate import KernelOracle
from skconvgp.linalg import symmetrize_

__all__ = ["SummedOracle"]


@dataclass(frozen=True)
class SummedOracle:
    """The sum of a kernel's Gram matrix and of a completed Gram matrix."""

    oracle: KernelOracle
    scale: float  # factor of the kernel's covariances
    features: Tensor  # F (n, r): the completed matrix is F F^T
    residual_diag: Tensor  # (n,), parts of the prior variances that F F^T leaves out

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return self.oracle.n_samples

    def diag(self) -> Tensor:
        """Return the prior variances (n,)."""
        explained = self.scale * self.oracle.diag() + self.features.square().sum(1)
        return explained + self.residual_diag

    def gram(self) -> Tensor:
        """Return the sum (n, n), without the variances that F F^T leaves out."""
        gram = self.oracle.gram().mul_(self.scale)
        with threads_for(len(gram) * self.features.numel()):
            return symmetrize_(gram.addmm_(self.features, self.features.mT))
