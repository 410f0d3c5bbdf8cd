"""Log likelihoods of class labels, and their derivatives by the latents."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

__all__ = ["SITES", "SiteFunction", "Sites"]


@dataclass(frozen=True)
class Sites:
    """What the label of each sample says of its latents.

    Parameters
    ----------
    log_prob : Tensor of shape (n,)
        Log probability of the label.
    gradient : Tensor of shape (n, k)
        Its derivatives by the latents.
    curvature : Tensor of shape (n, k)
        For one latent function minus the second derivative; for several the
        probabilities p of the classes, of which it is diag(p) - p p^T.
    """

    log_prob: Tensor
    gradient: Tensor
    curvature: Tensor

    def precision(self) -> Tensor:
        """Return minus the second derivatives (n, k, k)."""
        if self.curvature.shape[1] == 1:
            return self.curvature[:, :, None]
        outer = self.curvature[:, :, None] * self.curvature[:, None, :]
        return torch.diag_embed(self.curvature) - outer


# Of latents (n, k) and class codes (n,).
SiteFunction: TypeAlias = Callable[[Tensor, Tensor], Sites]


def _softmax_sites(latents: Tensor, codes: Tensor) -> Sites:
    log_probs = torch.log_softmax(latents, dim=1)
    probs = log_probs.exp()
    own = codes[:, None]
    gradient = (-probs).scatter_add(1, own, torch.ones_like(probs[:, :1]))
    return Sites(log_probs.gather(1, own)[:, 0], gradient, probs)


def _logit_sites(latents: Tensor, codes: Tensor) -> Sites:
    sign = _signs(codes, latents)
    margin = sign * latents
    wrong = torch.sigmoid(-margin)
    log_prob = torch.nn.functional.logsigmoid(margin)[:, 0]
    return Sites(log_prob, sign * wrong, wrong * torch.sigmoid(margin))


def _probit_sites(latents: Tensor, codes: Tensor) -> Sites:
    sign = _signs(codes, latents)
    margin = sign * latents
    # Density over distribution function of the normal distribution.
    scaled = torch.special.erfcx(margin * -math.sqrt(0.5))
    ratio = math.sqrt(2.0 / math.pi) / scaled
    curvature = (ratio * (margin + ratio)).clamp(0.0, 1.0)  # R&W eq. 3.16
    log_prob = torch.special.log_ndtr(margin)[:, 0]
    return Sites(log_prob, sign * ratio, curvature.nan_to_num(0.0))


def _signs(codes: Tensor, latents: Tensor) -> Tensor:
    """Return 1 for the second class and -1 for the first (n, 1)."""
    return (2 * codes - 1).to(latents)[:, None]


SITES: dict[str, SiteFunction] = {
    "softmax": _softmax_sites,
    "logit": _logit_sites,
    "probit": _probit_sites,
}
