r"""A linear mean whose coefficients have a flat prior, and are integrated out.

The formulas: docs/maths.rst, "Evidence and leave-one-out".

The model of one output is y ~ N(H b, a M) with b anywhere. H has m columns, the basis
functions at the samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from skconvgp.linalg import (
    cholesky_logdet,
    cholesky_solve,
    half_solve,
    shifted_cholesky_,
)

__all__ = ["FlatTrend"]


@dataclass(frozen=True)
class FlatTrend:
    """The posterior of the coefficients, for amplitude 1."""

    factor: Tensor  # (m, m), lower Cholesky factor of A = H^T M^-1 H
    coefficients: Tensor  # (m, k), posterior means

    @classmethod
    def of(cls, basis: Tensor, dual: Tensor, basis_dual: Tensor) -> FlatTrend:
        """Return the posterior, given H (n, m), M^-1 Y (n, k) and M^-1 H (n, m)."""
        precision = basis.mT @ basis_dual
        precision = 0.5 * (precision + precision.mT)
        no_shift = torch.zeros_like(precision[0])
        factor, _ = shifted_cholesky_(precision, no_shift)
        return cls(factor, cholesky_solve(factor, basis.mT @ dual))

    def explained(self) -> Tensor:
        """Return the part (k,) of <y, M^-1 y> that the mean explains, b^T A b."""
        return (self.factor.mT @ self.coefficients).square().sum(0)

    def evidence_change(self, amplitude: Tensor) -> Tensor:
        """Return what the log evidence (k,) of amplitudes (k,) has beside that without.

        The flat prior has density 1 in the coefficients.
        """
        m = len(self.factor)
        scale = m * (amplitude.log() + math.log(2.0 * math.pi))
        change = self.explained() / amplitude - cholesky_logdet(self.factor) + scale
        return 0.5 * change

    def half(self, residual: Tensor) -> Tensor:
        """Return S (m, b): S^T S is added to covariances at residuals (b, m)."""
        return half_solve(self.factor, residual.mT)

    def left_out(
        self, errors: Tensor, basis_errors: Tensor, var: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return errors (s, k) and variances (s,) of left-out targets with the mean.

        Those of targets, of basis functions (s, m) and the variances are without it.
        """
        share = self.half(basis_errors).square().sum(0) / var
        tiny = torch.finfo(share.dtype).eps
        kept = (1.0 - share).clamp(min=tiny)
        errors = errors - basis_errors @ self.coefficients
        return errors / kept[:, None], var / kept
