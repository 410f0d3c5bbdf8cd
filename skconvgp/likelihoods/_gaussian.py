"""Label regression with a softmax of tempered latents."""

from dataclasses import dataclass

import torch
from scipy.optimize import brentq
from torch import Tensor

from skconvgp._parts import Part
from skconvgp._protocols import Targets

__all__ = ["Gaussian"]

# Bounds of 1 / temperature. Targets lie one apart or two, so that at the upper bound
# a prediction as sure as a label has odds of e^50 and more.
INVERSE_TEMPERATURES = (1e-2, 50.0)
ROOT_TOLERANCE = 1e-12  # maths.md 4.2


@dataclass(repr=False)
class Gaussian(Part):
    r"""Label regression: one-vs-rest targets, softmax of tempered latent means.

    Targets are 1 for the class of a sample and -1 / (n_classes - 1) for the others,
    so that they sum to zero. Probabilities are :math:`\mathrm{softmax}(m / T)`, where
    the temperature T minimises the log loss of the closed-form leave-one-out means.

    References
    ----------
    Rifkin and Klautau, "In defense of one-vs-all classification", 2004 (label
    regression); Guo et al., "On calibration of modern neural networks", 2017,
    section 4.2 (temperature).

    Examples
    --------
    >>> import torch
    >>> from skconvgp.likelihoods import Gaussian
    >>> Gaussian().targets(torch.tensor([0, 2]), 3, torch.ones(2)).values
    tensor([[ 1.0000, -0.5000, -0.5000],
            [-0.5000, -0.5000,  1.0000]], dtype=torch.float64)
    """

    @property
    def needs_variance(self) -> bool:
        """Whether `probabilities` reads the variance: no."""
        return False

    def targets(self, codes: Tensor, n_classes: int, weights: Tensor) -> Targets:
        """Turn class codes (n,) into regression targets; weights are not read."""
        off = -1.0 / (n_classes - 1)
        one_hot = torch.nn.functional.one_hot(codes, n_classes).to(torch.float64)
        values = one_hot * (1.0 - off) + off
        return Targets(values, torch.zeros(n_classes, dtype=torch.float64))

    def probabilities(self, mean: Tensor, var: Tensor) -> Tensor:
        """Turn latent means (n, k) into probabilities (n, k)."""
        return torch.softmax(mean, dim=1)

    def temperature(self, loo_mean: Tensor, codes: Tensor, weights: Tensor) -> float:
        """Return the divisor of the latents that minimises their weighted log loss.

        Parameters
        ----------
        loo_mean : Tensor of shape (n, k)
            Leave-one-out latent means.
        codes : Tensor of shape (n,)
            Class codes.
        weights : Tensor of shape (n,)
            Sample weights.

        Returns
        -------
        temperature : float
            Root of the derivative, or the bound that is nearest to it.
        """
        own = loo_mean.gather(1, codes[:, None])[:, 0]

        def slope(inverse: float) -> float:
            expected = (torch.softmax(inverse * loo_mean, dim=1) * loo_mean).sum(1)
            return float((weights * (expected - own)).sum())

        low, high = INVERSE_TEMPERATURES
        if slope(low) >= 0.0:
            return 1.0 / low
        if slope(high) <= 0.0:
            return 1.0 / high
        return 1.0 / float(brentq(slope, low, high, xtol=ROOT_TOLERANCE))
