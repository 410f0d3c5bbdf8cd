"""LandmarkParts: features of images, by their covariances with landmarks.

The formulas: docs/maths.rst, "Sums of parts".
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._threads import threads_for
from skconvgp._typing import FloatArray
from skconvgp.engine import slices, to_numpy, to_tensor
from skconvgp.linalg import half_solve, shifted_cholesky_
from skconvgp.processes._run import FEATURES, IMAGES, Run
from skconvgp.processes.basis._basis import Basis, NewRows

MANY_IMAGES = 5000  # whose features are multiplied in single precision
# Added to the diagonal of the matrix of landmarks, as a share of its mean: smaller
# eigenvalues are rounding errors of the covariances.
JITTER = {torch.float64: 1e-10, torch.float32: 1e-6}
STRIPS = 8  # of features: most products with zeros of a triangle are left out


def single(run: Run) -> Run:
    """Return the run in single precision."""
    return replace(run, config=replace(run.config, solve_dtype=torch.float32))


def lift_map_of(gram: Tensor, precision: torch.dtype) -> FloatArray:
    """Return L^-T, where L L^T is the matrix (m, m) of landmarks plus a jitter.

    The covariances have gone through a precision. The diagonal of the matrix is changed
    meanwhile.
    """
    jitter = JITTER[precision] * float(gram.diagonal().mean())
    factor, _ = shifted_cholesky_(gram, torch.full_like(gram.diagonal(), jitter))
    identity = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    return to_numpy(half_solve(factor, identity).mT)


@dataclass(frozen=True)
class LandmarkParts:
    """Features K_nm L^-T of n images, given the map L^-T of m landmarks.

    Their products are the covariances that landmarks explain. They are read block by
    block.
    """

    basis: Basis  # gives covariances with the landmarks
    lift_map: FloatArray  # (m, m), upper triangular, for a unit
    is_single: bool  # whether all covariances are in single precision

    @property
    def n_samples(self) -> int:
        """Number of features."""
        return len(self.lift_map)

    @property
    def tile_dtype(self) -> torch.dtype:
        """Precision of images that are kept."""
        return torch.float32 if self.is_single else torch.float64

    def in_units(self, unit: float) -> Self:
        """Return the features for a mean prior variance `unit`."""
        return replace(self, lift_map=self.lift_map / math.sqrt(unit))

    def variances(self, rows: NDArray[Any], run: Run) -> Tensor:
        """Return prior variances (n,) of images, for a unit of 1."""
        return self.basis.variances(rows, run)

    def features(self, rows: NDArray[Any], run: Run) -> Tensor:
        """Return features (n, m) of a block of images."""
        return torch.cat([block for _, block in self._blocks(rows, run.quiet())])

    def blocks(
        self, rows: NDArray[Any], run: Run, label: str
    ) -> Iterator[tuple[slice, Tensor]]:
        """Yield blocks of images with their features (b, m); `label` says for what.

        Those of many images are in single precision, if covariances are.
        """
        show = run.progress(FEATURES, unit=IMAGES, is_fit=label == "fit")
        show(0, len(rows))
        if len(rows) >= MANY_IMAGES and self.is_single:
            run = single(run)
        for part, block in self._blocks(rows, run.quiet()):
            yield part, block
            show(part.stop, len(rows))

    def _blocks(self, rows: NDArray[Any], run: Run) -> Iterator[tuple[slice, Tensor]]:
        """Yield blocks of images with their features, in the precision of solves."""
        config, done = run.config, 0
        lift_map = to_tensor(self.lift_map, config.device, config.solve_dtype)
        for cross, _ in self.basis.stream(NewRows(rows), run, needs_diag=False):
            part = slice(done, done + len(cross))
            yield part, _lifted(cross, lift_map)
            done = part.stop


def _lifted(cross: Tensor, lift_map: Tensor) -> Tensor:
    """Return the product of covariances (b, m) with an upper triangle (m, m).

    Its transpose is written, strip by strip of features: that is a third faster.
    """
    (b, m), strip = cross.shape, -(-len(lift_map) // STRIPS)
    features = cross.new_empty(m, b)
    with threads_for(b * m**2):
        for part in slices(m, strip):
            lifted = lift_map[: part.stop, part].mT, cross[:, : part.stop].mT
            torch.mm(*lifted, out=features[part])
    return features.mT
