"""Expected log likelihoods of class labels under Gaussian latents, with derivatives."""

import math

import torch
from numpy.polynomial.hermite import hermgauss
from torch import Tensor

from skconvgp._protocols import ExpectedSites, SiteFunction
from skconvgp._tensors import int_range, reals
from skconvgp.likelihoods._expectations import VALUES
from skconvgp.likelihoods._sites import normal_ratio, softmax_sites

__all__ = [
    "drawn_softmax_sites",
    "largest_probability",
    "quadrature_sites",
    "robustmax_sites",
]

N_NODES = 64  # docs/maths.rst, "Variational inference"
SMALLEST_VARIANCE = 1e-12  # a deviation of 0 would divide by 0


def quadrature_sites(
    sites: SiteFunction, mean: Tensor, var: Tensor, codes: Tensor
) -> ExpectedSites:
    """Return the expected sites of one latent function, by Gauss-Hermite quadrature.

    `sites` returns the log likelihood and its derivatives at latents (m, 1). Means and
    variances of the latents are (n, 1), class codes (n,).
    """
    nodes, shares = _rule(mean)
    at = mean + (2.0 * var).sqrt() * nodes
    found = sites(at.reshape(-1, 1), codes.repeat_interleave(N_NODES))
    parts = (found.log_prob, found.gradient, found.curvature)
    log_prob, gradient, curvature = (part.reshape(at.shape) @ shares for part in parts)
    return ExpectedSites(log_prob, gradient[:, None], curvature[:, None])


def drawn_softmax_sites(
    mean: Tensor, var: Tensor, codes: Tensor, draws: Tensor
) -> ExpectedSites:
    """Return the expected sites of a softmax, means over draws that all rows share.

    The latents are independent, with means and variances (n, k); class codes are (n,).
    The draws (s, k) are standard normal.
    """
    draws = draws.to(mean)
    log_prob = mean.new_empty(len(mean))
    gradient, curvature = torch.empty_like(mean), torch.empty_like(mean)
    size = max(1, VALUES // draws.numel())
    for start in range(0, len(mean), size):
        rows = slice(start, start + size)
        latents = mean[rows, None, :] + draws * var[rows, None, :].sqrt()
        shape = latents.shape
        labels = codes[rows].repeat_interleave(len(draws))
        found = softmax_sites(latents.flatten(0, 1), labels)
        log_prob[rows] = found.log_prob.reshape(shape[:2]).mean(1)
        gradient[rows] = found.gradient.reshape(shape).mean(1)
        probs = found.curvature.reshape(shape)
        curvature[rows] = (probs * (1.0 - probs)).mean(1)
    return ExpectedSites(log_prob, gradient, curvature)


def robustmax_sites(
    mean: Tensor, var: Tensor, codes: Tensor, epsilon: float
) -> ExpectedSites:
    """Return the expected sites of labels that are the largest of the latents.

    A label is another one, each equally often, with probability `epsilon`.
    Curvatures below 0 become 0, as the log likelihood is not concave.
    """
    right = math.log1p(-epsilon)
    gain = right - math.log(epsilon / (mean.shape[1] - 1))
    probability, slope, bend = _largest(mean, var, codes)
    log_prob = right - gain * (1.0 - probability)
    second = gain * bend
    return ExpectedSites(log_prob, gain * slope, (-second).clamp(min=0.0), second / 2.0)


def largest_probability(mean: Tensor, var: Tensor) -> Tensor:
    """Return the probability (n, k) of each of independent latents to be largest."""
    codes = int_range(mean.shape[1], mean.device)
    columns = [_largest(mean, var, code.expand(len(mean)))[0] for code in codes]
    return torch.stack(columns, dim=1)


def _largest(mean: Tensor, var: Tensor, codes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the probability (n,) that the latent of a class is the largest.

    Also its first and second derivatives (n, k) by the means.
    """
    nodes, shares = _rule(mean)
    spread = var.clamp(min=SMALLEST_VARIANCE).sqrt()
    label = codes[:, None]
    own = mean.gather(1, label) + math.sqrt(2.0) * spread.gather(1, label) * nodes
    is_own = torch.zeros_like(mean).scatter(1, label, 1.0).bool()[:, None, :]
    margin = (own[:, :, None] - mean[:, None, :]) / spread[:, None, :]  # (n, q, k)
    log_below = torch.special.log_ndtr(margin).masked_fill(is_own, 0.0)
    product = log_below.sum(2).exp() * shares
    ratio = normal_ratio(margin) / spread[:, None, :]
    ratio = ratio.masked_fill(is_own, 0.0)
    fall = ratio * margin / spread[:, None, :]
    slope = -torch.einsum("nq,nqk->nk", product, ratio)
    bend = -torch.einsum("nq,nqk->nk", product, fall)
    total = ratio.sum(2).square() - (fall + ratio.square()).sum(2)
    own_bend = (product * total).sum(1, keepdim=True)
    slope = slope.scatter(1, label, -slope.sum(1, keepdim=True))
    return product.sum(1), slope, bend.scatter(1, label, own_bend)


def _rule(like: Tensor) -> tuple[Tensor, Tensor]:
    """Return nodes and shares (q,), for E[g(m + sqrt(2 v) node)]."""
    nodes, shares = (reals(part).to(like) for part in hermgauss(N_NODES))
    return nodes, shares / math.sqrt(math.pi)
