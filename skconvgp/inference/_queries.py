r"""Which samples to label next: greedy choices by a posterior covariance.

The formulas: docs/maths.rst, "Which samples to label next".
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from skconvgp.linalg import symmetric_eigen

__all__ = ["Pool", "least_variance"]

# Numbers of a block of rows, so that it stays in the cache of a processor.
AT_ONCE = 2**16
# Shares of a score by which others may differ from it and count as equal.
TIED, SINGLE_TIED = 1e-9, 1e-5
ROUNDING = 16  # largest variance that counts as none, in units of the last digit of 1


@dataclass(frozen=True)
class Pool:
    """What a posterior says of samples without labels, which are the candidates.

    There is a covariance for each of f latent functions, or one if all have the same.
    The noise of an observation is that of each sample, or that which each of c labels
    gives it; c is 1 if labels do not matter.
    """

    covariance: Tensor  # (f, r, r), for amplitude 1; it is overwritten
    noise: Tensor  # (f, r, c), or (f, 1, c) if samples have the same
    # Of each candidate. All are observed with it; first come the candidates themselves,
    # and then versions of all of them. There are several for one function alone.
    n_versions: int = 1

    @property
    def has_labels(self) -> bool:
        """Whether the label of an observation decides its noise."""
        return self.noise.shape[2] > 1


def least_variance(
    pool: Pool, weights: Tensor, count: int, chances: Tensor | None = None
) -> Tensor:
    """Return samples (count,), each of which most reduces the mean variance.

    `weights` (r,) are those of the samples in the mean, over which functions are summed
    up. Where labels decide the noise, a reduction is its mean over the probabilities
    `chances` (r, c) of the labels of a sample. After a choice the covariance is that of
    a posterior with an observation of the sample, with its most probable label. The
    first of equally good samples is taken. A sample whose value is known but for
    rounding reduces nothing.
    """
    if pool.n_versions > 1:
        return _least_with_versions(pool, weights, count)
    covariance = pool.covariance
    least = ROUNDING * torch.finfo(covariance.dtype).eps
    columns = torch.zeros_like(covariance[:, 0])
    rows = torch.zeros_like(columns)
    is_free = torch.ones_like(columns[0], dtype=torch.bool)
    likely = torch.zeros_like(is_free, dtype=torch.int64)
    if chances is not None:
        likely = chances.argmax(1)
    chosen = []
    for _ in range(count):
        reduced, gains = torch.zeros_like(columns[0]), []
        for own, column, row, noise in zip(
            covariance, columns, rows, pool.noise, strict=True
        ):
            sums = _updated_sums(own, column, row, weights)
            var = own.diagonal().clamp(min=0.0)[:, None] + noise
            # A copy of a sample without noise has no variance at all.
            gain = torch.where(var > least, var.reciprocal(), 0.0)
            gains.append(gain)
            expected = gain if chances is None else gain * chances
            reduced += sums * expected.sum(1)
        one = _first_best(reduced, is_free)
        chosen.append(one)
        columns = covariance[:, :, one].clone()
        own_gain = torch.stack([gain[one, likely[one]] for gain in gains])
        rows = covariance[:, one] * own_gain[:, None]
    return torch.tensor(chosen, dtype=torch.int64, device=covariance.device)


def _least_with_versions(pool: Pool, weights: Tensor, count: int) -> Tensor:
    """Return what `least_variance` does, if a choice observes several samples."""
    covariance, n_versions = pool.covariance[0], pool.n_versions
    r, least = len(weights), ROUNDING * torch.finfo(covariance.dtype).eps
    between = covariance.view(n_versions, r, n_versions, r)
    is_free = torch.ones_like(weights, dtype=torch.bool)
    chosen: list[int] = []
    for _ in range(count):
        own = between.diagonal(dim1=1, dim2=3).movedim(2, 0).clone()  # (r, v, v)
        own.diagonal(dim1=1, dim2=2).add_(pool.noise[0, 0, 0])
        values, vectors = symmetric_eigen(own)
        gain = torch.where(values > least, values.reciprocal(), 0.0)
        reduced = torch.zeros_like(weights)
        for i in range(n_versions):
            # Covariances of a direction in the space of the versions with the samples.
            turned = torch.zeros_like(between[0, :, 0])
            for v in range(n_versions):
                turned.addcmul_(vectors[:, v, i, None], between[v, :, 0])
            reduced += gain[:, i] * (turned.square_() @ weights)
        one = _first_best(reduced, is_free)
        chosen.append(one)
        half = covariance[:, one::r] @ (vectors[one] * gain[one].sqrt())
        covariance.addmm_(half, half.mT, alpha=-1.0)
    return torch.tensor(chosen, dtype=torch.int64, device=covariance.device)


def _first_best(reduced: Tensor, is_free: Tensor) -> int:
    """Return the first of the best free samples (r,), which is then not free."""
    tied = TIED if reduced.dtype == torch.float64 else SINGLE_TIED
    best = reduced[is_free].max()
    is_best = is_free & (reduced >= best * (1.0 - tied))
    one = int(is_best.nonzero()[0])
    is_free[one] = False
    return one


def _updated_sums(
    covariance: Tensor, column: Tensor, row: Tensor, weights: Tensor
) -> Tensor:
    """Take column times row from a matrix (r, r); return its sums of squares (r,).

    They are over the rows, which have weights (r,).
    """
    sums = torch.zeros_like(row)
    n_rows = max(1, AT_ONCE // max(1, len(column)))
    for start in range(0, len(column), n_rows):
        part = slice(start, start + n_rows)
        changed = covariance[part].addr_(column[part], row, alpha=-1.0)
        sums += weights[part] @ changed.square()
    return sums
