"""What held-out samples say of predictions: calibrated probabilities and noise."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize_scalar
from torch import Tensor

from skconvgp._typing import FloatArray
from skconvgp.engine import rows_to_tensor

__all__ = ["calibrated_noise", "mean_log_proba"]

# The logarithm of the noise is normal around that of the training, and this prior is
# worth one sample; the search stays near.
NOISE_DEVIATION, FARTHEST = 1.0, 14.0


def mean_log_proba(log_proba: FloatArray) -> Tensor:
    """Return the logarithms (n, k) of the means over draws of probabilities.

    Parameters
    ----------
    log_proba : ndarray of shape (n_draws, n, k)
        Logarithms of the probabilities of each draw.
    """
    draws = rows_to_tensor(log_proba)
    return draws.logsumexp(dim=0) - math.log(len(draws))


def calibrated_noise(
    outputs: FloatArray, targets: FloatArray, weights: FloatArray, noise: float
) -> float:
    """Return the most probable variance of the noise of held-out samples.

    A target is normal around the mean of the draws, with their variance plus the noise.

    Parameters
    ----------
    outputs : ndarray of shape (n_draws, n, n_outputs)
        Draws at samples that were held out.
    targets : ndarray of shape (n, n_outputs)
        Their targets.
    weights : ndarray of shape (n,)
        Sample weights, which the noise of a sample is divided by.
    noise : float
        Variance of the noise that the draws were trained with.
    """
    squares = np.square(targets - outputs.mean(axis=0))
    shares = 1.0 / weights[:, None]
    spread = outputs.var(axis=0, ddof=1) if len(outputs) > 1 else 0.0

    def loss(shift: float) -> float:
        variances = spread + noise * math.exp(shift) * shares
        data = 0.5 * float((np.log(variances) + squares / variances).sum())
        return data + 0.5 * (shift / NOISE_DEVIATION) ** 2

    bounds = -FARTHEST, FARTHEST
    return noise * math.exp(minimize_scalar(loss, bounds=bounds, method="bounded").x)
