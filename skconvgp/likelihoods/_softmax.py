"""Softmax of latent functions, for variational inference."""

from dataclasses import dataclass

from torch import Tensor

from skconvgp._parts import Part
from skconvgp._protocols import ExpectedSites
from skconvgp.likelihoods._expectations import (
    antithetic_draws,
    require_draws,
    softmax_expectation,
)
from skconvgp.likelihoods._expected import drawn_softmax_sites, quadrature_sites
from skconvgp.likelihoods._sites import logit_sites

__all__ = ["Softmax"]


@dataclass(repr=False)
class Softmax(Part):
    r"""Labels as draws from a softmax of latent functions; variational inference.

    .. math:: p(y = c \mid f) = \frac{e^{f_c}}{\sum_j e^{f_j}}

    There is one latent function for each class. Expectations over the Gaussian
    posterior are means over normal draws that all samples share. Two classes need no
    draws: the softmax is a logistic function of the difference, and is integrated by
    quadrature.

    Parameters
    ----------
    n_draws : int, default=128
        Number of normal draws, an even number: each draw comes with its negative.

    Raises
    ------
    ValueError
        In `fit`, if a setting is not allowed.

    See Also
    --------
    Laplace : The same likelihood at the mode of the posterior, for other classifiers.

    References
    ----------
    Khan and Lin, "Conjugate-computation variational inference", 2017 (the steps).

    Examples
    --------
    >>> import torch
    >>> from skconvgp.likelihoods import Softmax
    >>> Softmax().probabilities(torch.tensor([[0.0, 2.0]]), torch.zeros(1, 2))
    tensor([[0.1192, 0.8808]])
    """

    n_draws: int = 128

    def n_latents(self, n_classes: int) -> int:
        """Return the number of latent functions: one for each class."""
        require_draws(self)
        return n_classes

    def expected_sites(self, mean: Tensor, var: Tensor, codes: Tensor) -> ExpectedSites:
        """Return the expected log likelihood of the labels, and its derivatives.

        Parameters
        ----------
        mean, var : Tensor of shape (n, k)
            Means and variances of the latents.
        codes : Tensor of shape (n,)
            Class codes.
        """
        if mean.shape[1] > 2:
            draws = antithetic_draws(mean.shape[1], self.n_draws)
            return drawn_softmax_sites(mean, var, codes, draws)
        gap, total = mean[:, 1:] - mean[:, :1], var.sum(1, keepdim=True)
        found = quadrature_sites(logit_sites, gap, total, codes)
        signs = mean.new_tensor([-1.0, 1.0])
        both = found.curvature.expand(mean.shape)
        return ExpectedSites(found.log_prob, found.gradient * signs, both)

    def probabilities(self, mean: Tensor, var: Tensor) -> Tensor:
        """Turn latent means and variances (n, k) into probabilities (n, k)."""
        return softmax_expectation(mean, var, self.n_draws)
