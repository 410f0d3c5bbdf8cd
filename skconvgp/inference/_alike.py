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
ROUNDING = 8  # of variances, in units of the last digit of the largest one


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
    *,
    rounding: float = 0.0,
    beyond: Tensor | None = None,
) -> Alike:
    """Return the most similar samples, a block of samples at a time.

    A block has the covariances (b, m) of samples with all up to the last of them, and
    their variances (b,). Samples have `kinds` (n,), and the inputs `of` (n,): equal
    inputs are at a distance of 0, and others are no nearer than `rounding`. Samples of
    one of the `groups` (n,) are not compared, unless they are equal. A sample without
    variance is at a distance of 1.

    Covariances may lack those of residuals with deviations `beyond` (n,). Distances are
    then the least possible ones, and the usual one is that of no such covariances.
    """
    n, var, found, usual = len(of), None, [], []
    for cov, own in blocks:
        var = own if var is None else torch.cat([var, own])
        every = int_range(len(var), of.device)
        rows = every[-len(cov) :]
        least = ROUNDING * torch.finfo(var.dtype).eps * var.max()
        scale = torch.where(var > least, var.rsqrt(), 0.0)
        apart = 1.0 - cov * scale[rows, None] * scale
        is_equal = of[rows, None] == of[every]
        is_left_out = every >= rows[:, None]
        if groups is not None:
            is_left_out |= (groups[rows, None] == groups[every]) & ~is_equal
        far = torch.where(is_left_out, math.inf, 0.0).to(apart)
        fixed = is_equal, far, rounding
        some = _distance(apart, *fixed)[:, :: max(1, n // SOME)]
        usual.append(some[some < math.inf])
        if beyond is not None:
            size = beyond[: len(var)] * scale
            apart = apart - size[rows, None] * size
        apart = _distance(apart, *fixed)
        is_kind = kinds[rows, None] == kinds[every]
        found.append([apart.masked_fill(~is_kind, math.inf).min(1)])
        found[-1].append(apart.masked_fill(is_kind, math.inf).min(1))
    distance, which = (
        torch.cat([torch.stack([one[i] for one in both], 1) for both in found])
        for i in (0, 1)
    )
    return Alike(distance, which, float(torch.cat(usual).median()))


def _distance(apart: Tensor, is_equal: Tensor, far: Tensor, rounding: float) -> Tensor:
    """Return distances (b, m): 0 for equal inputs, and infinite for some pairs."""
    return apart.clamp(min=rounding).masked_fill(is_equal, 0.0) + far
