"""LandmarkFeatures: the features of a completed matrix, for new samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from skconvgp._protocols import CompletedGram
from skconvgp._typing import FloatArray
from skconvgp.engine import to_numpy
from skconvgp.processes._run import Run
from skconvgp.processes.basis._basis import NewRows
from skconvgp.processes.basis._plain import KernelBasis


@dataclass(frozen=True)
class LandmarkFeatures:
    """Features of samples by their covariances with landmarks.

    Parameters
    ----------
    exact : KernelBasis
        The kernel, with the landmarks as its samples.
    lift_map : ndarray of shape (m, r)
        Takes covariances with the landmarks to features.
    """

    exact: KernelBasis
    lift_map: FloatArray

    @classmethod
    def of(cls, completed: CompletedGram, basis: KernelBasis) -> LandmarkFeatures:
        """Return the features of a completed matrix of the samples of a basis."""
        landmarks = basis.take(to_numpy(completed.anchors))
        return cls(landmarks, to_numpy(completed.lift_map))

    @property
    def n_samples(self) -> int:
        """Number of features."""
        return int(self.lift_map.shape[1])

    def blocks(self, rows: NDArray[Any], run: Run) -> Iterator[Tensor]:
        """Yield features (b, r) of samples (n, d), a block of rows at a time."""
        lift_map = run.tensor(self.lift_map)
        width = sum(self.lift_map.shape)  # covariances and features of a sample
        new = NewRows(rows)
        for cross, _ in self.exact.stream(new, run, width, needs_diag=False):
            yield cross @ lift_map
