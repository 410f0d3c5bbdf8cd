"""Two classes: latent functions whose probabilities have exact Beta marginals."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from scipy.special import betaincinv
from scipy.stats import beta
from torch import Tensor

from skconvgp._protocols import Targets
from skconvgp._tensors import reals
from skconvgp.likelihoods._counts import Counting
from skconvgp.likelihoods._expectations import normal_cdf

__all__ = ["Beta"]

N_NODES = 64  # docs/maths.rst, "Averages over latent functions"
SMALLEST = 1e-24  # variances are raised to it: without a variance there is no density
# Normal densities are integrated up to so many standard deviations from their mean, and
# not below the latent at which the map is zero.
REACH, LOWEST = 10.0, -40.0


@dataclass(repr=False)
class Beta(Counting):
    r"""Two classes: a transform of labels that gives exact Beta marginals.

    A label makes the probability of its class Beta distributed, with parameters
    :math:`1 + \alpha_\epsilon` and :math:`\alpha_\epsilon`. A latent function with
    Gaussian marginal of mean :math:`\pm \mu` and variance 1 is mapped to exactly that
    distribution, where :math:`\mu = \Phi^{-1}(F(1/2))` and F is the distribution
    function of Beta(:math:`\alpha_\epsilon, 1 + \alpha_\epsilon`). So it is regressed
    on :math:`\pm \mu` with noise variance 1, and

    .. math:: \pi(f) = F^{-1}(\Phi(f + \mu)) \text{ for } f < 0, \qquad
              \pi(f) = 1 - \pi(-f),

    is averaged over its posterior.

    Parameters
    ----------
    alpha_eps : float or "loo", default="loo"
        Parameter of the Beta prior, > 0; a larger one gives less confident
        probabilities. "loo" fits with 0.01, 0.1, 0.2 and 0.5 and uses the one with the
        lowest leave-one-out log loss; 0.01 where samples are too few to tell, as for
        the noise of :class:`~skconvgp.likelihoods.Gaussian`.

    Raises
    ------
    ValueError
        In `fit`, if there are more than two classes or a setting is not allowed.

    Notes
    -----
    The latent function of the first class is the negative of that of the second.
    Probabilities are not calibrated: a small parameter says that labels are certain,
    and where many of them are wrong its probabilities are worse than chance.

    References
    ----------
    Kozyrskiy, PhD thesis, 2023, section 4.4.

    Examples
    --------
    >>> import torch
    >>> from skconvgp.likelihoods import Beta
    >>> Beta(alpha_eps=0.2).targets(torch.tensor([0, 1]), 2, torch.ones(2)).values
    tensor([[ 1.2748, -1.2748],
            [-1.2748,  1.2748]], dtype=torch.float64)
    """

    tried: ClassVar = (0.01, 0.1, 0.2, 0.5)

    alpha_eps: float | str = "loo"

    @property
    def needs_variance(self) -> bool:
        """Whether `probabilities` reads the variance: yes."""
        return True

    def targets(self, codes: Tensor, n_classes: int, weights: Tensor) -> Targets:
        """Turn codes (n,) of two classes into targets of noise variance 1."""
        if n_classes != 2:
            raise ValueError(
                f"likelihood='beta' is for two classes, got {n_classes}: use "
                "'dirichlet'."
            )
        one_hot = torch.nn.functional.one_hot(codes, 2).to(torch.float64)
        values = self._centre() * (2.0 * one_hot - 1.0)
        return Targets(values, values.new_zeros(2), torch.ones_like(values))

    def probabilities(self, mean: Tensor, var: Tensor) -> Tensor:
        """Turn latent means and variances (n, 2) into probabilities (n, 2)."""
        latent, spread = mean[:, 1], var[:, 1].clamp(min=SMALLEST).sqrt()
        below, above = self._below(latent, spread), self._below(-latent, spread)
        first = normal_cdf(-latent / spread) - below + above
        second = normal_cdf(latent / spread) + below - above
        return torch.stack([first, second], dim=1)

    def _below(self, mean: Tensor, spread: Tensor) -> Tensor:
        """Return the integral (n,) of the map times a normal density over f < 0.

        At 0 the map is steep and its second derivative jumps. Quadrature across 0 would
        lose its accuracy; hence each side is integrated by itself, with more nodes
        near 0.
        """
        rule = np.polynomial.legendre.leggauss(N_NODES)
        nodes, shares = map(torch.from_numpy, rule)
        nodes = (1.0 + nodes) / 2.0
        low = (mean - REACH * spread).clamp(min=LOWEST)
        high = (mean + REACH * spread).clamp(max=0.0)
        width = (high - low).clamp(min=0.0)
        latent = high[:, None] - width[:, None] * nodes.square()
        distance = (latent - mean[:, None]) / spread[:, None]
        density = (-0.5 * distance.square()).exp() / math.sqrt(2.0 * math.pi)
        integral: Tensor = (self._map(latent) * density) @ (nodes * shares)
        return integral * width / spread

    def _map(self, latent: Tensor) -> Tensor:
        """Return the probability of the second class for latents below 0."""
        levels = np.asarray(normal_cdf(latent + self._centre()))
        return torch.from_numpy(betaincinv(self._count(), 1.0 + self._count(), levels))

    def _centre(self) -> float:
        """Return mu, the absolute value of the regression targets."""
        share = beta.cdf(0.5, self._count(), 1.0 + self._count())
        return float(torch.special.ndtri(reals(share)))
