"""Criteria of a kernel that is a product of features, with their derivatives.

The formulas: docs/maths.rst, "Patches".

With features F (n, r) and a noise v, M = F F^T + v I. Nothing of size (n, n) is formed:
B = F^T F + v I is factored, and M^-1 F = F B^-1. The amplitude is profiled out, and
values are means over targets: those of :class:`skconvgp.flows.Rho` for "evidence" and
"loo_nlpd".
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from skconvgp.linalg import back_solve, cholesky_logdet, half_solve, shifted_cholesky_

__all__ = ["FeatureScore", "feature_score"]


@dataclass(frozen=True)
class FeatureScore:
    """Value of a criterion, smaller is better, and its derivatives."""

    value: float
    by_features: Tensor  # (n, r), derivatives by the features
    by_noise: float  # derivative by the noise variance


@dataclass(frozen=True)
class _System:
    """Terms of M that both criteria need: see the module."""

    features: Tensor  # F (n, r)
    targets: Tensor  # Y (n, k)
    noise: float  # the noise variance v
    factor: Tensor  # (r, r), lower Cholesky factor of B
    solved: Tensor  # (n, r), M^-1 F
    dual: Tensor  # (n, k), M^-1 Y
    inverse_diag: Tensor  # (n,), diagonal of M^-1

    def solve(self, columns: Tensor) -> Tensor:
        """Return M^-1 times columns (n, k)."""
        return (columns - self.solved @ (self.features.mT @ columns)) / self.noise


def feature_score(
    features: Tensor, targets: Tensor, noise: float, criterion: str
) -> FeatureScore:
    """Return a criterion for targets (n, k) with the covariance F F^T plus a noise > 0.

    The features F are (n, r). The criterion is "evidence", the negative log evidence,
    or "loo", the negative leave-one-out log predictive density.
    """
    system = _system(features, targets, noise)
    return _evidence(system) if criterion == "evidence" else _left_out(system)


def _system(features: Tensor, targets: Tensor, noise: float) -> _System:
    shift = torch.full_like(features[0], noise)
    factor, _ = shifted_cholesky_(features.mT @ features, shift)
    half = half_solve(factor, features.mT)
    # By rounding, the share of a sample that its features explain may reach 1.
    left = (1.0 - half.square().sum(0)).clamp(min=torch.finfo(half.dtype).eps)
    solved = back_solve(factor, half).mT
    dual = (targets - solved @ (features.mT @ targets)) / noise
    return _System(features, targets, noise, factor, solved, dual, left / noise)


def _evidence(system: _System) -> FeatureScore:
    dual, noise, size = system.dual, system.noise, system.targets.numel()
    n, r = system.features.shape
    norm = (system.targets * dual).sum()
    logdet = cholesky_logdet(system.factor) + (n - r) * math.log(noise)
    value = 0.5 * (torch.log(2.0 * math.pi * norm / size) + 1.0) + logdet / (2 * n)
    coefficients = system.features.mT @ dual  # B^-1 F^T Y
    by_features = system.solved / n - dual @ coefficients.mT / norm
    by_noise = system.inverse_diag.sum() / (2 * n) - dual.square().sum() / (2 * norm)
    return FeatureScore(float(value), by_features, float(by_noise))


def _left_out(system: _System) -> FeatureScore:
    dual, diag, solved = system.dual, system.inverse_diag, system.solved
    noise, size, n = system.noise, system.targets.numel(), len(system.features)
    squares = dual.square().sum(1)
    spread = (squares / diag).sum()
    value = 0.5 * (torch.log(2.0 * math.pi * spread / size) + 1.0)
    value = value - diag.log().sum() / (2 * n)
    by_diag = squares / diag.square() / (2 * spread) + 1.0 / (2 * n * diag)
    left = system.solve(dual / diag[:, None])
    weighted = by_diag[:, None] * solved
    by_features = system.solve(weighted) * 2.0
    by_features -= left @ (system.features.mT @ dual).mT / spread
    by_features -= dual @ (system.features.mT @ left).mT / spread
    # The diagonal of M^-2 is (diag - |row of M^-1 F|^2) / v.
    squared_diag = (diag - solved.square().sum(1)) / noise
    by_noise = (by_diag * squared_diag).sum() - (left * dual).sum() / spread
    return FeatureScore(float(value), by_features, float(by_noise))
