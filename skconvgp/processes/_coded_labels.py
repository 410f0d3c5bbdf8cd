"""CodedLabelProcess: features, and labels that each give targets and noise."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._typing import FloatArray
from skconvgp.engine import rows_to_tensor, to_numpy
from skconvgp.inference import LabelCode, Sites
from skconvgp.processes._coefficients import CoefficientProcess, CoefficientState
from skconvgp.processes._run import Resources

__all__ = ["CodedLabelProcess", "left_out_outputs", "of_outputs"]


@dataclass(frozen=True)
class CodedLabelProcess(CoefficientProcess, ABC):
    """A process of labels, by features; targets and noise follow from the labels.

    Parameters
    ----------
    model, prior, state, dual, variance, has_one_latent : object
        As in `CoefficientProcess`.
    likelihood : object
        The likelihood that was chosen.
    offset : ndarray of shape (n_outputs,)
        Prior means of the latent functions.
    code : LabelCode
        Targets and noise of each label, as arrays.
    codes : ndarray of shape (n,)
        Class codes of the samples.
    jitters : ndarray of shape (k,)
        Jitter that had to be added to the diagonal of each precision; 0 if none.
    loo : tuple of ndarray
        Leave-one-out means and variances (n, n_outputs) of the samples, without noise,
        given all samples that had been added with each or before it; NaN if they are
        not known.
    """

    likelihood: Any
    offset: FloatArray
    code: LabelCode = field(repr=False)
    codes: NDArray[np.intp] = field(repr=False)
    jitters: FloatArray = field(repr=False)
    loo: tuple[FloatArray, FloatArray] = field(repr=False)

    @property
    def jitter(self) -> float:
        """Noise, as a share of the amplitude, with the effect of the largest jitter."""
        return float(self.jitters.max()) * self.least_noise

    @property
    def least_noise(self) -> float:
        """Least noise of an observation, as a share of the amplitude."""
        return float(self.code.noise.min())

    def class_weights(self) -> Tensor:
        """Return the total weight (c,) of the samples of each class."""
        n_classes = len(self.offset)
        totals = np.bincount(self.codes, self.model.weights, minlength=n_classes)
        return rows_to_tensor(totals)

    def of_mean_variance(self) -> Self:
        """Return the process whose one variance is the mean over latent functions.

        It is this process if that would take as long.
        """
        if self.state.mean_factor is None:
            return self
        factors, lift_map = self.state.mean_factor, self.state.lift_map
        return replace(self, state=CoefficientState(factors, lift_map))

    @abstractmethod
    def leave_out(
        self, resources: Resources, *, is_subset_enough: bool
    ) -> tuple[NDArray[np.intp], FloatArray, FloatArray]:
        """Return indices of samples, and their leave-one-out latent functions.

        Parameters
        ----------
        resources : Resources
            Devices and memory that may be used.
        is_subset_enough : bool
            Whether the samples that are kept are enough.

        Returns
        -------
        indices : ndarray of shape (m,)
            Which samples.
        mean, var : ndarray of shape (m, n_outputs)
            Means, without the offset, and variances.
        """


def left_out_outputs(
    sites: Sites,
    mean: Tensor,
    var: Tensor,
    residual_diag: Tensor,
    amplitude: float,
    n_outputs: int,
) -> tuple[FloatArray, FloatArray]:
    """Return leave-one-out means and variances (n, n_outputs) of samples.

    Parameters
    ----------
    sites : Sites
        What leaves with each sample.
    mean, var : Tensor of shape (n, k)
        Posterior of the latent functions; variances are those that features explain,
        for amplitude 1.
    residual_diag : Tensor of shape (n,)
        Variances that features do not explain, where they are added.
    amplitude : float
        Mean prior variance.
    n_outputs : int
        Number of outputs: there may be one function for two.
    """
    mean, var = sites.leave_out(mean, var)
    var = amplitude * (var + residual_diag[:, None])
    return of_outputs(mean, n_outputs), to_numpy(var.expand(-1, n_outputs))


def of_outputs(mean: Tensor, n_outputs: int) -> FloatArray:
    """Return means (n, k) of latent functions for all outputs."""
    if mean.shape[1] < n_outputs:  # of the second of two classes
        mean = torch.cat([-mean, mean], dim=1)
    return to_numpy(mean)
