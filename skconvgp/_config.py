"""Device and precisions of a computation, as a value that callers pass down."""

from dataclasses import dataclass

import torch

__all__ = ["ComputeConfig"]


@dataclass(frozen=True)
class ComputeConfig:
    """Device, precisions and memory of one computation."""

    device: torch.device  # where tiles are computed and systems are solved
    # Precision of the covariance maps, which the layers of a network transform.
    dtype: torch.dtype = torch.float64
    # Precision of Gram matrices and of linear systems with them.
    solve_dtype: torch.dtype = torch.float64
    # Bytes that the computation may hold beside its inputs and its result.
    memory_budget: int = 2**30
    # Number of tiles computed at the same time; they share the budget.
    n_workers: int = 1
