"""Likelihood of class labels with a link, for Laplace's approximation."""

from dataclasses import dataclass

import torch
from torch import Tensor

from skconvgp._parts import Part
from skconvgp._protocols import Sites
from skconvgp._settings import one_of, require
from skconvgp.likelihoods._expectations import (
    logit_expectation,
    probit_expectation,
    require_draws,
    softmax_expectation,
)
from skconvgp.likelihoods._sites import logit_sites, probit_sites, softmax_sites

__all__ = ["Laplace"]

AUTO, SOFTMAX = "auto", "softmax"
BINARY = {"logit": logit_expectation, "probit": probit_expectation}


@dataclass(repr=False)
class Laplace(Part):
    r"""Labels as draws from a softmax of latent functions; Laplace approximation.

    The posterior of the latent functions is approximated by a Gaussian at its mode,
    with the curvature there; Newton's method finds it. Probabilities are the expected
    softmax (or logistic function, or normal distribution function) of that Gaussian.

    Parameters
    ----------
    link : {"auto", "softmax", "logit", "probit"}, default="auto"
        The function that maps latents to probabilities. "logit" and "probit" are for
        two classes and have one latent function, of the second class. "auto" is "logit"
        for two classes, else "softmax".
    n_draws : int, default=512
        Number of normal draws for the expected softmax, an even number: each draw comes
        with its negative. All samples share the draws; two classes need none.

    Raises
    ------
    ValueError
        In `fit`, for "logit" or "probit" with more than two classes, or if a setting is
        not allowed.

    Notes
    -----
    Each step of Newton's method factors a matrix of the size of the Gram matrix for
    each class, and the fitted model keeps as many.

    References
    ----------
    Williams and Barber, "Bayesian classification with Gaussian processes", 1998;
    Rasmussen and Williams, "Gaussian processes for machine learning", 2006, algorithms
    3.1 to 3.4.

    Examples
    --------
    >>> from skconvgp.likelihoods import Laplace
    >>> Laplace().n_latents(2), Laplace().n_latents(3)
    (1, 3)
    """

    link: str = AUTO
    n_draws: int = 512

    def n_latents(self, n_classes: int) -> int:
        """Return the number of latent functions: one for "logit" and "probit"."""
        return n_classes if self._link_of(n_classes) == SOFTMAX else 1

    def sites(self, latents: Tensor, codes: Tensor) -> Sites:
        """Return the log likelihood of the labels and its derivatives by the latents.

        Parameters
        ----------
        latents : Tensor of shape (n, k)
            One column for each latent function.
        codes : Tensor of shape (n,)
            Class codes.
        """
        if latents.shape[1] > 1:
            return softmax_sites(latents, codes)
        one_latent = probit_sites if self.link == "probit" else logit_sites
        return one_latent(latents, codes)

    def _link_of(self, n_classes: int) -> str:
        """Return "softmax", "logit" or "probit"; raise if a setting is not allowed."""
        words = (AUTO, SOFTMAX, *BINARY)
        is_word = isinstance(self.link, str) and self.link in words
        require(self, "link", is_word, one_of(words))
        require_draws(self)
        if self.link == AUTO:
            return "logit" if n_classes == 2 else SOFTMAX
        if self.link in BINARY and n_classes != 2:
            raise ValueError(
                f"{self!r} is for two classes, got {n_classes}: use 'softmax'."
            )
        return self.link

    def probabilities(self, mean: Tensor, var: Tensor) -> Tensor:
        """Turn latents into probabilities (n, k).

        Parameters
        ----------
        mean : Tensor of shape (n, k)
            Latent means.
        var : Tensor of shape (n, k) or (n, k, k)
            Variances, or with "softmax" covariances between the latent functions.
        """
        n_classes = mean.shape[1]
        link = self._link_of(n_classes)
        if link == SOFTMAX:
            return softmax_expectation(mean, var, self.n_draws)
        second = BINARY[link](mean[:, 1], var[:, 1])
        return torch.stack([1.0 - second, second], dim=1)
