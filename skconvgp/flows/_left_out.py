"""The density of left-out samples given their neighbours, as a function of a kernel.

Neighbours do not depend on the hyperparameters, so the density is smooth in them.
"""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from skconvgp._protocols import Batch, Score
from skconvgp._settings import FIXED
from skconvgp._typing import Bounds
from skconvgp.engine import slices
from skconvgp.exceptions import NotPSDError
from skconvgp.flows._evaluator import Evaluator
from skconvgp.inference import without_neighbors
from skconvgp.kernels import Kernel
from skconvgp.linalg import back_solve, half_solve, shifted_choleskys

__all__ = ["LeftOutDensity", "OneBatch", "StackEvaluator"]

# Values of the Gram matrices of which copies are made at a time.
AT_ONCE = 2**20


@dataclass(frozen=True)
class LeftOutDensity:
    r"""Negative log density of left-out targets, with the amplitude profiled out.

    .. math:: \frac 1 {2 m} \sum_i \log v_i + \frac 1 2 \log 2 \pi A + \frac 1 2, \quad
              A = \frac 1 {m k} \sum_{i, c} (y_{ic} - \mu_{ic})^2 / v_i

    with mean and variance of each of m samples by `local_posterior`, and the noise
    added to the variance. It is a mean over targets.

    Parameters
    ----------
    weights : Tensor of shape (m, k)
        Weights of the neighbours.
    dropped : Tensor of shape (m, k)
        True for neighbours whose inputs equal that of the sample: they are left out,
        too.
    noise_variance : float
        Noise variance, as a share of the mean prior variance.
    noise_variance_bounds : "fixed" or tuple of float
        Bounds between which the noise is learned.
    """

    weights: Tensor = field(repr=False)
    dropped: Tensor = field(repr=False)
    noise_variance: float
    noise_variance_bounds: Bounds = FIXED

    def count(self, n: int) -> int:
        """Return 1: a single sample is left out of its neighbours."""
        return 1

    def score(
        self, gram: Tensor, targets: Tensor, noise_variance: float | None = None
    ) -> Score:
        """Return the value and its derivatives.

        Parameters
        ----------
        gram : Tensor of shape (m, 1 + k, 1 + k)
            Gram matrices; the sample that is left out comes first.
        targets : Tensor of shape (m, 1 + k, c)
            Targets of the sample and its neighbours.
        noise_variance : float, optional
            Replaces that of the objective.
        """
        noise = self.noise_variance if noise_variance is None else noise_variance
        scale = gram.diagonal(dim1=1, dim2=2).mean()
        if not (torch.isfinite(scale) and scale > 0.0):
            raise NotPSDError(f"The mean prior variance is {float(scale)}.")
        parts = slices(len(gram), max(1, AT_ONCE // gram[0].numel()))
        sites = [self._site(gram[i] / scale, targets[i], noise, i) for i in parts]
        mean, var, cross, duals = (torch.cat(one) for one in zip(*sites, strict=True))
        error = targets[:, 0] - mean
        m, n_outputs = error.shape
        ratios = error.square().mean(1) / var
        amplitude = ratios.mean()
        value = 0.5 * (var.log().mean() + torch.log(2.0 * math.pi * amplitude) + 1.0)
        by_var = (1.0 - ratios / amplitude) / (2.0 * m * var)
        by_mean = -error / (amplitude * m * n_outputs * var[:, None])
        pulled = torch.einsum("bic,bc->bi", duals, by_mean)
        shares = 1.0 / self.weights.to(gram)
        by_gram = torch.empty_like(gram)
        by_noise, by_scale = by_var.sum(), gram.new_zeros(())
        for i in parts:
            by_unit = _by_unit(by_var[i], cross[i], pulled[i])
            diagonals = by_unit.diagonal(dim1=1, dim2=2)
            by_noise += (diagonals[:, 1:] * shares[i]).sum()
            by_gram[i] = without_neighbors(by_unit, self.dropped[i])
            unit = without_neighbors(gram[i] / scale, self.dropped[i])
            by_scale += (by_gram[i] * unit).sum()
        # Each diagonal entry also changes the mean diagonal, the divisor of all.
        diagonals = by_gram.diagonal(dim1=1, dim2=2)
        diagonals.sub_(by_scale / diagonals.numel())
        return Score(float(value), by_gram.div_(scale), noise * float(by_noise))

    def _site(
        self, unit: Tensor, targets: Tensor, noise: float, part: slice
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return means and variances, and what covariances and targets solve to."""
        unit = without_neighbors(unit, self.dropped[part])
        shares = 1.0 / self.weights[part].to(unit)
        factors, _ = shifted_choleskys(unit[:, 1:, 1:], noise * shares)
        right = torch.cat([unit[:, 1:, :1], targets[:, 1:]], dim=2)
        solved = back_solve(factors, half_solve(factors, right))
        cross, duals = solved[:, :, 0], solved[:, :, 1:]
        mean = torch.einsum("bi,bic->bc", unit[:, 0, 1:], duals)
        explained = (unit[:, 0, 1:] * cross).sum(1)
        var = (unit[:, 0, 0] - explained).clamp(min=0.0) + noise
        return mean, var, cross, duals


def _by_unit(by_var: Tensor, cross: Tensor, pulled: Tensor) -> Tensor:
    """Return the derivatives by Gram matrices of mean prior variance 1."""
    b, k = cross.shape
    by_unit = cross.new_empty(b, 1 + k, 1 + k)
    by_unit[:, 0, 0] = by_var
    by_unit[:, 0, 1:] = 0.5 * pulled - by_var[:, None] * cross
    by_unit[:, 1:, 0] = by_unit[:, 0, 1:]
    outer = cross[:, :, None] * pulled[:, None, :]
    squares = cross[:, :, None] * cross[:, None, :]
    by_unit[:, 1:, 1:] = by_var[:, None, None] * squares - (outer + outer.mT) / 2.0
    return by_unit


@dataclass(frozen=True)
class StackEvaluator:
    """Gram matrices of many small batches beside each other, and their derivatives.

    The indices of a batch (m, b) are those of m batches of b samples.

    Parameters
    ----------
    one : Evaluator
        Evaluates one of them.
    """

    one: Evaluator

    def gram(self, kernel: Kernel, batch: Batch) -> Tensor:
        """Return the Gram matrices (m, b, b)."""
        return torch.stack([self.one.gram(kernel, part) for part in _parts(batch)])

    def gram_with_tangents(self, kernel: Kernel, batch: Batch) -> Tensor:
        """Return the Gram matrices with derivatives by theta (m, b, b, 1 + p)."""
        return torch.stack(
            [self.one.gram_with_tangents(kernel, part) for part in _parts(batch)]
        )

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

    def bytes_stored(self, kernel: Kernel, batch: Batch) -> int:
        """Return the bytes of the matrices with their derivatives."""
        parts = _parts(batch)
        return len(parts) * self.one.bytes_stored(kernel, parts[0])


@dataclass(frozen=True)
class OneBatch:
    """Draws the same batch each time.

    Parameters
    ----------
    batch : Batch
        The batch.
    """

    batch: Batch

    def draw(self, size: int) -> Batch:
        """Return the batch; its size is what it is."""
        return self.batch


def _parts(batch: Batch) -> list[Batch]:
    return [Batch(indices) for indices in batch.indices]
