"""Labels as counts: log-normal targets with a noise of their own."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from skconvgp._protocols import Calibration, Targets
from skconvgp.likelihoods._calibration import fit_calibration
from skconvgp.likelihoods._counts import Counting

__all__ = ["Dirichlet"]


@dataclass(repr=False)
class Dirichlet(Counting):
    r"""Labels as one count in a Dirichlet prior: regression with noise that labels fix.

    A label is one count more for its class, :math:`\alpha_{ic} = \alpha_\epsilon +
    [y_i = c]`. The Gamma variable behind each count is matched by a log-normal one, so
    that a latent function is regressed on :math:`\log \alpha_{ic} - \sigma_{ic}^2 / 2`
    with noise variance :math:`\sigma_{ic}^2 = \log(1 + 1 / \alpha_{ic})`: little for
    the class of a sample, much for the others. The prior mean is that of the targets,
    with the logarithms of the class frequencies. Probabilities are the softmax of
    latent means that are calibrated as those of
    :class:`~skconvgp.likelihoods.Gaussian`; the variance of a sample is the mean of
    those of its latent functions.

    Parameters
    ----------
    alpha_eps : float or "loo", default=0.01
        Count of each class before a label is seen, > 0; a larger one is less sure.
        "loo" fits with 0.1, 0.01 and 0.001 and takes the one with the least
        leave-one-out log loss.

    Raises
    ------
    ValueError
        When it is used, for a wrong setting.

    Notes
    -----
    All classes are solved by one factorisation, of the matrix with the larger noise,
    and small ones of the members of each class.

    References
    ----------
    Milios, Camoriano, Michiardi, Rosasco and Filippone, "Dirichlet-based Gaussian
    processes for large-scale calibrated classification", 2018, equations 3 to 7.

    Examples
    --------
    >>> import torch
    >>> from skconvgp.likelihoods import Dirichlet
    >>> targets = Dirichlet().targets(torch.tensor([0, 1]), 2, torch.ones(2))
    >>> targets.values
    tensor([[-0.3341, -6.9127],
            [-6.9127, -0.3341]], dtype=torch.float64)
    >>> targets.noise
    tensor([[0.6882, 4.6151],
            [4.6151, 0.6882]], dtype=torch.float64)
    """

    tried: ClassVar = (0.1, 0.01, 0.001)  # docs/maths.rst, "Labels as counts"

    alpha_eps: float | str = 0.01

    @property
    def needs_variance(self) -> bool:
        """Whether `probabilities` reads the variance: no, the calibration has."""
        return False

    def targets(self, codes: Tensor, n_classes: int, weights: Tensor) -> Targets:
        """Turn class codes (n,) into regression targets with noise variances."""
        count = self._count()
        one_hot = torch.nn.functional.one_hot(codes, n_classes).to(torch.float64)
        alpha = one_hot + count
        noise = torch.log1p(1.0 / alpha)
        values = alpha.log() - noise / 2.0
        share = weights.to(values) / weights.sum()
        # A class that will come only later counts as a half of a sample.
        frequency = torch.clamp(share @ one_hot, min=0.5 / float(weights.sum())).log()
        shift = (share @ (values - frequency)).mean()
        return Targets(values, frequency + shift, noise)

    def probabilities(self, mean: Tensor, var: Tensor) -> Tensor:
        """Turn calibrated means (n, k) into probabilities (n, k)."""
        return torch.softmax(mean, dim=1)

    def calibrate(
        self, mean: Tensor, var: Tensor | None, codes: Tensor, weights: Tensor
    ) -> Calibration:
        """Return the most probable calibration of left-out samples.

        Parameters
        ----------
        mean : Tensor of shape (n, k)
            Leave-one-out latent means.
        var : Tensor of shape (n, k), or None
            Their variances, if those of new samples will be known.
        codes : Tensor of shape (n,)
            Class codes.
        weights : Tensor of shape (n,)
            Sample weights.

        Returns
        -------
        calibration : Calibration
            Temperature, spread, bend and floor.
        """
        return fit_calibration(mean, var, codes, weights, has_offsets=False)
