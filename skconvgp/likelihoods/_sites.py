"""Log likelihoods of class labels, and their derivatives by the latents."""

import math

import torch
from torch import Tensor

from skconvgp._protocols import Sites

__all__ = ["logit_sites", "normal_ratio", "probit_sites", "softmax_sites"]


def softmax_sites(latents: Tensor, codes: Tensor) -> Sites:
    """Return sites of a softmax of several latent functions."""
    log_probs = torch.log_softmax(latents, dim=1)
    probs = log_probs.exp()
    label = codes[:, None]
    gradient = (-probs).scatter_add(1, label, torch.ones_like(probs[:, :1]))
    return Sites(log_probs.gather(1, label)[:, 0], gradient, probs)


def logit_sites(latents: Tensor, codes: Tensor) -> Sites:
    """Return sites of the logistic function of one latent function."""
    sign = _signs(codes, latents)
    margin = sign * latents
    wrong = torch.sigmoid(-margin)
    log_prob = torch.nn.functional.logsigmoid(margin)[:, 0]
    return Sites(log_prob, sign * wrong, wrong * torch.sigmoid(margin))


def probit_sites(latents: Tensor, codes: Tensor) -> Sites:
    """Return sites of the normal distribution function of one latent function."""
    sign = _signs(codes, latents)
    margin = sign * latents
    ratio = normal_ratio(margin)
    curvature = (ratio * (margin + ratio)).clamp(0.0, 1.0)  # R&W eq. 3.16
    log_prob = torch.special.log_ndtr(margin)[:, 0]
    return Sites(log_prob, sign * ratio, curvature.nan_to_num(0.0))


def normal_ratio(values: Tensor) -> Tensor:
    """Return the normal density over the distribution function.

    By erfcx it stays finite far below 0, although both underflow.
    """
    scaled = torch.special.erfcx(values * -math.sqrt(0.5))
    ratio: Tensor = math.sqrt(2.0 / math.pi) / scaled
    return ratio


def _signs(codes: Tensor, latents: Tensor) -> Tensor:
    """Return 1 for the second class and -1 for the first (n, 1)."""
    return (2 * codes - 1).to(latents)[:, None]
