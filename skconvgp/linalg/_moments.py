"""Sums of products of features, by products in single precision if they are many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from skconvgp._threads import threads_for

__all__ = ["Moments"]

STRIPS = 16  # of rows: products above the diagonal are not computed


@dataclass
class Moments:
    """F^T W F and F^T W Y, to which blocks of rows are added.

    Positive features have a mean whose square is the largest eigenvalue of F^T W F by
    far: a sum in single precision loses the small ones in its rounding and becomes
    indefinite. Products are therefore of rows minus a fixed centre, blocks are added in
    double precision, and the centre is put back at the end.
    """

    centre: Tensor  # vector c (r,) near the mean of the rows
    dtype: torch.dtype  # precision of products within a block
    moment: Tensor  # (r, r), lower triangle of (F - c)^T W (F - c)
    total: Tensor  # (r,), sum of the weighted rows of F - c
    response: Tensor  # (r, k), product (F - c)^T W Y
    target: Tensor  # (k,), sum of the weighted targets
    weight: Tensor  # (), sum of the weights

    @classmethod
    def around(
        cls,
        centre: Tensor,
        n_targets: int,
        dtype: torch.dtype,
        moment: Tensor | None = None,
    ) -> Self:
        """Return empty sums with a centre (r,); zeros (r, r) may be given as moment."""
        r, centre = len(centre), centre.to(torch.float64)
        shapes = [(r,), (r, n_targets), (n_targets,), ()]
        if moment is None:
            moment = centre.new_zeros(r, r)
        return cls(centre, dtype, moment, *(centre.new_zeros(one) for one in shapes))

    def add(self, rows: Tensor, targets: Tensor, weights: Tensor) -> None:
        """Add rows (b, r), with targets (b, k) and weights (b,) in double precision."""
        root = weights.sqrt()[:, None]
        exact = (rows - self.centre) * root
        rows = exact.to(self.dtype)
        with threads_for(rows.numel() * len(self.centre)):
            for start, stop in _strips(len(self.centre)):
                product = rows[:, start:stop].mT @ rows[:, :stop]
                self.moment[start:stop, :stop] += product
        self.total += (exact * root).sum(0)
        self.response += exact.mT @ (targets * root)
        self.target += (targets * weights[:, None]).sum(0)
        self.weight += weights.sum()

    def finish(self) -> tuple[Tensor, Tensor]:
        """Return F^T W F (r, r) and F^T W Y (r, k); the moment is overwritten."""
        centre, moment = self.centre, self.moment
        for start, stop in _strips(len(centre)):  # the upper triangle is the lower
            moment[start:stop, stop:] = moment[stop:, start:stop].mT
        moment.addr_(self.total + self.weight * centre, centre)
        moment.addr_(centre, self.total)
        return moment, self.response + torch.outer(centre, self.target)


def _strips(size: int) -> list[tuple[int, int]]:
    """Return starts and stops of strips."""
    width = -(-size // STRIPS)
    return [(start, min(start + width, size)) for start in range(0, size, width)]
