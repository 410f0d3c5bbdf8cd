"""Labels as counts: log-normal targets, each with a noise variance from its label."""

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
    r"""Labels as counts of a Dirichlet distribution, approximated by regression.

    A label adds one count to its class, :math:`\alpha_{ic} = \alpha_\epsilon +
    [y_i = c]`. The Gamma distribution of each count is approximated by a log-normal
    one. A latent function is therefore regressed on
    :math:`\log \alpha_{ic} - \sigma_{ic}^2 / 2` with noise variance
    :math:`\sigma_{ic}^2 = \log(1 + 1 / \alpha_{ic})`, which is small for the class of a
    sample and large for the others. The prior means are the logarithms of the class
    frequencies, plus a constant that gives them the mean of the targets. Probabilities
    are the softmax of latent means, calibrated as in
    :class:`~skconvgp.likelihoods.Gaussian`; the variance of a sample is the mean of the
    variances of its latent functions.

    Parameters
    ----------
    alpha_eps : float or "loo", default=0.01
        Prior count of each class, > 0; a larger one gives less confident
        probabilities. "loo" fits with 0.01, 0.1, 0.001 and 1e-6 and uses the one with
        the lowest leave-one-out log loss: a tiny one where labels are certain, as those
        of digits; 0.01 where samples are too few to tell.

    Raises
    ------
    ValueError
        In `fit`, if a setting is not allowed.

    Notes
    -----
    One factorisation of the matrix with the larger noise serves all classes; each class
    adds a smaller factorisation, for the samples of that class. With features, such as
    those of `RandomFeatures` or `Nystrom`, each class has a factorisation of its own.

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

    tried: ClassVar = (0.01, 0.1, 0.001, 1e-6)  # docs/maths.rst, "Labels as counts"

    alpha_eps: float | str = 0.01

    @property
    def needs_variance(self) -> bool:
        """Whether `probabilities` reads the variance: no, only the calibration does."""
        return False

    def targets(self, codes: Tensor, n_classes: int, weights: Tensor) -> Targets:
        """Turn class codes (n,) into regression targets with noise variances."""
        count = self._count()
        one_hot = torch.nn.functional.one_hot(codes, n_classes).to(torch.float64)
        alpha = one_hot + count
        noise = torch.log1p(1.0 / alpha)
        values = alpha.log() - noise / 2.0
        share = weights.to(values) / weights.sum()
        total = weights.to(values) @ one_hot
        # A class counts as half a sample of the mean weight at least, so that the
        # logarithm is finite for one that only later batches have.
        least = 0.5 * total.sum() / (weights > 0.0).sum()
        frequency = (torch.maximum(total, least) / total.sum()).log()
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
            Their variances, if the variances of new samples will be known.
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
