"""Draws of functions from a posterior by draws from the prior (Wilson et al., 2020)."""

from collections.abc import Callable

import torch
from torch import Generator, Tensor

__all__ = ["pathwise_coefficients"]


def pathwise_coefficients(
    solve: Callable[[Tensor], Tensor],
    prior_draws: Tensor,
    noise: Tensor,
    generator: Generator,
) -> Tensor:
    r"""Return M^-1 (f + eps) of draws f from the prior, with noise eps.

    With mean :math:`\mu`, a draw from the posterior at any new samples is

    .. math:: \mu(x_*) + f(x_*) - K_{*X} M^{-1} (f(X) + \varepsilon)

    Parameters
    ----------
    solve : callable
        Returns M^-1 times columns (n, s).
    prior_draws : Tensor of shape (n, s)
        Draws f at the training samples.
    noise : Tensor of shape (n,)
        Noise variances of the training samples.
    generator : torch.Generator
        Draws the noise.

    Returns
    -------
    coefficients : Tensor of shape (n, s)
        Dual coefficients of what is subtracted from each draw.

    References
    ----------
    Wilson, Borovitskiy, Terenin, Mostowsky and Deisenroth, "Efficiently sampling
    functions from Gaussian process posteriors", 2020, equation 13.
    """
    size = prior_draws.shape
    draws = torch.randn(size, generator=generator, dtype=torch.float64)
    return solve(prior_draws + draws.to(prior_draws) * noise.sqrt()[:, None])
