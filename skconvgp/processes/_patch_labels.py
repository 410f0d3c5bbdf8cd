"""PatchLabelProcess: features of patches, and labels that determine their noise."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._typing import FloatArray
from skconvgp.engine import (
    Placement,
    compute_at,
    frozen_bytes,
    thaw,
    to_tensor,
)
from skconvgp.inference import Coefficients, LabelCode, Sites
from skconvgp.processes._coded_labels import CodedLabelProcess, left_out_outputs
from skconvgp.processes._latents import run_beside
from skconvgp.processes._patch_images import (
    PatchImages,
    PatchReservoir,
    unexplained_of,
)
from skconvgp.processes._patch_prior import PatchPrior
from skconvgp.processes._run import Resources, Run

__all__ = ["LabelledImages", "PatchLabelProcess"]


@dataclass(frozen=True)
class PatchLabelProcess(CodedLabelProcess):
    """A process of labels, by the features of patches.

    Parameters
    ----------
    model, prior, state, dual, variance, has_one_latent : object
        As in `CoefficientProcess`.
    likelihood, offset, code, codes, jitters, loo : object
        As in `CodedLabelProcess`.
    unexplained : float
        Share of the mean prior variance that the features leave out.
    reservoir : PatchReservoir
        Random images of those added so far.
    loo_subset : tuple of ndarray
        Indices of the samples whose leave-one-out predictions are up to date, with
        their means and variances given all samples so far.
    images : PatchImages or None
        Training images, if leave-one-out predictions are computed on demand.
    """

    prior: PatchPrior
    unexplained: float
    reservoir: PatchReservoir = field(repr=False)
    loo_subset: tuple[NDArray[np.intp], FloatArray, FloatArray] = field(repr=False)
    images: PatchImages | None = field(repr=False)

    @property
    def bound(self) -> float:
        """Lower bound of the log evidence with all of the prior variance."""
        assert self.model.log_evidence is not None
        code = thaw(self.code, torch.device("cpu"))
        precision = float(code.precision(self.class_weights()).sum())
        return self.model.log_evidence - 0.5 * self.unexplained * precision

    def leave_out(
        self, resources: Resources, *, is_subset_enough: bool
    ) -> tuple[NDArray[np.intp], FloatArray, FloatArray]:
        """Return indices of samples, and their leave-one-out latent functions."""
        if is_subset_enough:
            return self.loo_subset
        images, needed = self.images, frozen_bytes(self.state)
        if images is None:
            return np.arange(len(self.codes)), *self.loo

        def leave_out_at(placement: Placement) -> tuple[FloatArray, FloatArray]:
            run = run_beside(resources, placement, needed)
            return self.leave_images_out(images, run)

        found = compute_at(resources.placement(needed), leave_out_at)
        return np.arange(len(self.codes)), *found

    def leave_images_out(
        self, images: PatchImages, run: Run, residual_diag: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return leave-one-out means and variances (s, n_outputs) of samples.

        Features of their images are computed again, a block of images at a time.

        Parameters
        ----------
        images : PatchImages
            The images with their samples.
        run : Run
            How to compute.
        residual_diag : ndarray of shape (m,), optional
            Prior variances minus what features explain, if they are known.
        """
        prior, model, device = self.prior, self.model, run.config.device
        factors, code = thaw(self.state, device).factors, thaw(self.code, device)
        means = to_tensor(self.dual, device).mT[int(self.has_one_latent) :]
        posteriors = list(map(Coefficients, factors, means))
        found = []
        for part, block in prior.blocks(images.rows, run, "leave out"):
            features = block.to(torch.float64)
            known = None if residual_diag is None else residual_diag[part]
            own = images.rows[part], prior, model.mean_diag, self.variance, run, known
            marginals = _marginals(posteriors, features)
            found.append((*marginals, unexplained_of(features, *own)))
        mean, var, unexplained = map(torch.cat, zip(*found, strict=True))
        labelled = LabelledImages(images, self.codes, model.weights, code)
        return labelled.leave_out(mean, var, unexplained, float(model.amplitude[0]))


@dataclass(frozen=True)
class LabelledImages:
    """Images, and the samples that show them with their labels.

    Parameters
    ----------
    images : PatchImages
        The images.
    codes : ndarray of shape (n,)
        Class codes of all samples.
    weights : ndarray of shape (n,)
        Their weights.
    code : LabelCode
        Targets and noise of each label.
    """

    images: PatchImages
    codes: NDArray[np.intp]
    weights: FloatArray
    code: LabelCode

    def leave_out(
        self, mean: Tensor, var: Tensor, residual_diag: Tensor, amplitude: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return leave-one-out means and variances (s, n_outputs) of the samples.

        Parameters
        ----------
        mean, var : Tensor of shape (m, k)
            Posterior of the latent functions at the images; variances are those that
            the features explain, for amplitude 1.
        residual_diag : Tensor of shape (m,)
            Variances that features do not explain, where they are added.
        amplitude : float
            Mean prior variance.
        """
        device, samples = mean.device, self.images.samples
        inputs = self.images.inputs(device)
        codes = to_tensor(self.codes[samples], device)
        weights = to_tensor(self.weights[samples], device)
        targets = self.code.values[codes]
        noise = self.code.noise[codes] / weights[:, None]
        own = mean[inputs.of], var[inputs.of]
        sites = Sites.of(targets, noise, weights, inputs)
        left = residual_diag[inputs.of]
        return left_out_outputs(sites, *own, left, amplitude, len(self.code.noise))


def _marginals(
    posteriors: list[Coefficients], features: Tensor
) -> tuple[Tensor, Tensor]:
    """Return means and variances (b, k) of latent functions, given features (b, r)."""
    each = [posterior.marginals(features) for posterior in posteriors]
    mean, var = (torch.stack(part, 1) for part in zip(*each, strict=True))
    return mean, var
