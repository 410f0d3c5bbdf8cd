"""Variational posterior of the coefficients of features, by natural gradients.

The formulas: docs/maths.rst, "Variational inference".

Latent function c is f_c = F u_c plus what the features leave out, with u_c ~ N(0, I) a
priori and q(u_c) = N(m_c, S_c). The natural parameters are the precision S_c^-1 and the
shift S_c^-1 m_c.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from skconvgp._protocols import ExpectedSites
from skconvgp.linalg import (
    cholesky_inverse_diag,
    cholesky_logdet,
    cholesky_solve,
    half_solve,
    shifted_cholesky_,
)

__all__ = ["Coefficients", "NaturalPosterior", "gaussian_sites"]

ROWS = 4096  # of features that are solved for at once


@dataclass(frozen=True)
class Coefficients:
    """Posterior N(m, S) of the coefficients of one latent function."""

    factor: Tensor  # (r, r), lower Cholesky factor of the inverse of S
    mean: Tensor  # m (r,)

    def marginals(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return means (b,) and variances (b,) of F u, given features (b, r)."""
        means, variances = [], []
        for rows in torch.split(features, ROWS):
            given = rows.to(self.factor)
            means.append(given @ self.mean)
            variances.append(half_solve(self.factor, given.mT).square().sum(0))
        return torch.cat(means), torch.cat(variances)

    def pulled(self, features: Tensor, by_mean: Tensor, by_var: Tensor) -> Tensor:
        """Return derivatives (b, r) by features, given those by `marginals` (b,)."""
        solved = cholesky_solve(self.factor, features.to(self.factor).mT).mT
        return by_mean[:, None] * self.mean + 2.0 * by_var[:, None] * solved

    def divergence(self) -> Tensor:
        """Return the Kullback-Leibler divergence of the posterior from N(0, I)."""
        trace = cholesky_inverse_diag(self.factor).sum()
        logdet = cholesky_logdet(self.factor)
        return 0.5 * (trace + self.mean.square().sum() - len(self.mean) + logdet)


@dataclass(frozen=True)
class NaturalPosterior:
    """Natural parameters of the posterior of k latent functions, changed by steps."""

    precision: Tensor  # (k, r, r), inverses of the covariances S
    shift: Tensor  # (k, r), precisions times means

    @classmethod
    def near(cls, moment: Tensor, mean: Tensor) -> NaturalPosterior:
        """Return the posterior with precisions I + moment (r, r) and means (r, k)."""
        precision = moment.expand(mean.shape[1], *moment.shape).clone()
        precision.diagonal(dim1=1, dim2=2).add_(1.0)
        return cls(precision, (precision @ mean.mT[:, :, None])[:, :, 0])

    def copied_to(self, device: torch.device) -> NaturalPosterior:
        """Return a copy, which steps change apart from this one."""
        parts = self.precision, self.shift
        return NaturalPosterior(*(one.to(device, copy=True) for one in parts))

    def coefficients(self) -> Iterator[Coefficients]:
        """Yield the posteriors of the latent functions, one after the other."""
        for precision, shift in zip(self.precision, self.shift, strict=True):
            zeros = torch.zeros_like(shift)
            factor, _ = shifted_cholesky_(precision, zeros)
            yield Coefficients(factor, cholesky_solve(factor, shift[:, None])[:, 0])

    def step_(
        self,
        features: Tensor,
        mean: Tensor,
        gradient: Tensor,
        curvature: Tensor,
        *,
        rate: float,
    ) -> None:
        """Take a step along the natural gradient of the bound.

        The features of a batch are (b, r), the means of F u (b, k). `gradient` (b, k)
        holds the first derivatives of the expected log likelihood by the means, and
        `curvature` (b, k) minus the second ones, >= 0; both are multiplied by weights
        that let the batch stand for all samples. The rate, at most 1, is the share of
        the way to the parameters that the batch asks for.
        """
        response = features.mT @ (gradient + curvature * mean)
        self.shift.mul_(1.0 - rate).add_(response.mT, alpha=rate)
        for precision, share in zip(self.precision, curvature.mT, strict=True):
            scaled = features * share.sqrt()[:, None]
            precision.addmm_(scaled.mT, scaled, beta=1.0 - rate, alpha=rate)
            precision.diagonal().add_(rate)

    def factored_(self) -> list[Coefficients]:
        """Return the posteriors, with factors in the place of the precisions."""
        ended = []
        for place, one in zip(self.precision, self.coefficients(), strict=True):
            ended.append(Coefficients(place.copy_(one.factor), one.mean))
        return ended


def gaussian_sites(
    mean: Tensor, var: Tensor, targets: Tensor, noise: Tensor
) -> ExpectedSites:
    """Return the expected log density of targets, and its derivatives by the means.

    Means and variances of the latent functions, and targets, are (b, k), the noise is
    (k,).
    """
    rest, precision = targets - mean, (1.0 / noise).expand(mean.shape)
    spread = (rest.square() + var) * precision
    log_prob = -0.5 * (math.log(2.0 * math.pi) - precision.log() + spread)
    return ExpectedSites(log_prob.sum(1), rest * precision, precision)
