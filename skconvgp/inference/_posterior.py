"""Posterior mean, variance, covariance and samples, in units of the prior.

The prior covariance is K / mean diag; multiply variances by the amplitude.
"""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from skconvgp.linalg import factor_with_jitter_, symmetric_eigen

__all__ = [
    "Halves",
    "join_halves",
    "left_out_covariance",
    "posterior_mean",
    "sample_gaussian",
]


def posterior_mean(cross: Tensor, dual_coef: Tensor) -> Tensor:
    """Return K_* alpha (n1, k) (docs/maths.rst, "Posterior")."""
    return cross @ dual_coef


@dataclass(frozen=True)
class Halves:
    """What data change of a prior covariance K: it becomes K - A^T A + B^T B.

    Parameters
    ----------
    minus : Tensor of shape (r, n1) or None
        A: W with W^T W = K_* M^-1 K_*^T, or features of the samples. None takes all of
        K away.
    plus : Tensor of shape (r, n1) or None
        B: what is left of the covariance of the features, if there are any.
    """

    minus: Tensor | None
    plus: Tensor | None = None

    def variance(self, diag: Tensor) -> tuple[Tensor, float]:
        """Return the variances (n1,), and how far below zero rounding had taken one.

        Parameters
        ----------
        diag : Tensor of shape (n1,)
            Prior variances.
        """
        var, clipped = torch.zeros_like(diag), 0.0
        if self.minus is not None and len(diag):
            var = diag - (self.minus * self.minus).sum(0)
            clipped = float((-var).clamp(min=0.0).max())
            var = var.clamp(min=0.0)
        if self.plus is not None:
            var = var + (self.plus * self.plus).sum(0)
        return var, clipped

    def covariance(self, prior: Tensor) -> Tensor:
        """Return the covariance (n1, n1), from that of the prior."""
        cov = torch.zeros_like(prior)
        if self.minus is not None:
            cov = prior - self.minus.mT @ self.minus
        if self.plus is None:
            return cov
        if self.minus is not None:
            cov = left_out_covariance(cov)
        return cov + self.plus.mT @ self.plus


def left_out_covariance(rest: Tensor) -> Tensor:
    """Return what features leave out of a covariance (n1, n1), as a covariance.

    Features that were completed may take away more than there is. A variance below
    zero becomes zero, and so does a negative part of the matrix; what that adds to the
    other variances is taken away from all that the sample has in common with others.
    """
    values, vectors = symmetric_eigen(rest)  # which clips them
    cov = (vectors * values) @ vectors.mT
    tiny = torch.finfo(rest.dtype).tiny
    own = rest.diagonal().clamp(min=0.0)
    scale = (own / cov.diagonal().clamp(min=tiny)).sqrt()
    return scale[:, None] * cov * scale


def join_halves(parts: list[Halves]) -> Halves:
    """Return those of all samples from those of some after the other."""

    def joined(halves: list[Tensor | None]) -> Tensor | None:
        present = [half for half in halves if half is not None]
        return torch.cat(present, dim=1) if present else None

    return Halves(
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
    """Draw from Gaussians with a common covariance.

    Parameters
    ----------
    mean : Tensor of shape (n, k)
        One column for each output.
    covariance : Tensor of shape (n, n)
        Positive semi-definite.
    n_samples : int
        Draws.
    generator : torch.Generator
        Source of randomness.
    scale : float
        Size of the matrices that the covariance is a difference of: its rounding
        errors, and so the jitter, are a share of that.

    Returns
    -------
    samples : Tensor of shape (n, k, n_samples)
        Independent over outputs and draws.

    Raises
    ------
    NotPSDError
        If the covariance is not positive semi-definite.
    """
    factor = factor_with_jitter_(covariance, scale)
    n, n_outputs = mean.shape
    noise = torch.randn(n, n_outputs * n_samples, generator=generator, dtype=mean.dtype)
    draws = factor @ noise.to(factor.device)
    return mean[:, :, None] + draws.reshape(n, n_outputs, n_samples)
