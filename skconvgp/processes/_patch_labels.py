"""Left-out predictions of images given by the features of their patches."""

from __future__ import annotations

from dataclasses import dataclass

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
from skconvgp.inference import Coefficients, FeaturePosterior, LabelCode, Sites
from skconvgp.processes._coded_labels import left_out_outputs
from skconvgp.processes._coefficients import CoefficientPosterior, coefficients_of
from skconvgp.processes._grown import coded_labels
from skconvgp.processes._patch_images import (
    PatchImages,
    left_out_images,
    unexplained_of,
)
from skconvgp.processes._patch_prior import PatchPrior
from skconvgp.processes._process import (
    KeptLeftOut,
    LeftOutValues,
    Process,
    run_beside,
)
from skconvgp.processes._run import Resources, Run


@dataclass(frozen=True)
class PatchLeftOut(KeptLeftOut):
    """Left-out predictions that are kept of some images, and computed of all others."""

    images: PatchImages | None = None  # all training images; None if nothing is missing

    def values(
        self, process: Process, resources: Resources, *, is_subset_enough: bool
    ) -> LeftOutValues:
        """Return the predictions; features of images are computed again."""
        images, needed = self.images, frozen_bytes(process.state)
        if images is None or is_subset_enough:
            return super().values(process, resources, is_subset_enough=is_subset_enough)

        def leave_out_at(placement: Placement) -> tuple[FloatArray, FloatArray]:
            run = run_beside(resources, placement, needed)
            if process.labels is not None:
                return leave_labelled_images_out(process, images, run)
            prior, posterior = process.prior, coefficients_of(process)
            assert isinstance(prior, PatchPrior)
            return left_out_images(
                images,
                process.model,
                prior,
                shared_posterior(posterior, placement.device),
                posterior.variance,
                run,
            )

        found = compute_at(resources.placement(needed), leave_out_at)
        return LeftOutValues(np.arange(len(self.mean)), *found, self.has_noise)

    def followed_by(
        self,
        n_more: int,
        samples: NDArray[np.intp],
        found: tuple[FloatArray, FloatArray],
    ) -> PatchLeftOut:
        """Return the predictions of these and further samples, some of them found.

        `samples` (s,) are the indices, among both, of those with means (s, k) and
        variances; others of the further samples are not known.
        """
        means = np.vstack([self.mean, np.full((n_more, self.mean.shape[1]), np.nan)])
        unknown = np.full((n_more, *self.var.shape[1:]), np.nan)
        variances = np.concatenate([self.var, unknown])
        means[samples], variances[samples] = found
        return PatchLeftOut(means, variances, self.has_noise, (samples, *found))


def shared_posterior(
    posterior: CoefficientPosterior, device: torch.device
) -> FeaturePosterior:
    """Return the posterior of coefficients that all outputs share, on a device."""
    (factor,) = thaw(posterior.state, device).factors
    return FeaturePosterior(factor, to_tensor(posterior.dual, device), posterior.jitter)


def leave_labelled_images_out(
    process: Process,
    images: PatchImages,
    run: Run,
    residual_diag: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return left-out means and variances (s, n_outputs) of the samples of images.

    Features of the m images are computed again, a block of images at a time.
    `residual_diag` (m,) has the prior variances minus what features explain, if they
    are known.
    """
    prior, model, device = process.prior, process.model, run.config.device
    posterior, labels = coefficients_of(process), coded_labels(process)
    assert isinstance(prior, PatchPrior)
    factors, code = thaw(posterior.state, device).factors, thaw(labels.code, device)
    means = to_tensor(process.dual, device).mT[int(process.has_one_latent) :]
    posteriors = list(map(Coefficients, factors, means))
    found = []
    for part, block in prior.blocks(images.rows, run, "leave out"):
        features = block.to(torch.float64)
        known = None if residual_diag is None else residual_diag[part]
        own = images.rows[part], prior, model.mean_diag, posterior.variance, run, known
        marginals = _marginals(posteriors, features)
        found.append((*marginals, unexplained_of(features, *own)))
    mean, var, unexplained = map(torch.cat, zip(*found, strict=True))
    labelled = LabelledImages(images, labels.codes, model.weights, code)
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
