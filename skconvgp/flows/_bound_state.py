"""BoundState: everything that steps of a search by the bound change."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from skconvgp._tensors import reals
from skconvgp._typing import FloatArray
from skconvgp.engine import to_numpy
from skconvgp.flows._descent import Moments
from skconvgp.inference import NaturalPosterior


@dataclass
class BoundState:
    """Everything that steps change."""

    index: int  # of the next step
    theta: FloatArray  # (p + 1,), parameters, then the logarithm of the amplitude
    moments: Moments  # of Adam
    posterior: NaturalPosterior
    divergence: float  # of the posterior from the prior, some steps ago
    # (steps, 2 + q): minus the bound for each image, seconds since the beginning, and q
    # logarithms with labels.
    trace: FloatArray

    def packed(self) -> Tensor:
        """Return all numbers as one vector."""
        p, adam = len(self.theta), self.moments
        mean, square = (np.broadcast_to(m, p) for m in (adam.mean, adam.square))
        parts: list[FloatArray] = [
            np.array([self.index, adam.count, self.divergence]),
            self.theta,
            mean,
            square,
            self.trace.ravel(),
            to_numpy(self.posterior.precision).ravel(),
            to_numpy(self.posterior.shift).ravel(),
        ]
        return reals(np.concatenate(parts))

    def unpack(self, packed: Tensor) -> None:
        """Take the numbers from a vector."""
        p, like = len(self.theta), self.posterior
        large = like.precision.numel(), like.shift.numel()
        sizes = [3, p, p, p, self.trace.size, *large]
        counts, *parts = torch.split(packed, sizes)
        self.index, self.divergence = int(counts[0]), float(counts[2])
        self.theta, mean, square, trace = (to_numpy(one).copy() for one in parts[:4])
        self.trace = trace.reshape(self.trace.shape)
        self.moments = replace(
            self.moments, mean=mean, square=square, count=int(counts[1])
        )
        like.precision.copy_(parts[4].reshape(like.precision.shape))
        like.shift.copy_(parts[5].reshape(like.shift.shape))
