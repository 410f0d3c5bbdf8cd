"""Which noise "auto" is where it is not chosen, and whether data can choose it."""

from collections import defaultdict

import numpy as np
import torch
from torch import Tensor

from skconvgp._typing import FloatArray
from skconvgp.estimators._warn import warn_caller

__all__ = [
    "MOST_SAMPLES",
    "can_choose_noise",
    "require_finite_noise",
    "share_of_copies",
    "usual_noise",
    "warn_of_copies",
]

# Samples up to which "auto" takes an eigendecomposition: n^3 operations take as long
# there as the n^2 covariances of images (ADR 0029).
MOST_SAMPLES = 5000
# Below as many, predictions of what is left out tell chance (ADR 0029).
FEWEST_SAMPLES = 10
CLASSIFIER_NOISE, REGRESSOR_NOISE = 1e-4, 1e-2
# Targets that differ by less than this share of the largest are all the same.
LEAST_SPREAD = 1e-12
# Of the weight; with more of it "auto" chooses nothing (ADR 0029).
LARGEST_COPIED = 0.05


def usual_noise(*, has_classes: bool) -> float:
    """Return the relative noise variance where nothing chooses it."""
    return CLASSIFIER_NOISE if has_classes else REGRESSOR_NOISE


def can_choose_noise(
    rows: FloatArray, targets: FloatArray, weights: FloatArray
) -> bool:
    """Say whether samples (n, ...) with targets (n, k) can tell the noise.

    A sample counts by its weight (n,), as so many samples would.
    """
    spread = float(np.ptp(targets, axis=0).max())
    return (
        weights.sum() >= FEWEST_SAMPLES
        and spread > LEAST_SPREAD * float(np.abs(targets).max())
        and share_of_copies(rows, targets, weights) <= LARGEST_COPIED
    )


def share_of_copies(
    rows: FloatArray, targets: FloatArray, weights: FloatArray
) -> float:
    """Return the share of all weight by which the same samples weigh more than 1.

    Leave-one-out predicts what is left out from that. It is the same for weights and
    for samples that are repeated.
    """
    totals: defaultdict[int, float] = defaultdict(float)
    for row, target, weight in zip(rows, targets, weights, strict=True):
        key = hash(((row + 0.0).tobytes(), (target + 0.0).tobytes()))
        totals[key] += float(weight)
    copied = sum(max(total - 1.0, 0.0) for total in totals.values())
    return copied / sum(totals.values())


def warn_of_copies(
    noise: float | str, rows: FloatArray, targets: FloatArray, weights: FloatArray
) -> None:
    """Warn where leave-one-out is to choose a noise, and samples predict themselves."""
    if noise != "loo":
        return
    share = share_of_copies(rows, targets, weights)
    if share > LARGEST_COPIED:
        warn_caller(
            f"{share:.0%} of the weight of samples is of copies: leave-one-out "
            "predicts what is left out from its copy, and may choose a noise that is "
            "far too small. Divide sample_weight by its largest value, leave repeated "
            "samples out, or set `noise_variance` to a number.",
            UserWarning,
        )


def require_finite_noise(noise: Tensor) -> None:
    """Raise where the noise of a sample is not finite."""
    if not bool(torch.isfinite(noise).all()):
        raise ValueError(
            "The noise of a sample is `noise_variance` / its weight, and it is not "
            "finite for some: set tiny weights to 0."
        )
