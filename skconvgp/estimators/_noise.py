"""Which noise "auto" is where it is not chosen, and whether data can choose it."""

import numpy as np
import torch
from torch import Tensor

from skconvgp._typing import FloatArray
from skconvgp.estimators._warn import warn_caller

__all__ = [
    "MOST_SAMPLES",
    "can_choose_noise",
    "require_finite_noise",
    "usual_noise",
    "warn_of_copies",
]

# Samples up to which "auto" takes an eigendecomposition: n^3 operations take as long
# there as the n^2 covariances of images (ADR 0029).
MOST_SAMPLES = 5000
# Below as many, predictions of what is left out tell chance (ADR 0029).
FEWEST_SAMPLES = 10
CLASSIFIER_NOISE, REGRESSOR_NOISE = 1e-4, 1e-2
# Targets that differ from their mean by less than this share are all the same.
LEAST_SPREAD = 1e-12


def usual_noise(*, has_classes: bool) -> float:
    """Return the relative noise variance where nothing chooses it."""
    return CLASSIFIER_NOISE if has_classes else REGRESSOR_NOISE


def can_choose_noise(targets: FloatArray, weights: FloatArray) -> bool:
    """Say whether targets (n, k) of these weights (n,) can tell their noise.

    A sample counts by its weight, as so many samples would.
    """
    return weights.sum() >= FEWEST_SAMPLES and bool(
        (np.abs(targets) > LEAST_SPREAD).any()
    )


def warn_of_copies(noise: float | str, weights: FloatArray) -> None:
    """Warn where leave-one-out is to choose a noise, and samples predict themselves."""
    if noise != "loo" or weights.max() <= 1.0:
        return
    warn_caller(
        f"Samples have weights up to {weights.max():.3g}, and a weight of 2 is the "
        "same sample twice: leave-one-out predicts it from its copy, and may choose a "
        "noise that is far too small. Divide the weights by the largest, or set "
        "`noise_variance` to a number.",
        UserWarning,
    )


def require_finite_noise(noise: Tensor) -> None:
    """Raise where the noise of a sample is not finite."""
    if not bool(torch.isfinite(noise).all()):
        raise ValueError(
            "The noise of a sample is `noise_variance` / its weight, and it is not "
            "finite for some: set tiny weights to 0."
        )
