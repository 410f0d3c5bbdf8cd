"""Random batches of samples, stratified by class if there are classes."""

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
        Class codes for stratified batches; None draws from all samples.
    generator : torch.Generator
        Source of randomness.
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
    """Return a random order in which each beginning is stratified by class.

    The members of a class of c samples get places (j + u) / c, u in (0, 1) the same
    for all of them; the first of each class come before all others.

    Parameters
    ----------
    codes : Tensor of shape (n,)
        Class codes.
    generator : torch.Generator
        Source of randomness.

    Returns
    -------
    order : Tensor of shape (n,)
        Indices of the samples.
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
