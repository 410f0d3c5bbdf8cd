"""Posterior mean, variance, covariance and samples, in units of the prior.

The prior covariance is K / mean diag; multiply variances by the amplitude.
"""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from skconvgp._tensors import normals
from skconvgp.linalg import factor_with_jitter_, symmetric_eigen

__all__ = [
    "CovarianceUpdate",
    "join_updates",
    "left_out_covariance",
    "posterior_mean",
    "sample_gaussian",
]


def posterior_mean(cross: Tensor, dual_coef: Tensor) -> Tensor:
    """Return K_* alpha (n1, k) (docs/maths.rst, "Posterior")."""
    return cross @ dual_coef


@dataclass(frozen=True)
class CovarianceUpdate:
    """Update of a prior covariance K by the data: it becomes K - A^T A + B^T B."""

    # A (r, n1), with A^T A = K_* M^-1 K_*^T; or the features of the samples. None
    # removes all of K.
    minus: Tensor | None
    # B (r, n1), with B^T B the posterior covariance of the features; None without
    # features.
    plus: Tensor | None = None

    def variance(self, diag: Tensor) -> tuple[Tensor, Tensor]:
        """Return the variances (n1,), and how far rounding took one below zero.

        `diag` (n1,) holds the prior variances.
        """
        var, clipped = torch.zeros_like(diag), diag.new_zeros(())
        if self.minus is not None and len(diag):
            var = diag - (self.minus * self.minus).sum(0)
            clipped = (-var).clamp(min=0.0).max()
            var = var.clamp(min=0.0)
        if self.plus is not None:
            var = var + (self.plus * self.plus).sum(0)
        return var, clipped

    def covariance(self, prior: Tensor) -> Tensor:
        """Return the posterior covariance (n1, n1), given the prior covariance."""
        cov = torch.zeros_like(prior)
        if self.minus is not None:
            cov = prior - self.minus.mT @ self.minus
        if self.plus is None:
            return cov
        if self.minus is not None:
            cov = left_out_covariance(cov)
        return cov + self.plus.mT @ self.plus


def left_out_covariance(residual: Tensor) -> Tensor:
    """Return a covariance near the residual K - F F^T (n1, n1) of features F.

    The residual of completed features may be indefinite. Negative eigenvalues and
    negative variances are set to zero. Clipping eigenvalues raises variances; rows and
    columns are scaled so that they are those of the residual again.
    """
    values, vectors = symmetric_eigen(residual)  # clips negative eigenvalues to 0
    cov = (vectors * values) @ vectors.mT
    tiny = torch.finfo(residual.dtype).tiny
    var = residual.diagonal().clamp(min=0.0)
    scale = (var / cov.diagonal().clamp(min=tiny)).sqrt()
    return scale[:, None] * cov * scale


def join_updates(parts: list[CovarianceUpdate]) -> CovarianceUpdate:
    """Return the update of all samples, given the updates of consecutive blocks."""

    def joined(halves: list[Tensor | None]) -> Tensor | None:
        present = [half for half in halves if half is not None]
        return torch.cat(present, dim=1) if present else None

    return CovarianceUpdate(
        joined([part.minus for part in parts]), joined([part.plus for part in parts])
    )


def sample_gaussian(
    mean: Tensor,
    covariance: Tensor,
    n_samples: int,
    generator: Generator,
    *,
    scale: float,
) -> Tensor:
    """Draw (n, k, n_samples) from Gaussians with a common covariance (n, n).

    There is one mean (n,) for each of k outputs. Draws are independent over outputs.
    `scale` is the size of the two matrices whose difference is the covariance. Its
    rounding errors are in proportion to it, and so is the jitter. Raises a
    `NotPSDError` if the covariance is not positive semi-definite.
    """
    factor = factor_with_jitter_(covariance, scale)
    n, n_outputs = mean.shape
    noise = normals((n, n_outputs * n_samples), generator, mean.dtype)
    draws = factor @ noise.to(factor.device)
    return mean[:, :, None] + draws.reshape(n, n_outputs, n_samples)
