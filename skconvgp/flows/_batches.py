"""Which samples make a batch: in any order, or each class in each part of it."""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from skconvgp._protocols import Batch

__all__ = ["Batches", "spread_order"]


@dataclass(frozen=True)
class Batches:
    """Draws batches of the training samples.

    Parameters
    ----------
    n_samples : int
        Number of samples.
    codes : Tensor of shape (n,) or None
        Class codes, for batches with each class in its share; None draws from all.
    generator : torch.Generator
        Where randomness comes from.
    """

    n_samples: int
    codes: Tensor | None
    generator: Generator

    def draw(self, size: int) -> Batch:
        """Return a batch of different samples, in the order to take a sample from."""
        if self.codes is None:
            order = torch.randperm(self.n_samples, generator=self.generator)
            return Batch(order[:size])
        order = spread_order(self.codes, self.generator)[:size]
        return Batch(order[spread_order(self.codes[order], self.generator)])


def spread_order(codes: Tensor, generator: Generator) -> Tensor:
    """Return a random order whose every beginning holds each class in its share.

    The members of a class of c samples get places (j + u) / c, u in (0, 1) the same
    for all of them; the first of each class come before all others.

    Parameters
    ----------
    codes : Tensor of shape (n,)
        Class codes.
    generator : torch.Generator
        Where randomness comes from.

    Returns
    -------
    order : Tensor of shape (n,)
        Samples by number.
    """
    places = torch.empty(len(codes), dtype=torch.float64)
    for code in torch.unique(codes):
        members = (codes == code).nonzero()[:, 0]
        n = len(members)
        start = torch.rand((), dtype=torch.float64, generator=generator)
        shuffled = torch.randperm(n, generator=generator)
        found = (shuffled + start) / n
        places[members] = torch.where(shuffled == 0, start - 1.0, found)
    return places.argsort()
