"""LinearTrend: a linear function of the features, as basis functions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from skconvgp._typing import FloatArray
from skconvgp.engine import rows_to_tensor, to_numpy
from skconvgp.linalg import cholesky_solve, shifted_cholesky_, symmetric_eigen

# Variances of directions of standardised features, as shares of the largest: smaller
# ones are rounding errors of features that depend on others.
LEAST_SHARE = 1e-10
LEAST_SPREAD = 1e-12  # of a feature, as a share of its size


@dataclass(frozen=True)
class LinearTrend:
    """A constant and the directions in which training inputs differ.

    Features that do not change, or depend linearly on others, add none.
    """

    centre: FloatArray = field(repr=False)  # (d,), of the features
    directions: FloatArray = field(repr=False)  # (d, m - 1)
    # Logarithm of the determinant that takes coefficients of these to those of features
    # (of their orthogonal directions, if features depend on each other).
    log_det: float
    # (m, k), coefficients of least squares, in units of the scaled targets.
    coefficients: FloatArray = field(repr=False)

    @classmethod
    def of(cls, rows: NDArray[Any], targets: FloatArray, weights: FloatArray) -> Self:
        """Return the basis functions of rows (n, d), fitted to targets (n, k)."""
        x = np.asarray(rows, dtype=np.float64)
        centre, spread = x.mean(0), x.std(0)
        differs = spread > LEAST_SPREAD * np.abs(x).max(0, initial=0.0)
        scale = np.where(differs, spread, 1.0)
        standard = np.where(differs, (x - centre) / scale, 0.0)
        values, vectors = symmetric_eigen(
            rows_to_tensor(standard.T @ standard / len(x))
        )
        kept = values > LEAST_SHARE * max(float(values.max()), LEAST_SHARE)
        values, vectors = values[kept], vectors[:, kept]
        directions = to_numpy(vectors / values.sqrt()) / scale[:, None]
        directions[~differs] = 0.0
        log_det = 0.5 * float(values.log().sum()) + float(np.log(scale).sum())
        found = cls(centre, directions, log_det, np.empty((0, targets.shape[1])))
        h = rows_to_tensor(found.values(x))
        weighed = h * rows_to_tensor(weights)[:, None]
        gram = h.mT @ weighed
        factor, _ = shifted_cholesky_(gram, torch.zeros_like(gram[0]))
        coefficients = cholesky_solve(factor, weighed.mT @ rows_to_tensor(targets))
        return replace(found, coefficients=to_numpy(coefficients))

    @property
    def n_functions(self) -> int:
        """Number m of basis functions."""
        return int(self.directions.shape[1]) + 1

    def values(self, rows: NDArray[Any]) -> FloatArray:
        """Return the basis functions (n, m) at rows (n, d)."""
        x = np.asarray(rows, dtype=np.float64) - self.centre
        return np.column_stack([np.ones(len(x)), x @ self.directions])

    def fitted(self, rows: NDArray[Any]) -> FloatArray:
        """Return the least squares fit (n, k) at rows (n, d)."""
        fitted: FloatArray = self.values(rows) @ self.coefficients
        return fitted
