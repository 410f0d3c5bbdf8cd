"""The largest of the latent functions, for variational inference."""

from dataclasses import dataclass

from torch import Tensor

from skconvgp._parts import Part
from skconvgp._protocols import ExpectedSites
from skconvgp._settings import is_number, require
from skconvgp.likelihoods._expected import largest_probability, robustmax_sites

__all__ = ["RobustMax"]


@dataclass(repr=False)
class RobustMax(Part):
    r"""Labels as the largest latent function, except for a share of them.

    .. math::

        p(y = c \mid f) = \begin{cases}
            1 - \epsilon & \text{if } f_c \text{ is the largest} \\
            \epsilon / (C - 1) & \text{otherwise}
        \end{cases}

    for C classes. A sample that is far on the wrong side costs no more than one that is
    just there, so that wrong labels pull little. Expectations over the Gaussian
    posterior are integrals over the latent function of the label, by quadrature.

    Parameters
    ----------
    epsilon : float, default=1e-3
        Share of labels that are any other class, > 0 and < 1.

    Raises
    ------
    ValueError
        In `fit`, if a setting is not allowed.

    Notes
    -----
    The log likelihood is not concave. A sample on the wrong side would widen the
    posterior; it counts as flat instead, which leaves the stationary means unchanged.

    References
    ----------
    Hernández-Lobato, Hernández-Lobato and Dupont, "Robust multi-class Gaussian process
    classification", 2011; van der Wilk, Rasmussen and Hensman, "Convolutional Gaussian
    processes", 2017.

    Examples
    --------
    >>> import torch
    >>> from skconvgp.likelihoods import RobustMax
    >>> mean, var = torch.tensor([[0.0, 0.0, 3.0]]), torch.ones(1, 3)
    >>> RobustMax().probabilities(mean, var)
    tensor([[0.0161, 0.0161, 0.9678]])
    """

    epsilon: float = 1e-3

    def n_latents(self, n_classes: int) -> int:
        """Return the number of latent functions: one for each class."""
        is_share = is_number(self.epsilon) and self.epsilon < 1.0
        require(self, "epsilon", is_share, "a number > 0 and < 1")
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
        return robustmax_sites(mean, var, codes, self.epsilon)

    def probabilities(self, mean: Tensor, var: Tensor) -> Tensor:
        """Turn latent means and variances (n, k) into probabilities (n, k)."""
        largest = largest_probability(mean, var)
        largest = largest / largest.sum(1, keepdim=True)
        other = self.epsilon / (mean.shape[1] - 1)
        return other + (1.0 - self.epsilon - other) * largest
