"""Noise variance from one eigendecomposition."""

import math

import torch
from torch import Tensor

from skconvgp.inference._evidence import (
    leave_one_out,
    log_marginal_likelihood,
    profiled_amplitude,
)
from skconvgp.linalg import symmetric_eigen

__all__ = ["select_noise"]

# Relative noise variances: eight to a factor of ten.
LARGEST, SMALLEST_DECADES, PER_DECADE = 1e1, {torch.float64: 10, torch.float32: 6}, 8


def select_noise(
    gram: Tensor,
    targets: Tensor,
    weights: Tensor,
    *,
    criterion: str,
    amplitude: Tensor | None,
    precision: torch.dtype,
) -> float:
    """Choose the noise variance on a logarithmic grid.

    Parameters
    ----------
    gram : Tensor of shape (n, n)
        K with mean diagonal 1.
    targets : Tensor of shape (n, k)
        Y.
    weights : Tensor of shape (n,)
        Sample weights.
    criterion : {"loo", "evidence"}
        Leave-one-out log predictive density, or log evidence.
    amplitude : Tensor of shape (k,) or None
        Amplitude of each output; None profiles it out for each noise.
    precision : torch.dtype
        Coarsest precision that `gram` has gone through; it limits the smallest noise.

    Returns
    -------
    noise_variance : float
        The best value of the grid.
    """
    root = weights.sqrt()
    values, vectors = symmetric_eigen(gram * root[:, None] * root[None, :])
    rotated = vectors.mT @ (targets * root[:, None])
    squares = vectors * vectors
    best, best_score = LARGEST, -math.inf
    for noise in _grid(precision):
        inverse = 1.0 / (values + noise)
        dual = (vectors @ (rotated * inverse[:, None])) * root[:, None]
        scale = amplitude
        if scale is None:
            profiled = profiled_amplitude(targets, dual, weights)
            scale = torch.full_like(targets[0], profiled)
        if criterion == "evidence":
            logdet = (values + noise).log().sum() - weights.log().sum()
            quadratic = (rotated * rotated * inverse[:, None]).sum(0)
            score = log_marginal_likelihood(quadratic, logdet, scale, noise, weights)
        else:
            inverse_diag = (squares @ inverse) * weights
            loo = leave_one_out(targets, dual, inverse_diag, noise, weights)
            var = loo.var[:, None] * scale
            residual = targets - loo.mean
            density = -0.5 * (residual**2 / var + torch.log(2.0 * math.pi * var))
            score = (density * weights[:, None]).sum(0)
        if float(score.sum()) > best_score:
            best, best_score = noise, float(score.sum())
    return best


def _grid(dtype: torch.dtype) -> list[float]:
    decades = SMALLEST_DECADES[dtype] + 1
    return [
        LARGEST * 10.0 ** (-i / PER_DECADE) for i in range(decades * PER_DECADE + 1)
    ]
