"""SummedBasis: a kernel of all pairs, plus the completed matrix of a second one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._config import ComputeConfig
from skconvgp._protocols import CompletedGram
from skconvgp._typing import FloatArray, Rows
from skconvgp.engine import (
    KernelOracle,
    SummedOracle,
    to_numpy,
)
from skconvgp.processes._run import Run
from skconvgp.processes.basis._basis import Basis, BasisReport, NewRows, Stream
from skconvgp.processes.basis._plain import KernelBasis, PlainBasis, coarsest


@dataclass(frozen=True)
class SummedBasis(Basis):
    """The sum of a kernel's matrix and of the completed one of a second kernel."""

    coarse: KernelBasis  # the kernel of all pairs
    exact: KernelBasis  # the kernel that is completed, with the anchors as its samples
    lift_map: FloatArray  # (m, r), takes covariances with the anchors to features
    features: FloatArray  # (n, r), features of the training samples
    # (n,), part of the prior variances that the features do not explain.
    residual_diag: FloatArray
    # Factors of the two kernels in the sum. `lift_map`, `features` and `residual_diag`
    # already contain `scale`.
    coarse_scale: float
    scale: float

    @classmethod
    def of(
        cls,
        coarse: KernelBasis,
        exact: KernelBasis,
        completed: CompletedGram,
        diag: Tensor,
        *,
        coarse_scale: float,
        scale: float,
    ) -> Self:
        """Return the sum with a completed matrix, whose factor is scaled in place."""
        features = completed.factor.mul_(math.sqrt(scale))
        residual_diag = (scale * diag - features.square().sum(1)).clamp(min=0.0)
        return cls(
            coarse,
            exact.take(to_numpy(completed.anchors)),
            to_numpy(completed.lift_map) * math.sqrt(scale),
            to_numpy(features),
            to_numpy(residual_diag),
            coarse_scale,
            scale,
        )

    @property
    def kernel_basis(self) -> KernelBasis:
        """The kernel of all pairs."""
        return self.coarse

    @property
    def compared(self) -> tuple[KernelBasis, ...]:
        """Both kernels."""
        return (self.coarse, self.exact)

    @property
    def kept_rows(self) -> NDArray[Any]:
        """The samples (n, d)."""
        return self.coarse.rows

    @property
    def kept_indices(self) -> NDArray[np.intp]:
        """Their indices among the samples that `fit` was given."""
        return self.coarse.indices

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return self.coarse.n_samples

    @property
    def tile_dtype(self) -> torch.dtype:
        """Precision of the coarse kernel's tiles."""
        return self.coarse.tile_dtype

    def precision(self, config: ComputeConfig) -> torch.dtype:
        """Return the coarsest precision that a Gram matrix has gone through."""
        return coarsest(self.coarse.precision(config), self.exact.precision(config))

    def oracle(self, run: Run, label: str) -> SummedOracle:
        """Return the oracle of the sum."""
        return self._summed(self.coarse.oracle(run, label), run)

    def cached_oracle(self, run: Run) -> SummedOracle:
        """Return its oracle for a `fit`, which keeps finished tiles."""
        return self._summed(self.coarse.cached_oracle(run), run)

    @property
    def left_out_diag(self) -> FloatArray:
        """Variances (n,) that the features leave out, which new samples have."""
        return self.residual_diag

    def report(self, run: Run) -> BasisReport:
        """Return the facts of the kernel of all pairs."""
        return self.coarse.report(run)

    def stream(
        self, new: NewRows, run: Run, width: int = 0, *, needs_diag: bool = True
    ) -> Stream:
        """Yield covariances with all training samples."""
        features = run.tensor(self.features)
        done = 0
        for cross, basis in self.coarse.stream(new, run, width, needs_diag=needs_diag):
            part = slice(done, done + len(cross))
            rows = new.rows[part]
            lifted, variances = self._lifted(rows, run, needs_diag=needs_diag)
            done = part.stop
            yield (
                torch.addmm(cross, lifted, features.mT, beta=self.coarse_scale),
                self.coarse_scale * basis + variances,
            )

    def covariance(self, rows: Rows, run: Run, unit: float) -> Tensor:
        """Return covariances (n1, n1) of new samples with each other, in a unit."""
        coarse = self.coarse.covariance(rows, run, unit)
        lifted, variances = self._lifted(rows, run)
        added = lifted @ lifted.mT
        added.diagonal().copy_(variances)
        return self.coarse_scale * coarse + added / unit

    def pull(self, rows: NDArray[Any], sums: FloatArray, run: Run) -> FloatArray:
        """Return the derivatives by new samples of sums over covariances."""
        gradient = self.coarse.pull(rows, sums, run)
        anchored = sums @ self.features @ self.lift_map.T
        return self.coarse_scale * gradient + self.exact.pull(rows, anchored, run)

    def _summed(self, oracle: KernelOracle, run: Run) -> SummedOracle:
        features, residual_diag = (
            run.tensor(self.features),
            run.tensor(self.residual_diag),
        )
        return SummedOracle(oracle, self.coarse_scale, features, residual_diag)

    def _lifted(
        self, rows: Rows, run: Run, *, needs_diag: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Return features (n1, r) of new samples, and their prior variances (n1,).

        Features may explain more than the prior variance; it is then raised to that.
        """
        lift_map = run.tensor(self.lift_map)
        new = NewRows(rows)
        stream = self.exact.stream(new, run.quiet(), needs_diag=needs_diag)
        blocks = [(cross @ lift_map, self.scale * basis) for cross, basis in stream]
        lifted, variances = map(torch.cat, zip(*blocks, strict=True))
        return lifted, torch.maximum(variances, lifted.square().sum(1))


GramBasis: TypeAlias = PlainBasis | SummedBasis
