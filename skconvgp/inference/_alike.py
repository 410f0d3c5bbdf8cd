"""Samples that are alike: the most similar one before each of them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from skconvgp._tensors import int_range

__all__ = ["Alike", "most_alike"]

SOME = 256  # samples with which each one is compared for the usual distance


@dataclass(frozen=True)
class Alike:
    """For each of n samples, the most similar ones of those before it.

    Columns are of samples of its kind, and of other kinds.
    """

    distance: Tensor  # (n, 2), 1 less the correlation; infinite if there is none
    which: Tensor  # (n, 2), the samples
    usual: float  # median of distances; NaN without any


def most_alike(
    blocks: Iterable[tuple[Tensor, Tensor]],
    kinds: Tensor,
    of: Tensor,
    groups: Tensor | None = None,
) -> Alike:
    """Return the most similar samples, a block of samples at a time.

    A block has the covariances (b, m) of samples with all up to the last of them, and
    their variances (b,). Samples have `kinds` (n,), and the inputs `of` (n,): equal
    inputs are at a distance of 0. Samples of one of the `groups` (n,) are not
    compared, unless they are equal.
    """
    n, var, found, usual = len(of), None, [], []
    for cov, own in blocks:
        var = own if var is None else torch.cat([var, own])
        every = int_range(len(var), of.device)
        rows = every[-len(cov) :]
        scale = var.clamp(min=torch.finfo(var.dtype).tiny).rsqrt()
        apart = 1.0 - cov * scale[rows, None] * scale
        is_equal = of[rows, None] == of[every]
        apart = apart.clamp(min=0.0).masked_fill(is_equal, 0.0)
        is_left_out = every >= rows[:, None]
        if groups is not None:
            is_left_out |= (groups[rows, None] == groups[every]) & ~is_equal
        apart = apart.masked_fill(is_left_out, math.inf)
        some = apart[:, :: max(1, n // SOME)]
        usual.append(some[some < math.inf])
        is_kind = kinds[rows, None] == kinds[every]
        found.append([apart.masked_fill(~is_kind, math.inf).min(1)])
        found[-1].append(apart.masked_fill(is_kind, math.inf).min(1))
    distance, which = (
        torch.cat([torch.stack([one[i] for one in both], 1) for both in found])
        for i in (0, 1)
    )
    return Alike(distance, which, float(torch.cat(usual).median()))
