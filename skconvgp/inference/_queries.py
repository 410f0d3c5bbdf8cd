r"""Which samples to label next: greedy choices by a posterior covariance.

The formulas: docs/maths.rst, "Which samples to label next".
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Pool", "least_variance"]

# Numbers of a block of rows, so that it stays in the cache of a processor.
AT_ONCE = 2**16
# Shares of a score by which others may differ from it and count as equal.
TIED, SINGLE_TIED = 1e-9, 1e-5
ROUNDING = 16  # largest variance that counts as none, in units of the last digit of 1


@dataclass(frozen=True)
class Pool:
    """What a posterior says of samples without labels, which are the candidates."""

    covariance: Tensor  # (r, r), for amplitude 1; it is overwritten
    noise: Tensor  # (r,), variance of an observation of each sample


def least_variance(pool: Pool, weights: Tensor, count: int) -> Tensor:
    """Return samples (count,), each of which most reduces the mean variance.

    `weights` (r,) are those of the samples in the mean. After a choice the covariance
    is that of a posterior with an observation of the sample. The first of equally good
    samples is taken. A sample whose value is known but for rounding reduces nothing.
    """
    covariance = pool.covariance
    tied = TIED if covariance.dtype == torch.float64 else SINGLE_TIED
    least = ROUNDING * torch.finfo(covariance.dtype).eps
    is_free = torch.ones_like(covariance[0], dtype=torch.bool)
    column, row = torch.zeros_like(covariance[:, 0]), torch.zeros_like(covariance[0])
    chosen = []
    n_rows = max(1, AT_ONCE // max(1, len(column)))
    for _ in range(count):
        reduced = torch.zeros_like(row)
        for start in range(0, len(column), n_rows):
            part = slice(start, start + n_rows)
            changed = covariance[part].addr_(column[part], row, alpha=-1.0)
            reduced += weights[part] @ changed.square()
        var = covariance.diagonal().clamp(min=0.0) + pool.noise
        # A copy of a sample without noise has no variance at all.
        gain = torch.where(var > least, var.reciprocal(), 0.0)
        reduced *= gain
        best = reduced[is_free].max()
        is_best = is_free & (reduced >= best * (1.0 - tied))
        one = int(is_best.nonzero()[0])
        chosen.append(one)
        is_free[one] = False
        column, row = covariance[:, one].clone(), covariance[one] * gain[one]
    return torch.tensor(chosen, dtype=torch.int64, device=covariance.device)
