"""The density of left-out samples given their neighbours, as a function of a kernel.

Neighbours do not depend on the hyperparameters, so the density is smooth in them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from skconvgp._protocols import Score
from skconvgp._settings import FIXED
from skconvgp._typing import Bounds
from skconvgp.engine import slices
from skconvgp.exceptions import NotPSDError
from skconvgp.inference import without_neighbors
from skconvgp.linalg import back_solve, half_solve, shifted_choleskys

# Values of the Gram matrices of which copies are made at a time.
AT_ONCE = 2**20


@dataclass(frozen=True)
class Sites:
    """Predictions of left-out samples from their neighbours."""

    mean: Tensor  # (m, c)
    var: Tensor  # (m,), with the noise
    cross: Tensor  # (m, k), solutions for the covariances with the neighbours
    duals: Tensor  # (m, k, c), solutions for the targets of the neighbours


@dataclass(frozen=True)
class Slopes:
    """A value, and the parts of its derivatives by Gram matrices."""

    value: float
    by_noise: float  # derivative by the noise variance
    by_var: Tensor  # (m,), derivatives by the variances
    cross: Tensor  # (m, k), solutions for the covariances with the neighbours
    # (m, k), solutions for the targets, times the derivatives by the means.
    pulled: Tensor
    by_scale: Tensor  # (), derivative of the mean variance by each diagonal entry


@dataclass(frozen=True)
class LeftOutDensity:
    r"""Negative log density of left-out targets, with the amplitude profiled out.

    .. math:: \frac 1 {2 m} \sum_i \log v_i + \frac 1 2 \log 2 \pi A + \frac 1 2, \quad
              A = \frac 1 {m k} \sum_{i, c} (y_{ic} - \mu_{ic})^2 / v_i

    with mean and variance of each of m samples by `local_posterior`, and the noise
    added to the variance. It is a mean over targets.
    """

    weights: Tensor = field(repr=False)  # (m, k), of the neighbours
    # True (m, k) for neighbours whose inputs equal those of the sample: they are left
    # out, too.
    dropped: Tensor = field(repr=False)
    noise_variance: float  # as a share of the mean prior variance
    noise_variance_bounds: Bounds = FIXED  # bounds between which the noise is learned

    def count(self, n: int) -> int:
        """Return 1: a single sample is left out of its neighbours."""
        return 1

    def score(
        self, gram: Tensor, targets: Tensor, noise_variance: float | None = None
    ) -> Score:
        """Return the value and its derivatives.

        The sample that is left out comes first in the Gram matrices (m, 1 + k, 1 + k)
        and in the targets (m, 1 + k, c). `noise_variance` replaces the objective's.
        """
        noise = self.noise_of(noise_variance)
        scale = mean_variance(gram.diagonal(dim1=1, dim2=2))
        parts = slices(len(gram), max(1, AT_ONCE // gram[0].numel()))
        sites = self.sites(lambda part: gram[part], parts, targets, noise, scale)
        slopes = self.slopes(sites, targets[:, 0], noise)
        by_gram = torch.empty_like(gram)
        for part in parts:
            by_gram[part] = self.by_grams(slopes, part)
        return Score(slopes.value, by_gram.div_(scale), noise * slopes.by_noise)

    def noise_of(self, noise_variance: float | None) -> float:
        """Return a noise variance, by default the objective's own."""
        return self.noise_variance if noise_variance is None else noise_variance

    def sites(
        self,
        grams: Callable[[slice], Tensor],
        parts: Sequence[slice],
        targets: Tensor,
        noise: float,
        scale: Tensor,
    ) -> Sites:
        """Return the predictions of all left-out samples, some of them at a time.

        `grams` returns the Gram matrices (b, 1 + k, 1 + k) of a slice; the slices go
        from the first sample to the last. The targets (m, 1 + k, c) are as in `score`.
        Matrices are divided by the mean prior variance `scale`.
        """
        found = [
            self._sites(grams(part) / scale, targets[part], noise, part)
            for part in parts
        ]
        return Sites(*(torch.cat(one) for one in zip(*found, strict=True)))

    def slopes(self, sites: Sites, targets: Tensor, noise: float) -> Slopes:
        """Return the value, and its derivatives by all but the Gram matrices.

        `sites` has the predictions of all samples, whose targets are (m, c).
        """
        error, var, cross = targets - sites.mean, sites.var, sites.cross
        m, n_outputs = error.shape
        ratios = error.square().mean(1) / var
        amplitude = ratios.mean()
        value = 0.5 * (var.log().mean() + torch.log(2.0 * math.pi * amplitude) + 1.0)
        by_var = (1.0 - ratios / amplitude) / (2.0 * m * var)
        by_mean = -error / (amplitude * m * n_outputs * var[:, None])
        pulled = torch.einsum("bic,bc->bi", sites.duals, by_mean)
        shares = 1.0 / self.weights.to(cross)
        # By K and by the noise: of a variance and of a mean, with <dF/dK, K> for K.
        squares, products = (shares * cross * other for other in (cross, pulled))
        of_squares, of_products = squares.sum(1), products.sum()
        by_noise = (by_var * (1.0 + of_squares)).sum() - of_products
        by_scale = (by_var * (var - noise - noise * of_squares)).sum()
        by_scale += noise * of_products
        # Each diagonal entry also changes the mean diagonal, the divisor of all.
        n_diagonal = m * (1 + cross.shape[1])
        return Slopes(
            float(value), float(by_noise), by_var, cross, pulled, by_scale / n_diagonal
        )

    def by_grams(self, slopes: Slopes, part: slice) -> Tensor:
        """Return the derivatives by some Gram matrices, times the mean variance."""
        by_unit = _by_unit(slopes.by_var[part], slopes.cross[part], slopes.pulled[part])
        by_gram = without_neighbors(by_unit, self.dropped[part])
        by_gram.diagonal(dim1=1, dim2=2).sub_(slopes.by_scale)
        return by_gram

    def _sites(
        self, unit: Tensor, targets: Tensor, noise: float, part: slice
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return means and variances, and the solutions of covariances and targets."""
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


def mean_variance(diagonals: Tensor) -> Tensor:
    """Return the mean of prior variances; raise if it is not a positive number."""
    scale = diagonals.mean()
    if not (torch.isfinite(scale) and scale > 0.0):
        raise NotPSDError(f"The mean prior variance is {float(scale)}.")
    return scale
