"""Gauss-Hermite quadrature of an activation, as coefficients of Hermite polynomials."""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

__all__ = ["hermite_coefficients"]


def hermite_coefficients(
    function: Callable[[Tensor], Tensor], var: Tensor, n_nodes: int
) -> Tensor:
    r"""Return :math:`\alpha_k = E[\phi(\sqrt a z) He_k(z)] / \sqrt{k!}`, k < n_nodes.

    Parameters
    ----------
    function : callable
        The activation.
    var : Tensor of shape (...)
        Variances a.
    n_nodes : int
        Nodes of the quadrature; the discrete system is orthonormal, so the sum of
        the squared coefficients is the quadrature of the square.

    Returns
    -------
    coefficients : Tensor of shape (n_nodes, ...)
        One map for each k.
    """
    nodes, basis = (
        torch.as_tensor(array, device=var.device, dtype=var.dtype)
        for array in _hermite_basis(n_nodes)
    )
    blank = var <= 0.0
    deviation = torch.where(blank, 0.0, torch.where(blank, 1.0, var).sqrt())
    deviation = deviation + 0.0 * var  # NaN where a variance is not held
    values = function(nodes.reshape(-1, *(1,) * var.ndim) * deviation)
    values = torch.broadcast_to(values, (n_nodes, *var.shape))
    return (basis @ values.reshape(n_nodes, -1)).reshape(n_nodes, *var.shape)


@lru_cache(maxsize=16)
def _hermite_basis(n_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes (j,) and weight_j He_k(node_j) / sqrt(k!) as (k, j), for N(0, 1)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    # With the square root of the weights inside, the recurrence cannot overflow.
    basis = np.empty((n_nodes, n_nodes))
    basis[0] = np.sqrt(weights / weights.sum())
    previous = np.zeros(n_nodes)
    for k in range(1, n_nodes):
        following = (nodes * basis[k - 1] - math.sqrt(k - 1) * previous) / math.sqrt(k)
        previous = basis[k - 1]
        basis[k] = following
    return nodes, basis * basis[0]
