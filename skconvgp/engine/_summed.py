"""A Gram matrix and a product of features, asked as one matrix."""

from dataclasses import dataclass

from torch import Tensor

from skconvgp.engine._evaluate import KernelOracle
from skconvgp.linalg import symmetrize_

__all__ = ["SummedOracle"]


@dataclass(frozen=True)
class SummedOracle:
    """The sum of a kernel's matrix and of one that was completed.

    Parameters
    ----------
    oracle : KernelOracle
        Evaluates the kernel.
    scale : float
        Factor of its covariances.
    features : Tensor of shape (n, r)
        F: the completed matrix is F F^T.
    rest : Tensor of shape (n,)
        What F leaves out of prior variances.
    """

    oracle: KernelOracle
    scale: float
    features: Tensor
    rest: Tensor

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return self.oracle.n_samples

    def diag(self) -> Tensor:
        """Return the prior variances (n,)."""
        return (
            self.scale * self.oracle.diag() + self.features.square().sum(1) + self.rest
        )

    def gram(self) -> Tensor:
        """Return the sum (n, n); what F leaves out is not in it."""
        gram = self.oracle.gram().mul_(self.scale)
        return symmetrize_(gram.addmm_(self.features, self.features.mT))
