"""Label regression with a softmax of calibrated latents."""

from dataclasses import dataclass

import torch
from torch import Tensor

from skconvgp._parts import Part
from skconvgp._protocols import Calibration, Targets
from skconvgp._settings import require
from skconvgp.likelihoods._calibration import fit_calibration

__all__ = ["Gaussian"]


@dataclass(repr=False)
class Gaussian(Part):
    r"""Label regression: one-vs-rest targets, softmax of calibrated latents.

    The target is 1 for the class of a sample and -1 / (n_classes - 1) for the others,
    so that targets sum to zero. Probabilities are

    .. math::

        z_c = \frac{m_c + b_c}{\sqrt{T^2 + \kappa v}}, \qquad
        p = (1 - \epsilon)\,
            \mathrm{softmax} \left( \frac{\mathrm{asinh}(\beta z)}{\beta} \right)
            + \frac{\epsilon}{C}

    for latent means m and their variance v. Temperature T, spread :math:`\kappa`, bend
    :math:`\beta`, floor :math:`\epsilon` and offsets b minimise the log loss of the
    closed-form leave-one-out predictions, plus priors. Odds grow exponentially with z
    if :math:`\beta z` is below 1, and as a power of larger z. A share
    :math:`\epsilon` of the labels may be any class. Each prior weighs as much as a
    sample: T, :math:`\kappa`, :math:`\beta`, :math:`\epsilon` are log-normal around a
    tenth of the size of the latents, :math:`\pi / 8` (the factor of a logistic function
    averaged over a Gaussian), 0.1 and 0.001, and :math:`b_c / T` is normal with
    deviation 1/4.

    Parameters
    ----------
    spread : bool, default=True
        Whether a large variance shrinks the latents, so that a sample unlike all
        training samples gets no confident prediction. The predicted class stays the
        same; each probability then needs a predictive variance. False sets
        :math:`\kappa` to 0, as does ``kernel="precomputed"``, which gives no variance
        of new samples.
    offsets : bool, default=False
        Whether each class has an offset, which changes predicted classes, too. It helps
        if classes differ in size or in difficulty.

    References
    ----------
    Rifkin and Klautau, "In defense of one-vs-all classification", 2004 (label
    regression); Guo et al., "On calibration of modern neural networks", 2017,
    section 4.2 (temperature); MacKay, "The evidence framework applied to
    classification networks", 1992 (the average over a Gaussian).

    Examples
    --------
    >>> import torch
    >>> from skconvgp.likelihoods import Gaussian
    >>> Gaussian().targets(torch.tensor([0, 2]), 3, torch.ones(2)).values
    tensor([[ 1.0000, -0.5000, -0.5000],
            [-0.5000, -0.5000,  1.0000]], dtype=torch.float64)
    """

    spread: bool = True
    offsets: bool = False

    @property
    def needs_variance(self) -> bool:
        """Whether `probabilities` reads the variance: no, only the calibration does."""
        return False

    def targets(self, codes: Tensor, n_classes: int, weights: Tensor) -> Targets:
        """Turn class codes (n,) into regression targets; weights are not read."""
        for name in ("spread", "offsets"):  # before any work
            require(self, name, isinstance(getattr(self, name), bool), "a bool")
        off = -1.0 / (n_classes - 1)
        one_hot = torch.nn.functional.one_hot(codes, n_classes).to(torch.float64)
        values = one_hot * (1.0 - off) + off
        return Targets(
            values, torch.zeros(n_classes, dtype=torch.float64, device="cpu")
        )

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
            Temperature, spread, bend, floor and offsets.
        """
        spread = var if self.spread else None
        return fit_calibration(mean, spread, codes, weights, has_offsets=self.offsets)
