"""Memory of the training of networks, which is checked before any work."""

from __future__ import annotations

import math

import torch

from skconvgp.engine import require_memory
from skconvgp.estimators._network_settings import NetworkSettings
from skconvgp.networks import BatchedNetwork

__all__ = ["require_room", "training_bytes"]

BYTES = 8  # of a number in double precision
# Copies of the parameters of all draws: values, derivatives, moments, the start, the
# means of the prior and temporaries; and of the covariance of a prior of functions.
PARAMETER_COPIES, COVARIANCE_COPIES = 10, 4


def training_bytes(
    settings: NetworkSettings, network: BatchedNetwork, n_points: int
) -> int:
    """Return about how many bytes a training holds at once.

    Parameters
    ----------
    settings : NetworkSettings
        Number of draws, batches and prior.
    network : BatchedNetwork
        The network.
    n_points : int
        The samples, and further points of a prior of functions.
    """
    chains = settings.sampling
    n_begun = settings.n_draws if chains is None else chains.n_chains
    n_kept = 0 if chains is None else 2 * chains.n_chains * chains.n_kept
    n_parameters = sum(map(math.prod, network.shapes.values()))
    held = n_begun * _rows_at_once(settings, n_points) * network.n_held
    held += (PARAMETER_COPIES * n_begun + n_kept) * n_parameters
    if settings.kernel is not None:
        held += COVARIANCE_COPIES * n_points**2
    return BYTES * held


def require_room(
    settings: NetworkSettings,
    network: BatchedNetwork,
    n_points: int,
    device: torch.device,
) -> None:
    """Raise a TileMemoryError unless a training fits into the free memory."""
    n_rows = _rows_at_once(settings, n_points)
    name = "n_draws" if settings.sampling is None else "n_chains"
    remedy = f"lower `{name}` or the size of the network, or set a smaller `batch_size`"
    if settings.kernel is not None:
        remedy = (
            f"lower `{name}` or the size of the network, or fit on fewer samples: a "
            "kernel as prior reads all of them in each step"
        )
    user = f"A step of all draws with {n_rows} samples"
    needed = training_bytes(settings, network, n_points)
    require_memory(needed, device, user, f"{remedy}.")


def _rows_at_once(settings: NetworkSettings, n_points: int) -> int:
    return min(n_points, settings.schedule.batch_size or n_points)
