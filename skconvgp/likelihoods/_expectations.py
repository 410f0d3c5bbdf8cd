"""Probabilities of classes, averaged over Gaussian latents."""

import math
from typing import Any

import torch
from numpy.polynomial.hermite import hermgauss
from torch import Tensor
from torch.quasirandom import SobolEngine

from skconvgp._settings import is_int, require
from skconvgp._tensors import reals
from skconvgp.linalg import symmetric_eigen

__all__ = [
    "antithetic_draws",
    "drawn_softmax",
    "logit_expectation",
    "normal_cdf",
    "probit_expectation",
    "require_draws",
    "softmax_expectation",
]

MOST_DRAWS = 2**20  # of a latent function
N_DRAWS, DRAWS_SEED = 512, 0  # docs/maths.rst, "Averages over latent functions"
# Sobol points are multiples of 2^-30 and may be 0, which has no normal quantile.
SMALLEST = 2.0**-31
N_NODES = 64  # docs/maths.rst, "Averages over latent functions"
VALUES = 1 << 22  # numbers in a table of rows, draws and classes: 32 MiB
# Variance at which the rule changes: each rule has errors below 1e-12 there and on its
# side. Step and half width of the trapezoids of the second rule.
WIDE, STEP, REACH = 2.0, 0.5, 40.0


def require_draws(part: Any) -> None:
    """Raise unless a number of draws is even, and neither too small nor too large."""
    is_even = is_int(part.n_draws, least=2, most=MOST_DRAWS) and part.n_draws % 2 == 0
    require(part, "n_draws", is_even, f"an even int from 2 to {MOST_DRAWS}")


def antithetic_draws(n_outputs: int, n_draws: int = N_DRAWS) -> Tensor:
    """Return standard normal draws (n_draws, n_outputs), the same in every process.

    The second half is the negative of the first. These are Sobol points, more evenly
    spread than independent draws: errors of expectations are about half of theirs.
    """
    points = SobolEngine(  # type: ignore[no-untyped-call]
        n_outputs, scramble=True, seed=DRAWS_SEED
    )
    uniform = points.draw(n_draws // 2, dtype=torch.float64)
    # The first one is the shift, which torch rounds to its default precision.
    uniform[0] = points.shift.to(torch.float64) / 2.0**points.MAXBIT
    half = torch.special.ndtri(uniform.clamp(SMALLEST, 1.0 - SMALLEST))
    return torch.cat([half, -half])


def softmax_expectation(mean: Tensor, cov: Tensor, n_draws: int = N_DRAWS) -> Tensor:
    """Return E[softmax(f)] (b, k): of two classes by quadrature, of more by draws.

    The latents f have means (b, k), and variances (b, k), if they are independent, or
    covariances (b, k, k). The number of draws is even.
    """
    if mean.shape[1] != 2:
        return drawn_softmax(mean, cov, antithetic_draws(mean.shape[1], n_draws))
    # Both probabilities are computed, as 1 minus a probability near 1 loses digits.
    var = cov.sum(1) if cov.ndim == 2 else _variance_of_difference(cov)
    gap = mean[:, 1] - mean[:, 0]
    return torch.stack([logit_expectation(-gap, var), logit_expectation(gap, var)], 1)


def drawn_softmax(mean: Tensor, cov: Tensor, draws: Tensor) -> Tensor:
    """Return E[softmax(f)] (b, k), the mean over draws (s, k) shared by all rows."""
    draws = draws.to(mean)
    size = max(1, VALUES // max(1, draws.numel()))
    probs = torch.empty_like(mean)
    for start in range(0, len(mean), size):
        rows = slice(start, start + size)
        latents = mean[rows, None, :] + _deviations(cov[rows], draws)
        probs[rows] = torch.softmax(latents, dim=2).mean(1)
    return probs


def logit_expectation(mean: Tensor, var: Tensor) -> Tensor:
    """Return E[1 / (1 + exp(-f))] (b,) for means (b,) and variances (b,).

    Narrow Gaussians are integrated by Gauss-Hermite quadrature. For wide ones the
    logistic function is almost a step between two nodes. It is also the probability
    that a logistic variable is below f, so that the normal distribution function can be
    averaged over that variable instead; the trapezoidal rule does so accurately.

    Far below 0, exp(f) is factored out of the logistic function. Multiplied by exp(f),
    a normal density has its mean shifted by the variance; the remaining factor
    1 / (1 + exp(f)) is not small, and its average has no large relative error.
    """
    is_far = mean + var < 0.0
    factor = torch.where(is_far, (mean + var / 2.0).exp(), 1.0)
    mean = torch.where(is_far, -(mean + var), mean)
    nodes, weights = (reals(part).to(mean) for part in hermgauss(N_NODES))
    spread = (2.0 * var.clamp(max=WIDE)).sqrt()[:, None]
    narrow = torch.sigmoid(mean[:, None] + spread * nodes) @ weights
    grid = torch.arange(
        -REACH, REACH + STEP, STEP, dtype=torch.float64, device="cpu"
    ).to(mean)
    spread = var.clamp(min=WIDE).sqrt()[:, None]
    below = normal_cdf((mean[:, None] - grid) / spread)
    wide = below @ (STEP * torch.sigmoid(grid) * torch.sigmoid(-grid))
    average = torch.where(var > WIDE, wide, narrow / math.sqrt(math.pi))
    return (factor * average).clamp(max=1.0)  # weights sum to 1 up to rounding


def probit_expectation(mean: Tensor, var: Tensor) -> Tensor:
    """Return E[Phi(f)] (b,) for means (b,) and variances (b,)."""
    return normal_cdf(mean / (1.0 + var).sqrt())


def normal_cdf(values: Tensor) -> Tensor:
    """Return Phi; unlike `torch.special.ndtr` it is accurate in the lower tail, too."""
    tail: Tensor = torch.special.erfc(values * -math.sqrt(0.5))
    return 0.5 * tail


def _variance_of_difference(cov: Tensor) -> Tensor:
    """Return Var(f_1 - f_0) (b,) from covariances (b, 2, 2)."""
    var = cov[:, 0, 0] + cov[:, 1, 1] - cov[:, 0, 1] - cov[:, 1, 0]
    return var.clamp(min=0.0)


def _deviations(cov: Tensor, draws: Tensor) -> Tensor:
    """Return draws (b, s, k) that have these variances or covariances.

    The symmetric root of a covariance does not depend on the signs of eigenvectors.
    """
    if cov.ndim == 2:
        return draws * cov.sqrt()[:, None, :]
    values, vectors = symmetric_eigen(cov)
    root = (vectors * values.sqrt()[:, None, :]) @ vectors.mT
    return draws @ root
