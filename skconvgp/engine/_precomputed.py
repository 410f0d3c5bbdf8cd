"""A precomputed matrix with the interface of a kernel's oracle."""

from dataclasses import dataclass

from torch import Tensor

from skconvgp._config import ComputeConfig
from skconvgp._tensors import int_range
from skconvgp.linalg import symmetrize_

__all__ = ["MatrixOracle"]


@dataclass(frozen=True)
class MatrixOracle:
    """Looks entries up in a precomputed Gram matrix."""

    matrix: Tensor  # (n, n), on the host
    config: ComputeConfig  # device and precision of the results

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return self.matrix.shape[0]

    def diag(self) -> Tensor:
        """Return the prior variances (n,)."""
        return self._copy(self.matrix.diagonal())

    def gram(self) -> Tensor:
        """Return the Gram matrix (n, n), a copy, exactly symmetric."""
        return symmetrize_(self._copy(self.matrix))

    def block(self, rows: Tensor | None, cols: Tensor | None) -> Tensor:
        """Return the covariances (n1, n2) of samples given by index; None is all.

        Each is the mean of an entry and of its mirror image, as in `gram`.
        """
        all_samples = int_range(self.n_samples)
        rows, cols = (all_samples if side is None else side for side in (rows, cols))
        upper = self.matrix[rows[:, None], cols]
        lower = self.matrix[cols[:, None], rows]
        return self._copy(upper.add_(lower.mT).mul_(0.5))

    def _copy(self, values: Tensor) -> Tensor:
        return values.to(self.config.device, self.config.solve_dtype, copy=True)
