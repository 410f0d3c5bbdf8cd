"""Ranks of new samples among those of a fit, each of them left out.

The formulas: docs/maths.rst, "Sets, intervals and novelty".

A unit counts once: its samples have shares that add up to one. Scores that differ by
rounding alone count as equal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from skconvgp.inference._augmented import Addition, Augmented

__all__ = ["Ranks", "interval_ends", "label_counts", "norm_counts", "variance_counts"]

# Rounding of scores, as a share of their size: of a sum of shares, and of a left-out
# prediction by precision.
ROUNDING, TIES = 1e-9, {torch.float64: 1e-9, torch.float32: 1e-5}


@dataclass(frozen=True)
class Ranks:
    """How many units there are, and at which level a p-value is small."""

    alpha: float  # in (0, 1)
    total: Any  # number of units; tensor (k,) by class

    @property
    def least(self) -> Any:
        """The count of units that conforms more than others do; < 0 if any does."""
        return self.alpha * (self.total + 1.0) - 1.0 + ROUNDING


def label_counts(
    augmented: Augmented,
    codes: Tensor,
    of: Any,
    shares: Tensor,
    own: Tensor,
    other: Tensor,
    offsets: Tensor,
) -> Tensor:
    """Return, for b new samples and each label, the units that conform no better.

    A sample conforms by its margin: the latent mean of its label, less the largest of
    others. The target of the own function of a label is `own` (k,), that of others is
    `other` (k,); `offsets` (k,) are added to means. The samples have `codes` (n,), the
    inputs `of` (n,), and `shares` (n, k) if a new one has each of the labels.
    """
    if_other = augmented.means(other) + offsets
    if_own = torch.addcmul(if_other, augmented.gain[:, :, None], own - other)
    if_other, if_own = if_other[:, of], if_own[:, of]
    place = codes[:, None].expand(len(if_own), -1, 1)
    best, next_best, which = _rivals(if_other, place)
    # Of other labels only that of the new sample has another mean than `if_other`.
    usual = best.expand_as(if_own).scatter(2, which, next_best)
    margins = if_other.gather(2, place) - torch.maximum(usual, if_own)
    margins.scatter_(2, place, if_own.gather(2, place) - best)
    means = augmented.new_mean + offsets
    mine = torch.stack([_margin(means, c) for c in range(len(own))], 1)
    slack = TIES[mine.dtype] * float((own - other).abs().max())
    return ((margins <= mine[:, None] + slack) * shares).sum(1)


def _rivals(means: Tensor, place: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the largest mean (b, n, 1) of other labels, the next one, and which."""
    others = means.scatter(2, place, -math.inf)
    best, which = others.max(2, keepdim=True)
    others.scatter_(2, which, -math.inf)
    return best, others.amax(2, keepdim=True), which


def _margin(means: Tensor, label: int) -> Tensor:
    """Return the margins (b,) of a label, given means (b, k)."""
    others = means.clone()
    others[:, label] = -math.inf
    return means[:, label] - others.amax(1)


def interval_ends(
    augmented: Augmented,
    targets: Tensor,
    of: Any,
    added: Tensor,
    shares: Tensor,
    ranks: Ranks,
    deviations: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Return the ends (b, k) of the targets that conform, for b new samples.

    The score of a sample is its left-out residual, divided by its deviation. Its share
    of those that conform no better is counted for new residuals between two roots of
    :math:`(a_i - b_i r)^2 = r^2 / s`. Targets are (n, k), the inputs of samples `of`
    (n,), `shares` (n,); `added` (n,) is variance of a sample beyond that of its input.

    With `deviations` (k,) of outputs a score is the largest one of all outputs, and the
    ends are those of a box: each sample is counted for the smallest box that has all
    residuals for which it conforms no better.
    """
    scale = (augmented.var[:, of] + added).rsqrt()[:, :, None]
    residual = (targets - augmented.start[:, of]) * scale
    if deviations is not None:
        residual = residual / deviations
    slope = augmented.gain[:, of][:, :, None] * scale
    own = augmented.new_var.rsqrt()[:, None, None]
    tiny = torch.finfo(own.dtype).tiny
    one = residual / (own + slope).clamp(min=tiny)
    two = -residual / (own - slope).clamp(min=tiny)
    high, low = torch.maximum(one, two), torch.minimum(one, two)
    if deviations is not None:
        # A large residual of another output leaves room for this one.
        room = _largest_other(torch.maximum(high, -low))
        high, low = torch.maximum(high, room), torch.minimum(low, -room)
    upper, lower = _end(high, shares, ranks), -_end(-low, shares, ranks)
    if deviations is not None:
        upper, lower = upper * deviations, lower * deviations
    return augmented.new_mean + lower, augmented.new_mean + upper


def _largest_other(values: Tensor) -> Tensor:
    """Return the largest of the other values >= 0 in each row (b, n, k); 0 for none."""
    largest, which = values.max(2, keepdim=True)
    second = values.scatter(2, which, 0.0).amax(2, keepdim=True)
    return largest.expand_as(values).scatter(2, which, second)


def _end(roots: Tensor, shares: Tensor, ranks: Ranks) -> Tensor:
    """Return the largest root (b, k) at which enough of the samples (n,) conform."""
    if ranks.least < 0.0:
        return torch.full_like(roots[:, 0], math.inf)
    ordered, order = roots.sort(dim=1, descending=True)
    is_enough = shares[order].cumsum(1) > ranks.least
    place = is_enough.to(torch.uint8).argmax(1, keepdim=True)
    return ordered.gather(1, place)[:, 0]


def variance_counts(
    addition: Addition, augmented: Augmented, of: Any, shares: Tensor
) -> Tensor:
    """Return the units (b,) whose left-out latent variance is no smaller.

    The samples have the inputs `of` (n,), and `shares` (n,). What features leave out
    of a variance counts.
    """
    inputs, latent_var = addition.inputs, addition.latent_var
    var = augmented.var - inputs.noise
    if inputs.unexplained is not None and addition.unexplained is not None:
        var = var + inputs.unexplained
        latent_var = latent_var + addition.unexplained
    var = var[:, of]
    least = latent_var[:, None] * (1.0 - TIES[var.dtype])
    return (var >= least).to(shares) @ shares


def norm_counts(
    augmented: Augmented, of: Any, shares: Tensor, own: Tensor, other: Tensor
) -> tuple[Tensor, Tensor]:
    """Return units (b, k) of no smaller, and of no larger norms of latent means.

    There is a count for each label that a new sample may have; its targets are as in
    `label_counts`.
    """
    if_other = augmented.means(other)
    if_own = torch.addcmul(if_other, augmented.gain[:, :, None], own - other).square()
    if_other = if_other.square()
    norms = (if_other.sum(2, keepdim=True) - if_other + if_own)[:, of]
    mine = augmented.new_mean.square().sum(1)[:, None, None]
    slack = TIES[mine.dtype] * mine
    weights = shares[:, None]
    return (
        ((norms >= mine - slack) * weights).sum(1),
        ((norms <= mine + slack) * weights).sum(1),
    )
