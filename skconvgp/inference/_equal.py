"""Samples with equal inputs, which leave-one-out leaves out together (ADR 0029).

A process says of them that they are one value of the function, observed several times.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["FEWEST_INPUTS", "EqualInputs", "MergedSamples"]

# Below as many, what other inputs say of one is chance (ADR 0029, 0038).
FEWEST_INPUTS = 10


@dataclass(frozen=True)
class EqualInputs:
    """Which samples have equal inputs.

    Parameters
    ----------
    of : Tensor of shape (n,)
        Number of the input of each sample, from 0 to m - 1; each occurs.
    """

    of: Tensor

    @classmethod
    def none_of(cls, samples: Tensor) -> EqualInputs:
        """Return that samples (n, ...) all have inputs of their own."""
        return cls(torch.arange(len(samples), device=samples.device))

    @property
    def n_inputs(self) -> int:
        """How many inputs there are."""
        return int(self.of.max()) + 1

    def to(self, device: torch.device) -> EqualInputs:
        """Return the same on a device."""
        return EqualInputs(self.of.to(device))

    def take(self, numbers: Tensor) -> EqualInputs:
        """Return the same of some of the samples."""
        return EqualInputs(torch.unique(self.of[numbers], return_inverse=True)[1])

    def first(self) -> Tensor:
        """Return the number (m,) of the first sample with each input."""
        numbers = torch.arange(len(self.of), device=self.of.device)
        last = torch.full_like(numbers[: self.n_inputs], len(self.of))
        return last.scatter_reduce(0, self.of, numbers, "amin")

    def counts(self) -> Tensor:
        """Return how many samples (n,) have the input of each."""
        return self.of.bincount()[self.of]

    def sum(self, values: Tensor) -> Tensor:
        """Return sums (m, ...), over the samples of each input, of values (n, ...)."""
        sums = values.new_zeros(self.n_inputs, *values.shape[1:])
        return sums.index_add_(0, self.of, values)

    def staying(self, weights: Tensor) -> Tensor:
        """Return the weight (n,) at the input of each sample that stays without it.

        None of it does, but of few inputs all but one unit of the sample.
        """
        if self.n_inputs >= FEWEST_INPUTS:
            return torch.zeros_like(weights)
        return self.sum(weights)[self.of] - weights.clamp(max=1.0)

    def merge(self, targets: Tensor, weights: Tensor) -> MergedSamples:
        """Return one sample for each input, which tells the function the same.

        Parameters
        ----------
        targets : Tensor of shape (n, k)
            Targets.
        weights : Tensor of shape (n,)
            Sample weights.
        """
        total = self.sum(weights)
        mean = self.sum(targets * weights[:, None]) / total[:, None]
        scatter = self.sum((targets - mean[self.of]).square() * weights[:, None])
        return MergedSamples(mean, total, scatter)


@dataclass(frozen=True)
class MergedSamples:
    """One sample for each of several inputs.

    Parameters
    ----------
    targets : Tensor of shape (m, k)
        Weighted means of the targets of an input.
    weights : Tensor of shape (m,)
        Sums of weights.
    scatter : Tensor of shape (m, k)
        Weighted sums of squares around these means.
    """

    targets: Tensor
    weights: Tensor
    scatter: Tensor
