"""Posterior at each of many samples, given the few neighbours of that sample.

In Gram matrices (b, 1 + k, 1 + k) the sample comes first, then its k neighbours. They
are divided by the mean prior variance.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from skconvgp.inference._evidence import UNINFORMED, LeaveOneOut
from skconvgp.linalg import half_solve, shifted_choleskys, symmetric_eigen

__all__ = [
    "LeftOut",
    "local_posterior",
    "local_spectra",
    "without_neighbors",
]


def local_posterior(
    grams: Tensor, targets: Tensor, noise: Tensor
) -> tuple[Tensor, Tensor, float]:
    r"""Return means (b, c) and variances (b,), and the largest jitter.

    .. math:: \mu = K_{*N} (K_{NN} + \Lambda_N)^{-1} y_N, \quad
              \sigma^2 = K_{**} - K_{*N} (K_{NN} + \Lambda_N)^{-1} K_{N*}

    Variances may be a little below zero by rounding.

    The Gram matrices are (b, 1 + k, 1 + k), the targets of the neighbours (b, k, c),
    and their noise variances (b, k).
    """
    factors, jitter = shifted_choleskys(grams[:, 1:, 1:], noise)
    half = half_solve(factors, torch.cat([grams[:, 1:, :1], targets], dim=2))
    cross, whitened = half[:, :, 0], half[:, :, 1:]
    mean = torch.einsum("bk,bkc->bc", cross, whitened)
    return mean, grams[:, 0, 0] - cross.square().sum(1), jitter


def local_spectra(
    grams: Tensor, targets: Tensor, weights: Tensor, noises: Tensor
) -> tuple[Tensor, Tensor]:
    """Return means (b, g, c) and variances (b, g) for many noises (g,).

    Each matrix is decomposed once. Gram matrices and targets are as for
    `local_posterior`; the neighbours have weights (b, k). A noise is the variance of a
    single observation.
    """
    roots = weights.sqrt()
    values, vectors = symmetric_eigen(
        grams[:, 1:, 1:] * roots[:, :, None] * roots[:, None, :]
    )
    both = torch.cat([grams[:, 1:, :1], targets], dim=2) * roots[:, :, None]
    rotated = vectors.mT @ both
    cross, whitened = rotated[:, :, 0], rotated[:, :, 1:]
    scaled = cross[:, None, :] / (values[:, None, :] + noises[:, None])
    mean = scaled @ whitened
    explained = (scaled @ cross[:, :, None])[:, :, 0]
    return mean, (grams[:, :1, 0] - explained).clamp(min=0.0)


def without_neighbors(grams: Tensor, dropped: Tensor) -> Tensor:
    """Return Gram matrices in which the dropped neighbours are independent of all.

    `dropped` (b, k) is True for neighbours that are dropped from the matrices
    (b, 1 + k, 1 + k).
    """
    kept = torch.nn.functional.pad(~dropped, (1, 0), value=True)
    masked = grams * (kept[:, :, None] & kept[:, None, :])
    # Prior variances stay, so that the matrices remain positive definite.
    masked.diagonal(dim1=1, dim2=2).copy_(grams.diagonal(dim1=1, dim2=2))
    return masked


@dataclass(frozen=True)
class LeftOut:
    """Left-out targets and their predictions from neighbours, for many noises."""

    targets: Tensor  # (m, c)
    weights: Tensor  # (m,)
    mean: Tensor  # (m, g, c)
    var: Tensor  # (m, g), of the targets for amplitude 1, their noise included
    informs: Tensor  # (c,), which outputs determine an amplitude, as of `informative`

    def amplitude(self) -> Tensor:
        """Return weighted means (g, c) of squared errors divided by their variances.

        They are the amplitude that makes the predictive variances right on average.
        """
        tiny = torch.finfo(self.var.dtype).tiny  # targets that are all zero
        errors = (self.targets[:, None] - self.mean)[:, :, self.informs]
        shares = self.weights / self.weights.sum()
        shared = shares @ (errors.square().mean(2) / self._positive_var())
        return shared.clamp(min=tiny)[:, None].where(self.informs, UNINFORMED)

    def log_density(self, amplitude: Tensor) -> Tensor:
        """Return the log density (g,) of the targets, for amplitudes (g, c)."""
        var = self._positive_var()[:, :, None] * amplitude
        squares = (self.targets[:, None] - self.mean).square()
        density = -0.5 * (squares / var + torch.log(2.0 * math.pi * var))
        return self.weights @ density[:, :, self.informs].sum(2)

    def of_noise(self, index: int) -> LeaveOneOut:
        """Return the predictions for one of the noises."""
        return LeaveOneOut(self.mean[:, index], self.var[:, index])

    def _positive_var(self) -> Tensor:
        return self.var.clamp(min=torch.finfo(self.var.dtype).eps)
