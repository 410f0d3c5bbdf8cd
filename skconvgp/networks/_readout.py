"""A linear head, refitted by ridge regression whose penalty is chosen by leave-one-out.

Features come in blocks, so that only sums over samples are held. The formulas:
docs/maths.rst, "Binary codes".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from skconvgp.linalg import Moments, symmetric_eigen

__all__ = ["Readout", "fit_readout"]

# Penalties, in units of the mean eigenvalue of the scatter of the features.
PENALTIES = [10.0 ** (0.5 * exponent) for exponent in range(-14, 7)]
# With a penalty of zero a sample alone in its direction would have this leverage.
LARGEST_LEVERAGE = 1.0 - 1e-10

# Yields the features (b, r) and targets (b, k) of one block after another.
Blocks = Callable[[], Iterator[tuple[Tensor, Tensor]]]


@dataclass(frozen=True)
class Readout:
    """Linear outputs."""

    coef: Tensor  # (r, k)
    intercept: Tensor  # values (k,) for features of zero
    alpha: float  # the penalty of the sum of squares of the coefficients

    def __call__(self, features: Tensor) -> Tensor:
        """Return the outputs (n, k) of features (n, r)."""
        return features @ self.coef + self.intercept


def fit_readout(blocks: Blocks) -> Readout:
    """Return the ridge regression with the smallest squared leave-one-out error.

    `blocks` yields features (b, r) and targets (b, k) in double precision, block by
    block. It is called twice.
    """
    moment, response, centre, target, n = _sums(blocks)
    values, vectors = symmetric_eigen(moment)
    unit = float(values.mean()) or 1.0
    penalties = [penalty * unit for penalty in PENALTIES]
    projected = vectors.mT @ response  # (r, k)
    errors = values.new_zeros(len(penalties))
    for features, targets in blocks():
        rotated = (features - centre) @ vectors
        squares = rotated.square()
        for i, penalty in enumerate(penalties):
            shrunk = 1.0 / (values + penalty)
            gaps = targets - target - rotated @ (projected * shrunk[:, None])
            leverage = (1.0 / n + squares @ shrunk).clamp(max=LARGEST_LEVERAGE)
            errors[i] += (gaps / (1.0 - leverage)[:, None]).square().sum()
    alpha = penalties[int(errors.argmin())]
    coef = vectors @ (projected / (values + alpha)[:, None])
    return Readout(coef, target - centre @ coef, alpha)


def _sums(blocks: Blocks) -> tuple[Tensor, Tensor, Tensor, Tensor, float]:
    """Return centred F^T F and F^T Y, the means of both, and the number of samples."""
    sums: Moments | None = None
    for features, targets in blocks():
        if sums is None:
            centre, n_targets = features.mean(0), targets.shape[1]
            sums = Moments.around(centre, n_targets, torch.float64)
        sums.add(features, targets, torch.ones_like(features[:, 0]))
    assert sums is not None  # there are samples
    n = float(sums.weight)
    centre, target = sums.centre + sums.total / n, sums.target / n
    moment, response = sums.finish()
    moment.addr_(centre, centre, alpha=-n)
    return moment, response - n * torch.outer(centre, target), centre, target, n
