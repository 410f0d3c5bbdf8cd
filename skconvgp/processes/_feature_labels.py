"""FeatureLabelProcess: columns of features, and labels that determine their noise."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from skconvgp._typing import FloatArray
from skconvgp.processes._coded_labels import CodedLabelProcess
from skconvgp.processes._expansion import ExpansionPrior
from skconvgp.processes._feature_samples import FeatureSites, Reservoir
from skconvgp.processes._prior import PlainPrior
from skconvgp.processes._run import Resources

__all__ = ["FeatureLabelProcess"]


@dataclass(frozen=True)
class FeatureLabelProcess(CodedLabelProcess):
    """A process of labels whose prior covariance is a product of features.

    Parameters
    ----------
    model, prior, state, dual, variance, has_one_latent : object
        As in `CoefficientProcess`.
    likelihood, offset, code, codes, jitters, loo : object
        As in `CodedLabelProcess`.
    coefficients : ndarray of shape (r, k)
        Posterior means of the coefficients of the k latent functions.
    reservoir : Reservoir or None
        Random samples of those added so far; None if no sample can be added.
    loo_subset : tuple of ndarray or None, default=None
        Indices of the samples whose leave-one-out predictions are up to date, with
        their means and variances given all samples so far; None if all are.
    """

    prior: PlainPrior | ExpansionPrior
    coefficients: FloatArray = field(repr=False)
    reservoir: Reservoir[FeatureSites] | None = field(repr=False)
    loo_subset: tuple[NDArray[np.intp], FloatArray, FloatArray] | None = field(
        default=None, repr=False
    )

    def leave_out(
        self,
        resources: Resources,  # noqa: ARG002  (all values are kept)
        *,
        is_subset_enough: bool,
    ) -> tuple[NDArray[np.intp], FloatArray, FloatArray]:
        """Return indices of samples, and their leave-one-out latent functions."""
        if is_subset_enough and self.loo_subset is not None:
            return self.loo_subset
        return np.arange(len(self.codes)), *self.loo
