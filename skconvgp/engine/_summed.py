"""The sum of a kernel's Gram matrix and of a product of features."""

from dataclasses import dataclass

from torch import Tensor

from skconvgp.engine._evaluate import KernelOracle
from skconvgp.linalg import symmetrize_

__all__ = ["SummedOracle"]


@dataclass(frozen=True)
class SummedOracle:
    """The sum of a kernel's Gram matrix and of a completed Gram matrix.

    Parameters
    ----------
    oracle : KernelOracle
        Evaluates the kernel.
    scale : float
        Factor of its covariances.
    features : Tensor of shape (n, r)
        F: the completed matrix is F F^T.
    residual_diag : Tensor of shape (n,)
        Parts of the prior variances that F F^T leaves out.
    """

    oracle: KernelOracle
    scale: float
    features: Tensor
    residual_diag: Tensor

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
        return symmetrize_(gram.addmm_(self.features, self.features.mT))
