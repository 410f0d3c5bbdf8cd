"""Two classes and one latent function, for variational inference."""

from dataclasses import dataclass

import torch
from torch import Tensor

from skconvgp._parts import Part
from skconvgp._protocols import ExpectedSites
from skconvgp._settings import one_of, require
from skconvgp.likelihoods._expectations import logit_expectation, probit_expectation
from skconvgp.likelihoods._expected import quadrature_sites
from skconvgp.likelihoods._sites import logit_sites, probit_sites

__all__ = ["Bernoulli"]

LINKS = {
    "probit": (probit_sites, probit_expectation),
    "logit": (logit_sites, logit_expectation),
}


@dataclass(repr=False)
class Bernoulli(Part):
    r"""Labels of two classes with one latent function; variational inference.

    The probability of the second class is the normal distribution function
    :math:`\Phi(f)`, or the logistic function :math:`1 / (1 + e^{-f})`. Expectations
    over the Gaussian posterior are integrals by quadrature.

    Parameters
    ----------
    link : {"probit", "logit"}, default="probit"
        The function that maps the latent to a probability.

    Raises
    ------
    ValueError
        In `fit`, for more than two classes, or if a setting is not allowed.

    See Also
    --------
    Laplace : The same likelihoods at the mode of the posterior, for other classifiers.

    References
    ----------
    Hensman, Matthews and Ghahramani, "Scalable variational Gaussian process
    classification", 2015.

    Examples
    --------
    >>> import torch
    >>> from skconvgp.likelihoods import Bernoulli
    >>> mean = torch.tensor([[-1.0, 1.0]])
    >>> Bernoulli().probabilities(mean, torch.full((1, 2), 3.0))
    tensor([[0.3085, 0.6915]])
    """

    link: str = "probit"

    def n_latents(self, n_classes: int) -> int:
        """Return the number of latent functions: one, of the second class."""
        is_word = isinstance(self.link, str) and self.link in LINKS
        require(self, "link", is_word, one_of(LINKS))
        if n_classes != 2:
            raise ValueError(
                f"{self!r} is for two classes, got {n_classes}: use likelihood="
                "'softmax' or 'robustmax'."
            )
        return 1

    def expected_sites(self, mean: Tensor, var: Tensor, codes: Tensor) -> ExpectedSites:
        """Return the expected log likelihood of the labels, and its derivatives.

        Parameters
        ----------
        mean, var : Tensor of shape (n, 1)
            Means and variances of the latents.
        codes : Tensor of shape (n,)
            Class codes.
        """
        return quadrature_sites(LINKS[self.link][0], mean, var, codes)

    def probabilities(self, mean: Tensor, var: Tensor) -> Tensor:
        """Turn latent means and variances (n, 2) into probabilities (n, 2)."""
        second = LINKS[self.link][1](mean[:, 1], var[:, 1])
        return torch.stack([1.0 - second, second], dim=1)
