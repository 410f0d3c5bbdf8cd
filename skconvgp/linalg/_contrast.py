"""Values of mean 0 and variance 1, of any size."""

import math

import torch
from torch import Tensor

__all__ = ["standardized"]

# Deviations that are small numbers in single precision, or none.
FAINT = 1e-30


def standardized(values: Tensor, added: float, dims: tuple[int, ...]) -> Tensor:
    """Return values of mean 0, divided by the root of their variance and a number.

    Means are taken over `dims`. The number `added` >= 0 is added to the variances; if
    both are zero, the result is zero. Means and variances are computed in double
    precision: squares of single numbers may overflow or vanish, and equal ones have
    exactly their mean.
    """
    is_faint = math.sqrt(added) < FAINT
    exact = values.to(torch.float64) if is_faint else values
    mean = exact.mean(dims, keepdim=True, dtype=torch.float64)
    centred = exact - mean.to(exact.dtype)
    norm = torch.linalg.vector_norm(centred, 2, dims, keepdim=True, dtype=torch.float64)
    var = norm.square() / (centred.numel() / norm.numel()) + added
    deviation = torch.where(var > 0.0, var, 1.0).sqrt()
    return (centred / deviation.to(centred.dtype)).to(values.dtype)
