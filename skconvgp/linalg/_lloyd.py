"""Rounds of Lloyd's algorithm for the centres of clusters."""

from collections.abc import Iterable

import torch
from torch import Tensor

__all__ = ["cluster_means"]


def cluster_means(blocks: Iterable[Tensor], centres: Tensor) -> Tensor:
    """Return the mean (m, d) of the points nearest to each centre (m, d).

    The points come in blocks (b, d); they may have less precision than the centres, and
    then decide in theirs which centre is nearest, while their means are as precise as
    the centres. A centre that is nearest to no point stays as it is. Lloyd, "Least
    squares quantization in PCM", 1982.
    """
    sums, counts = torch.zeros_like(centres), torch.zeros_like(centres[:, :1])
    half = 0.5 * centres.square().sum(1)
    for points in blocks:
        near, offset = centres.to(points), half.to(points)
        nearest = torch.addmm(-offset, points, near.mT).argmax(1)
        sums.index_add_(0, nearest, points.to(centres))
        counts.index_add_(0, nearest, torch.ones_like(points[:, :1]).to(centres))
    return torch.where(counts > 0.0, sums / counts.clamp(min=1.0), centres)
