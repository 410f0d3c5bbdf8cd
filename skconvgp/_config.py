"""Device and precisions of a computation, as a value that callers pass down."""

from dataclasses import dataclass

import torch

__all__ = ["ComputeConfig"]


@dataclass(frozen=True)
class ComputeConfig:
    """Device, precisions and memory of one computation.

    Parameters
    ----------
    device : torch.device
        Where tiles are computed and systems are solved.
    dtype : torch.dtype
        Precision of the covariance maps, which the layers of a network transform.
    solve_dtype : torch.dtype
        Precision of Gram matrices and of linear systems with them.
    memory_budget : int
        Bytes that the computation may hold beside its inputs and its result.
    n_workers : int
        Number of tiles computed at the same time; they share the budget.
    """

    device: torch.device
    dtype: torch.dtype = torch.float64
    solve_dtype: torch.dtype = torch.float64
    memory_budget: int = 2**30
    n_workers: int = 1
