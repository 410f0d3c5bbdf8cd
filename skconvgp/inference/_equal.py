"""Samples with equal inputs, which leave-one-out leaves out together (ADR 0029).

For a process they are several observations of the same value of the function.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

__all__ = ["FEWEST_INPUTS", "EqualInputs", "MergedSamples"]

# With fewer distinct inputs, a prediction of one from the others is chance: then only
# single observations are left out, not whole inputs (ADR 0029, 0038).
FEWEST_INPUTS = 10


@dataclass(frozen=True)
class EqualInputs:
    """Which samples have equal inputs.

    Parameters
    ----------
    of : Tensor of shape (n,)
        Index of the distinct input of each sample, from 0 to m - 1; each occurs.
    """

    of: Tensor

    @classmethod
    def none_of(cls, samples: Tensor) -> EqualInputs:
        """Return an object that says that no two of the samples (n, ...) are equal."""
        return cls(torch.arange(len(samples), device=samples.device))

    @property
    def n_inputs(self) -> int:
        """Number m of distinct inputs."""
        return int(self.of.max()) + 1

    def to(self, device: torch.device) -> EqualInputs:
        """Return the same on a device."""
        return EqualInputs(self.of.to(device))

    def take(self, indices: Tensor) -> EqualInputs:
        """Return the equal inputs among the samples at these indices."""
        return EqualInputs(torch.unique(self.of[indices], return_inverse=True)[1])

    def first(self) -> Tensor:
        """Return the index (m,) of the first sample with each input."""
        indices = torch.arange(len(self.of), device=self.of.device)
        last = torch.full_like(indices[: self.n_inputs], len(self.of))
        return last.scatter_reduce(0, self.of, indices, "amin")

    def counts(self) -> Tensor:
        """Return, for each sample (n,), the number of samples with its input."""
        return self.of.bincount()[self.of]

    def sum(self, values: Tensor) -> Tensor:
        """Return sums (m, ...), over the samples of each input, of values (n, ...)."""
        sums = values.new_zeros(self.n_inputs, *values.shape[1:])
        return sums.index_add_(0, self.of, values)

    def staying(self, weights: Tensor) -> Tensor:
        """Return the weight (n,) that stays at its input when a sample is left out.

        It is 0 if whole inputs are left out. If there are fewer than `FEWEST_INPUTS`,
        only one unit of the weight of the sample is left out, and the others stay.
        """
        if self.n_inputs >= FEWEST_INPUTS:
            return torch.zeros_like(weights)
        return self.sum(weights)[self.of] - weights.clamp(max=1.0)

    def leaving(self, values: Tensor, weights: Tensor) -> Tensor:
        """Return what leaves (n, ...) of sums when each sample is left out.

        Parameters
        ----------
        values : Tensor of shape (n, ...)
            What each sample adds to a sum over observations at its input.
        weights : Tensor of shape (n,)
            Sample weights: how many observations a sample is.
        """
        if self.n_inputs >= FEWEST_INPUTS:
            return self.sum(values)[self.of]
        units = weights.clamp(min=1.0).reshape(-1, *[1] * (values.ndim - 1))
        return values / units

    def merge(self, targets: Tensor, weights: Tensor) -> MergedSamples:
        """Return one sample for each input, with the same posterior of the function.

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

    def take(self, indices: Any) -> MergedSamples:
        """Return the samples of the inputs at these indices."""
        return MergedSamples(
            self.targets[indices], self.weights[indices], self.scatter[indices]
        )
