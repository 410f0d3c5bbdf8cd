"""The distance of Gaussian distributions by optimal transport."""

import torch
from torch import Tensor

from skconvgp.linalg._spectral import symmetric_eigen, without_rounding

__all__ = ["gaussian_transport"]


def gaussian_transport(first: Tensor, second: Tensor) -> tuple[float, Tensor]:
    r"""Return the squared distance of N(0, A) and N(0, B), and its derivatives by B.

    .. math:: W^2 = \mathrm{tr} A + \mathrm{tr} B - 2 \, \mathrm{tr}
              (A^{1/2} B A^{1/2})^{1/2}, \qquad \partial_B W^2 =
              I - A^{1/2} (A^{1/2} B A^{1/2})^{-1/2} A^{1/2}

    A and B (n, n) are in double precision. Directions in which both vanish have no
    derivative.
    """
    values, vectors = symmetric_eigen(first)
    root = (vectors * values.sqrt()) @ vectors.mT
    values, vectors = symmetric_eigen(root @ second @ root)
    values = without_rounding(values)
    square = first.trace() + second.trace() - 2.0 * values.sqrt().sum()
    inverse = torch.where(values > 0.0, values, torch.inf).rsqrt()
    half = root @ (vectors * inverse.sqrt())
    identity = torch.eye(len(first), dtype=first.dtype, device=first.device)
    return max(float(square), 0.0), identity - half @ half.mT
