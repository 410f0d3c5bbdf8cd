"""Calibrated probabilities, and noise, from held-out samples."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from torch import Tensor

from skconvgp._tensors import int_range
from skconvgp._typing import FloatArray
from skconvgp.engine import rows_to_tensor, to_numpy

# Priors: the logarithm of the temperature is normal around 0, which changes nothing,
# and that of the noise around that of the training. Searches stay near.
TEMPERATURE_DEVIATION, FARTHEST_TEMPERATURE = 0.5, 4.0
NOISE_DEVIATION, FARTHEST_NOISE = 1.0, 14.0


def mean_log_proba(log_proba: FloatArray) -> Tensor:
    """Return the logarithms (n, k) of the means over draws of probabilities.

    `log_proba` (n_draws, n, k) holds the logarithms for each draw.
    """
    draws = rows_to_tensor(log_proba)
    return draws.logsumexp(dim=0) - math.log(len(draws))


def calibrated_temperature(
    log_proba: Tensor, codes: NDArray[np.intp], weights: FloatArray
) -> float:
    """Return the most probable divisor of the logarithms of probabilities.

    `log_proba` (n, k) holds logarithms of the mean probabilities of samples that were
    held out, of classes `codes` (n,). The prior is worth some samples of weight 1.
    """
    own = (int_range(len(codes)), rows_to_tensor(codes))

    def loss(log_temperature: float) -> float:
        told = torch.log_softmax(log_proba / math.exp(log_temperature), dim=1)[own]
        data = -float(weights @ to_numpy(told))
        return data + 0.5 * (log_temperature / TEMPERATURE_DEVIATION) ** 2

    return math.exp(_least(loss, FARTHEST_TEMPERATURE))


def calibrated_noise(
    outputs: FloatArray, targets: FloatArray, weights: FloatArray, noise: float
) -> float:
    """Return the most probable variance of the noise of held-out samples.

    A target is normal around the mean of the draws, with their variance plus the noise;
    samples count by their weights over the mean of these. `outputs`
    (n_draws, n, n_outputs) holds the draws at the held-out samples, whose targets are
    (n, n_outputs). `noise` is the variance of the noise that the draws were trained
    with.
    """
    squares = np.square(targets - outputs.mean(axis=0))
    shares = (weights / weights.mean())[:, None]
    spread = outputs.var(axis=0, ddof=1) if len(outputs) > 1 else 0.0

    def loss(shift: float) -> float:
        variances = spread + noise * math.exp(shift)
        data = 0.5 * float((shares * (np.log(variances) + squares / variances)).sum())
        return data + 0.5 * (shift / NOISE_DEVIATION) ** 2

    return noise * math.exp(_least(loss, FARTHEST_NOISE))


def _least(loss: Callable[[float], float], farthest: float) -> float:
    """Return where a function is least, at most so far from 0."""
    bounds = -farthest, farthest
    return float(minimize_scalar(loss, bounds=bounds, method="bounded").x)
