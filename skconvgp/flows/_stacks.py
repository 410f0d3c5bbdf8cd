"""Gram matrices of samples with their neighbours: all at once, or a part at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from skconvgp._protocols import Batch
from skconvgp.engine import slices
from skconvgp.exceptions import NotPSDError
from skconvgp.flows._evaluator import Evaluator
from skconvgp.flows._left_out import AT_ONCE, LeftOutDensity, mean_variance
from skconvgp.kernels import Kernel

# Copies of what is held: of matrices with derivatives that are stored, and of matrices
# that are evaluated a part at a time.
STORED_COPIES, COPIES = 3, 8
HOST = torch.device("cpu")


@dataclass(frozen=True)
class PartScore:
    """A score whose matrices are not held."""

    value: float
    by_parameter: float  # derivative by the logarithm of the noise variance
    # Returns the derivatives (p,) by the hyperparameters, for which matrices are
    # evaluated again.
    by_theta: Callable[[], Tensor]


@dataclass(frozen=True)
class StackEvaluator:
    """Gram matrices of many small batches beside each other, and their derivatives.

    The indices of a batch (m, b) are those of m batches of b samples.
    """

    one: Evaluator  # evaluates one of the batches
    memory_budget: int  # bytes for matrices, beside those that `one` takes

    def gram(self, kernel: Kernel, batch: Batch) -> Tensor:
        """Return the Gram matrices (m, b, b)."""
        grams = self._empty(batch)
        for gram, part in zip(grams, _parts(batch), strict=True):
            gram.copy_(self.one.gram(kernel, part))
        return grams

    def gram_with_tangents(self, kernel: Kernel, batch: Batch) -> Tensor:
        """Return the Gram matrices with derivatives by theta (m, b, b, 1 + p)."""
        both = self._empty(batch, 1 + len(kernel.theta)).movedim(1, -1)
        for one, part in zip(both, _parts(batch), strict=True):
            one.copy_(self.one.gram_with_tangents(kernel, part))
        return both

    def has_own_tangents(self, kernel: Kernel) -> bool:
        """Return whether derivatives of whole matrices have code of their own."""
        return self.one.has_own_tangents(kernel)

    def stores(self, kernel: Kernel, batch: Batch, most: int) -> bool:
        """Return whether matrices with derivatives are within the budget and `most`."""
        stored = len(batch.indices) * self.one.bytes_stored(kernel, _parts(batch)[0])
        return stored <= min(most, self.memory_budget // STORED_COPIES)

    def score(
        self,
        objective: LeftOutDensity,
        kernel: Kernel,
        batch: Batch,
        targets: Tensor,
        noise_variance: float | None,
    ) -> PartScore | None:
        """Return the score of an objective, with some of the matrices at a time.

        It is None if it is undefined. The targets are (m, b, c); the noise variance is
        as in `LeftOutDensity.score`.
        """
        noise = objective.noise_of(noise_variance)
        targets = targets.to(self.one.config.device)
        parts = slices(len(batch.indices), self._n_at_once(batch))
        diagonals = [self.one.diag(kernel, part).mean() for part in _parts(batch)]

        def grams(part: slice) -> Tensor:
            return self.gram(kernel, Batch(batch.indices[part]))

        try:
            scale = mean_variance(torch.stack(diagonals))
            sites = objective.sites(grams, parts, targets, noise, scale)
        except NotPSDError:
            return None
        slopes = objective.slopes(sites, targets[:, 0], noise)
        if not math.isfinite(slopes.value):
            return None

        def by_theta() -> Tensor:
            pulled = [
                self.pull(
                    kernel,
                    Batch(batch.indices[part]),
                    (objective.by_grams(slopes, part) / scale).to(HOST),
                )
                for part in parts
            ]
            return torch.stack(pulled).sum(0)

        return PartScore(slopes.value, noise * slopes.by_noise, by_theta)

    def pull(self, kernel: Kernel, batch: Batch, weights: Tensor) -> Tensor:
        """Return the derivatives (p,) of <weights, K>."""
        pulled = [
            self.one.pull(kernel, part, own)
            for part, own in zip(_parts(batch), weights, strict=True)
        ]
        return torch.stack(pulled).sum(0)

    def graph(self, kernel: Kernel, batch: Batch) -> Tensor:
        """Return the Gram matrices with torch's graph of their computation."""
        return torch.stack([self.one.graph(kernel, part) for part in _parts(batch)])

    def _empty(self, batch: Batch, *more: int) -> Tensor:
        config, (m, side) = self.one.config, batch.indices.shape
        shape = (m, *more, side, side)
        return torch.empty(shape, dtype=config.solve_dtype, device=config.device)

    def _n_at_once(self, batch: Batch) -> int:
        """Return how many matrices are held at a time, if not all are."""
        n_values = batch.indices.shape[1] ** 2
        n_bytes = COPIES * n_values * self.one.config.solve_dtype.itemsize
        return max(1, min(AT_ONCE // n_values, self.memory_budget // n_bytes))


@dataclass(frozen=True)
class OneBatch:
    """Draws the same batch each time."""

    batch: Batch

    def draw(self, size: int) -> Batch:
        """Return the batch, whatever size is asked for."""
        return self.batch


def _parts(batch: Batch) -> list[Batch]:
    return [Batch(indices) for indices in batch.indices]
