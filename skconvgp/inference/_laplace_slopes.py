"""Derivatives of the evidence of Laplace's approximation by the prior covariance."""

import torch
from torch import Tensor

from skconvgp._ambient import ordinary_torch
from skconvgp._protocols import SiteFunction
from skconvgp.inference._laplace import LaplaceFit

__all__ = ["laplace_slopes"]


def laplace_slopes(
    gram: Tensor, observations: Tensor, sites: SiteFunction, fit: LaplaceFit
) -> Tensor:
    r"""Return the derivatives (n, n) of the evidence by a covariance of the prior.

    With f = K a at the mode, :math:`R = (K + W^{-1})^{-1}`, posterior covariance S and
    :math:`s = -\tfrac12 \partial \mathrm{tr}(S W) / \partial f`, where S stays fixed,
    a change dK changes the evidence by

    .. math:: \tfrac12 a^T dK\, a - \tfrac12 \mathrm{tr}(R\, dK) + b^T dK\, a,
              \qquad b = s - R K s,

    summed over the latent functions. The last term arises because the mode moves with K
    (Rasmussen and Williams, 2006, section 5.5.1 and algorithm 5.1; for the softmax
    Williams and Barber, 1998).

    The arguments are those of `fit_laplace`, and its result. The curvature of the sites
    determines how the mode moves. If it is neither constant nor minus the second
    derivatives, the derivatives are approximate. They are symmetric.
    """
    cov = fit.state.covariance(gram, gram.diagonal())
    by_mode = _by_latents(gram @ fit.dual, observations, sites, cov)
    moved = by_mode - fit.state.solve(gram @ by_mode)
    slopes = fit.state.inverse_sum().mul_(-0.5)
    slopes.addmm_(fit.dual / 2.0 + moved, fit.dual.mT, beta=1.0)
    return (slopes + slopes.mT).div_(2.0)


def _by_latents(
    latents: Tensor, observations: Tensor, sites: SiteFunction, cov: Tensor
) -> Tensor:
    """Return the derivatives (n, k) of minus half the trace of S W by the latents."""
    with ordinary_torch():
        free = latents.detach().requires_grad_()
        precision = sites(free, observations).precision()
        if not precision.requires_grad:  # the same wherever the latents are
            return torch.zeros_like(latents)
        trace = -0.5 * (precision * cov).sum()
        (slope,) = torch.autograd.grad(trace, free)
    # If a label is certain, its precision is 0, and its derivative overflows to NaN.
    return slope.nan_to_num(0.0, 0.0, 0.0)
