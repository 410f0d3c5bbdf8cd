"""Weights of a sum of covariances, chosen by what left-out samples say.

The criterion and its derivatives: docs/maths.rst, "Sums of parts".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor

from skconvgp._tensors import int_range
from skconvgp._typing import FloatArray
from skconvgp.inference._evidence import mean_variance
from skconvgp.inference._noise import LARGEST
from skconvgp.linalg import cholesky_inverse, plain_cholesky, solve_blocks

__all__ = [
    "LeftOutSamples",
    "Mixture",
    "WeightedSum",
    "choose_mixture",
    "left_out_errors",
    "mixed",
    "restored",
]

STRENGTH = 6.0  # of the prior of the shares: it counts as much as so many samples
OF_DENSITY = 0.5  # factor of the log density of targets beside the log loss of labels
FARTHEST = 12.0  # logarithms of shares, before they are scaled to the sum 1
NOISE_START, TEMPERATURE_START = 0.05, 0.3
TEMPERATURES = (1e-3, 1e2)
# Where a search ends: the shares are uncertain by much more.
STEPS, TOLERANCE, SLOPE = 100, 1e-4, 1e-3
IMPOSSIBLE = 1e10  # the criterion where a matrix has no factor


@dataclass(frozen=True)
class LeftOutSamples:
    """Samples with different inputs, which are left out alone or in groups."""

    targets: Tensor  # (n, k), of mean 0
    weights: Tensor  # (n,)
    # (n, c), share of each class in the labels of a sample; None without classes.
    shares: Tensor | None = None
    # Indices (g, s) of groups of s samples that are left out together, for each s.
    groups: Sequence[Tensor] | None = None
    # (n,), whether others have the class of a sample; read if there are classes.
    is_known: Tensor | None = None
    # (n, c), factors of scores, as in `restored`; None without groups or classes.
    class_factors: Tensor | None = None

    @property
    def blocks(self) -> list[Tensor]:
        """Indices (g, s) of samples that are left out together, for each s."""
        if self.groups is not None:
            return list(self.groups)
        n = len(self.targets)
        return [int_range(n, self.targets.device)[:, None]]

    @property
    def n_units(self) -> int:
        """How many samples or groups are left out, one at a time."""
        return sum(len(one) for one in self.blocks)

    @cached_property
    def expected(self) -> Tensor:
        """Label shares (n, c) with a pseudo-count: one wrong label among all."""
        assert self.shares is not None
        c, wrong = self.shares.shape[1], 1.0 / self.n_units
        spread = (1.0 - self.shares) / (c - 1)
        return (1.0 - wrong) * self.shares + wrong * spread

    @cached_property
    def counts(self) -> Tensor:
        """Weights (n,) of the log losses of samples, of sum 1."""
        counts = self.weights
        if self.is_known is not None and bool(self.is_known.any()):
            counts = torch.where(self.is_known, counts, 0.0)
        return counts / counts.sum()

    @cached_property
    def lowest(self) -> Tensor:
        """Targets (k,) of other classes: latent means are compared above these."""
        return self.targets.amin(0)

    def criterion(
        self, blocks: list[Tensor], duals: Tensor, log_temperature: Tensor
    ) -> Tensor:
        """Return what is minimised, but for the prior of the shares.

        Blocks (g, s, s) are of the inverse (K + N)^-1, and duals (n, k) are that times
        the targets. Densities are of each sample by itself: samples of a group are
        alike, and their joint density would praise what tells groups apart.
        """
        residuals = torch.empty_like(self.targets)
        logs, quadratic = duals.new_zeros(()), duals.new_zeros(())
        for indices, block in zip(self.blocks, blocks, strict=True):
            error, variances = left_out_errors(block, duals[indices])
            logs = logs + variances.log().sum()
            quadratic = quadratic + (error.square() / variances[..., None]).sum()
            residuals = residuals.index_put((indices,), error)
        n, k = self.targets.shape
        # The amplitude that is best for these errors; with it they have size 1.
        amplitude = quadratic / (n * k)
        density = (math.log(2.0 * math.pi) + amplitude.log() + 1.0 + logs / n) / 2.0
        if self.shares is None:
            return density
        scores = self.targets - residuals - self.lowest
        if self.class_factors is not None:
            scores = restored(scores, self.class_factors)
        if scores.shape[1] == 1:
            scores = torch.cat([torch.zeros_like(scores), scores], 1)
        log_probs = torch.log_softmax(scores * (-log_temperature).exp(), 1)
        loss = -(self.counts[:, None] * self.expected * log_probs).sum()
        return loss + OF_DENSITY * density


@dataclass(frozen=True)
class WeightedSum:
    """A sum of covariances, each in the unit of its functions, and its settings."""

    grams: Sequence[Tensor]  # p of (n, n)
    # (p,), shares that are given; NaN for those that are chosen.
    given: FloatArray
    # (p,), shares that the prior prefers; those to choose are scaled to the sum 1.
    preferred: FloatArray
    noise: float | None = None  # relative to the mean variance; None chooses it
    least_noise: float = 1e-6  # of those that may be chosen

    @cached_property
    def is_free(self) -> NDArray[np.bool_]:
        """Whether each share (p,) is chosen."""
        return np.isnan(self.given)

    @cached_property
    def room(self) -> float:
        """Sum of the shares that are chosen."""
        return float(1.0 - np.nansum(self.given))

    @cached_property
    def wanted(self) -> FloatArray:
        """Preferred shares, among those that are chosen, of sum 1."""
        wanted = self.preferred[self.is_free]
        return np.asarray(wanted / wanted.sum() if len(wanted) else wanted)

    def shares(self, logs: FloatArray) -> FloatArray:
        """Return all shares (p,), given logarithms of those to choose."""
        shares = np.array(self.given)
        shares[self.is_free] = self.room * _softmax(logs)
        return shares

    def prior(self, logs: FloatArray, n: int) -> tuple[float, FloatArray]:
        """Return the prior of the shares, for n samples, and its slopes."""
        if len(logs) < 2:
            return 0.0, np.zeros(len(logs))
        own, strength = _softmax(logs), STRENGTH / n
        value = -strength * float(self.wanted @ np.log(own))
        return value, -strength * (self.wanted - own)


@dataclass(frozen=True)
class Mixture:
    """Shares of a sum, and what they are worth."""

    shares: FloatArray  # (p,), of sum 1
    noise: float  # relative to the mean variance of the sum
    temperature: float  # of the log loss of labels
    value: float  # of the criterion, with the prior of the shares
    left_out: float  # of the criterion alone
    logs: FloatArray = field(repr=False)  # of the shares that are chosen


def restored(scores: Tensor, class_factors: Tensor) -> Tensor:
    """Return left-out scores (n, c) as they were if no group had been left out whole.

    Scores are latent means above those of other classes, about the share of a class
    among the neighbours of a sample. Without a group these have less of its class, by a
    factor (n, c), however alike the sample is to the others: with a few groups a class
    all left-out answers would be wrong. What is below 0 says nothing of a share.
    """
    return scores + (class_factors - 1.0) * scores.clamp(min=0.0)


def left_out_errors(block: Tensor, duals: Tensor) -> tuple[Tensor, Tensor]:
    """Return errors (g, s, k) of left-out blocks (g, s, s), and variances (g, s)."""
    if block.shape[1] == 1:
        return duals / block, 1.0 / block[:, :, 0]
    size = block.shape[1]
    one = torch.diag_embed(torch.ones_like(block[:, 0]))
    solved = solve_blocks(block, torch.cat([duals, one], 2))
    return solved[..., :-size], solved[..., -size:].diagonal(dim1=1, dim2=2)


def mixed(grams: Sequence[Tensor], shares: FloatArray) -> Tensor:
    """Return the weighted sum (n, n) of matrices."""
    total = torch.zeros_like(grams[0])
    for gram, share in zip(grams, shares.tolist(), strict=True):
        if share:
            total.add_(gram, alpha=share)
    return total


def choose_mixture(
    total: WeightedSum, samples: LeftOutSamples, start: Mixture | None = None
) -> Mixture:
    """Return the shares, noise and temperature of the smallest criterion.

    L-BFGS follows its derivatives from the preferred shares, or from another mixture
    of these matrices; each step takes a factor and an inverse of a matrix (n, n).
    """
    search = _Search(total, samples)
    first, bounds = search.first(start), search.bounds
    options = {"maxiter": STEPS, "ftol": TOLERANCE, "gtol": SLOPE}
    found = minimize(
        search, first, jac=True, method="L-BFGS-B", bounds=bounds, options=options
    )
    logs, noise, log_temperature = search.read(found.x)
    prior, _ = total.prior(logs, len(samples.targets))
    value, temperature = float(found.fun), math.exp(log_temperature)
    shares = total.shares(logs)
    return Mixture(shares, noise, temperature, value, value - prior, logs)


@dataclass(frozen=True)
class _Search:
    """What is minimised, as a function of logarithms of shares, noise, temperature."""

    total: WeightedSum
    samples: LeftOutSamples

    @cached_property
    def units(self) -> FloatArray:
        """Mean variances (p,) of the matrices."""
        of = self.samples.weights
        units = [mean_variance(g.diagonal(), of) for g in self.total.grams]
        return np.array(units, dtype=np.float64)

    @cached_property
    def n_free(self) -> int:
        """How many shares are chosen."""
        return int(self.total.is_free.sum())

    @property
    def bounds(self) -> FloatArray:
        """Bounds (d, 2) of what is chosen."""
        pairs = [(-FARTHEST, FARTHEST)] * self.n_free
        if self.total.noise is None:
            pairs.append((math.log(self.total.least_noise), math.log(LARGEST)))
        pairs.append((math.log(TEMPERATURES[0]), math.log(TEMPERATURES[1])))
        return np.array(pairs)

    def first(self, start: Mixture | None) -> FloatArray:
        """Return where to begin (d,)."""
        logs, rest = np.log(self.total.wanted), [NOISE_START, TEMPERATURE_START]
        if start is not None:
            logs, rest = start.logs, [start.noise, start.temperature]
        logs = logs - logs.max() if len(logs) else logs
        rest = rest if self.total.noise is None else rest[1:]
        first: FloatArray = np.concatenate([logs, np.log(rest)])
        return np.asarray(first.clip(*self.bounds.T))

    def read(self, at: FloatArray) -> tuple[FloatArray, float, float]:
        """Return logarithms of shares, the noise, and that of the temperature."""
        logs, rest = at[: self.n_free], at[self.n_free :]
        noise = self.total.noise
        return logs, math.exp(rest[0]) if noise is None else noise, float(rest[-1])

    def __call__(self, at: FloatArray) -> tuple[float, FloatArray]:
        """Return the criterion with the prior of the shares, and its derivatives."""
        total, (logs, noise, log_temperature) = self.total, self.read(at)
        shares = total.shares(logs)
        unit = float(self.units @ shares)
        found = _slopes(total, self.samples, shares, noise * unit, log_temperature)
        if found is None:
            return IMPOSSIBLE, np.zeros_like(at)
        criterion, by_gram, slope = found
        of_noise = (by_gram.diagonal() / self.samples.weights).sum()
        each = [by_gram.flatten() @ one.flatten() for one in total.grams]
        # From a GPU, all are read at once.
        numbers = torch.stack([criterion, slope, of_noise, *each]).tolist()
        value, by_temperature, by_noise = numbers[:3]
        by_shares = np.array(numbers[3:])
        by_shares += noise * self.units * by_noise
        own, chosen = _softmax(logs), total.room * by_shares[total.is_free]
        prior, by_logs = total.prior(logs, len(self.samples.targets))
        slopes = [*(own * (chosen - own @ chosen) + by_logs)]
        if total.noise is None:
            slopes.append(by_noise * noise * unit)
        return value + prior, np.array([*slopes, by_temperature])


def _slopes(
    total: WeightedSum,
    samples: LeftOutSamples,
    shares: FloatArray,
    noise: float,
    log_temperature: float,
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Return the criterion, its derivatives by K + N and by the log temperature.

    None if K + N has no factor. For M = (K + N)^-1 and A = M Y, the derivative is that
    by M and by A, taken through dM = -M dK M.
    """
    whole = mixed(total.grams, shares)
    whole.diagonal().add_(noise / samples.weights)
    factor = plain_cholesky(whole)
    if factor is None:
        return None
    inverse = cholesky_inverse(factor)
    duals = (inverse @ samples.targets).requires_grad_()
    indices = samples.blocks
    blocks = [
        inverse[one[:, :, None], one[:, None]].requires_grad_() for one in indices
    ]
    logs = duals.new_full((), log_temperature).requires_grad_()
    value = samples.criterion(blocks, duals, logs)
    by_duals, by_logs, *by_blocks = torch.autograd.grad(
        value, [duals, logs, *blocks], allow_unused=True
    )
    if len(indices) == 1 and indices[0].shape[1] == 1:
        middle = inverse * by_blocks[0].reshape(-1)
    else:
        by_inverse = torch.zeros_like(inverse)
        for one, slopes in zip(indices, by_blocks, strict=True):
            by_inverse[one[:, :, None], one[:, None]] = slopes
        middle = inverse @ by_inverse
    # Matrices of parts are symmetric: the product with a matrix is that with its mean
    # with its transpose.
    by_gram = middle @ inverse
    by_gram.addmm_(inverse @ by_duals, duals.detach().mT).neg_()
    slope = torch.zeros_like(logs) if by_logs is None else by_logs
    return value.detach(), by_gram, slope


def _softmax(logs: FloatArray) -> FloatArray:
    """Return shares of sum 1."""
    if not len(logs):
        return logs
    powers: FloatArray = np.exp(logs - logs.max())
    return np.asarray(powers / powers.sum())
