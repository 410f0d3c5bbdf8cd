"""Random batches of samples, stratified by class if there are classes."""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from skconvgp._protocols import Batch
from skconvgp._tensors import permutation, uniforms


@dataclass(frozen=True)
class Batches:
    """Draws batches of the training samples."""

    n_samples: int
    # Class codes (n,) for stratified batches; None draws from all samples.
    codes: Tensor | None
    generator: Generator

    def draw(self, size: int) -> Batch:
        """Return a batch of different samples, of which any beginning is stratified."""
        if self.codes is None:
            order = permutation(self.n_samples, self.generator)
            return Batch(order[:size])
        # The batch is stratified among all samples, then any sample within the batch.
        order = spread_order(self.codes, self.generator)[:size]
        return Batch(order[spread_order(self.codes[order], self.generator)])


def spread_order(codes: Tensor, generator: Generator) -> Tensor:
    """Return a random order (n,) in which each beginning is stratified by class.

    The samples, of class codes (n,), are sorted by positions. Those of a class of c
    samples are (j + u) / c for j = 0, ..., c - 1, with one random u in (0, 1) for the
    class. The first sample of each class is moved before all others, so that no class
    is missing.
    """
    positions = torch.empty(len(codes), dtype=torch.float64, device="cpu")
    for code in torch.unique(codes):
        members = (codes == code).nonzero()[:, 0]
        n = len(members)
        start = uniforms((), generator)
        shuffled = permutation(n, generator)
        even = (shuffled + start) / n
        positions[members] = torch.where(shuffled == 0, start - 1.0, even)
    return positions.argsort()
