"""Posterior mean, variance, covariance and samples, in units of the prior.

The prior covariance is K / mean diag; multiply variances by the amplitude.
"""

import torch
from torch import Generator, Tensor

from skconvgp.linalg import factor_with_jitter_

__all__ = [
    "posterior_covariance",
    "posterior_mean",
    "posterior_variance",
    "sample_gaussian",
]


def posterior_mean(cross: Tensor, dual_coef: Tensor) -> Tensor:
    """Return K_* alpha (n1, k) (maths.md 4.1)."""
    return cross @ dual_coef


def posterior_variance(half: Tensor, diag: Tensor) -> tuple[Tensor, float]:
    """Return the variances (n1,), and how far below zero rounding had taken one.

    Parameters
    ----------
    half : Tensor of shape (n, n1)
        W with W^T W = K_* M^-1 K_*^T, from the solver.
    diag : Tensor of shape (n1,)
        Prior variances.
    """
    var = diag - (half * half).sum(0)
    clipped = float((-var).clamp(min=0.0).max()) if len(var) else 0.0
    return var.clamp(min=0.0), clipped


def posterior_covariance(half: Tensor, prior: Tensor) -> Tensor:
    """Return the covariance (n1, n1): K_** - W^T W."""
    return prior - half.mT @ half


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
