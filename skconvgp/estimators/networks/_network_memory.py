"""Memory of the training of networks, which is checked before any work."""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any

import torch

from skconvgp.engine import require_memory
from skconvgp.estimators.networks._network_settings import NetworkSettings
from skconvgp.networks import BatchedNetwork

DOUBLE = 8  # bytes of a number of a covariance or of features
# Copies of the parameters of all draws: values, derivatives, moments, the start, the
# means of the prior and temporaries; and of the covariance of a prior of functions.
PARAMETER_COPIES, COVARIANCE_COPIES = 10, 4
# Copies of the features of a prior, with those of their products, and of the outputs at
# all inputs that renew its coefficients, with their means.
FEATURE_COPIES, OUTPUT_COPIES = 3, 4
# Share of the samples that are landmarks if their number is not set.
LANDMARK_SHARE = 0.2


def training_bytes(
    settings: NetworkSettings,
    network: BatchedNetwork,
    n_points: int,
    n_outputs: int,
) -> int:
    """Return about how many bytes a training holds at once.

    `n_points` counts the samples, and further points of a prior of functions.
    """
    chains = settings.sampling
    n_begun = settings.n_draws if chains is None else chains.n_chains
    n_kept = 0 if chains is None else 2 * chains.n_chains * chains.n_kept
    n_parameters = sum(map(math.prod, network.shapes.values()))
    held = n_begun * _rows_at_once(settings, n_points) * network.n_held
    held += (PARAMETER_COPIES * n_begun + n_kept) * n_parameters
    of_prior = 0
    if settings.reads_features:
        n_features = _n_features(settings.features, n_points)
        of_prior += FEATURE_COPIES * n_features * (n_points + n_features)
        of_prior += OUTPUT_COPIES * n_begun * n_points * n_outputs
    elif settings.kernel is not None:
        of_prior += COVARIANCE_COPIES * n_points**2
    return settings.dtype.itemsize * held + DOUBLE * of_prior


def require_room(
    settings: NetworkSettings,
    network: BatchedNetwork,
    n_points: int,
    n_outputs: int,
    device: torch.device,
) -> None:
    """Raise a TileMemoryError unless a training fits into the free memory."""
    n_rows = _rows_at_once(settings, n_points)
    name = "n_draws" if settings.sampling is None else "n_chains"
    remedy = f"lower `{name}` or `hidden_layer_sizes`, or set a smaller `batch_size`"
    if settings.reads_features:
        remedy = (
            f"lower `{name}`, `features` or `hidden_layer_sizes`, or set a smaller "
            "`batch_size`"
        )
    elif settings.kernel is not None:
        remedy = (
            f"lower `{name}`, `extra_points` or `hidden_layer_sizes`, fit on fewer "
            "samples, or set `batch_size`: without it a kernel as prior reads all "
            "samples in each step"
        )
    user = f"A step of all draws with {n_rows} samples and points"
    needed = training_bytes(settings, network, n_points, n_outputs)
    require_memory(needed, device, user, f"{remedy}.")


def _rows_at_once(settings: NetworkSettings, n_points: int) -> int:
    return min(n_points, settings.schedule.batch_size or n_points)


def _n_features(features: object, n_points: int) -> int:
    """Return about how many features a setting makes."""
    if isinstance(features, Integral):
        return int(features)
    part: Any = features
    count = getattr(part, "n_features", None) or getattr(part, "n_landmarks", None)
    return int(count or LANDMARK_SHARE * n_points)
