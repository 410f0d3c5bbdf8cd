"""Different images: sums over their features, and predictions without each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from skconvgp._tensors import uniforms
from skconvgp._typing import FloatArray
from skconvgp.engine import to_numpy, to_tensor
from skconvgp.inference import (
    EqualInputs,
    FeaturePosterior,
    LeaveOneOut,
    MergedSamples,
    feature_leave_one_out,
    leave_one_unit_out,
)
from skconvgp.processes._patch_prior import PatchPrior
from skconvgp.processes._problem import Model, Problem
from skconvgp.processes._run import Run


@dataclass(frozen=True)
class PatchImages:
    """Different images, and the training samples that show them.

    Parameters
    ----------
    rows : ndarray of shape (m, d)
        The images.
    samples : ndarray of shape (s,)
        Indices of the training samples that show one of them, in increasing order.
    of : ndarray of shape (s,)
        Which image each of these samples shows.
    """

    rows: NDArray[np.floating]
    samples: NDArray[np.intp]
    of: NDArray[np.intp]

    @classmethod
    def of_problem(cls, problem: Problem) -> Self:
        """Return the different images of a problem."""
        inputs, rows = problem.inputs, problem.rows
        if inputs.n_inputs < len(rows):
            rows = rows[to_numpy(inputs.first())]
        return cls(rows, np.arange(len(problem.rows)), to_numpy(inputs.of))

    def take(self, images: NDArray[np.intp]) -> Self:
        """Return some of the images, with all samples that show them."""
        position = np.full(len(self.rows), -1)
        position[images] = np.arange(len(images))
        is_shown = position[self.of] >= 0
        of = position[self.of[is_shown]]
        return type(self)(self.rows[images], self.samples[is_shown], of)

    def in_precision(self, dtype: torch.dtype) -> Self:
        """Return a copy with images in the precision of tiles."""
        rows = to_numpy(torch.tensor(self.rows, dtype=dtype, device="cpu"))
        return type(self)(rows, self.samples, self.of)

    def merge(
        self, targets: FloatArray, weights: FloatArray, device: torch.device
    ) -> MergedSamples:
        """Return one sample for each image, of all samples (n, k), (n,)."""
        own = (to_tensor(v[self.samples], device) for v in (targets, weights))
        return self.inputs(device).merge(*own)

    def sum(self, values: FloatArray, device: torch.device) -> Tensor:
        """Return sums (m, ...) of the values (n, ...) of samples, for each image."""
        own = to_tensor(values[self.samples], device)
        return self.inputs(device).sum(own)

    def values_of_samples(
        self, loo: LeaveOneOut, residual_diag: Tensor, model: Model
    ) -> tuple[FloatArray, FloatArray]:
        """Return leave-one-out means (s, k) and variances (s,) of the samples.

        Parameters
        ----------
        loo : LeaveOneOut
            Predictions of the m images.
        residual_diag : Tensor of shape (m,)
            Variances that features do not explain, where they are added.
        model : Model
            Model of all samples.
        """
        device = residual_diag.device
        whole = self.merge(model.targets, model.weights, device)
        of, samples = to_tensor(self.of, device), self.samples
        targets = to_tensor(model.targets[samples], device)
        left = to_tensor(model.left_out_weights[samples], device)
        totals = whole.weights[of]
        # Rounding in the difference must not look like weight that stays.
        staying = (totals - left).clamp(min=0.0)
        staying = torch.where(staying > 1e-12 * totals, staying, 0.0)
        loo = leave_one_unit_out(
            LeaveOneOut(loo.mean[of], loo.var[of]),
            targets,
            whole.targets[of],
            model.noise,
            totals,
            staying,
        )
        return to_numpy(loo.mean), to_numpy(loo.var + residual_diag[of])

    def inputs(self, device: torch.device) -> EqualInputs:
        """Return which of the samples have equal inputs."""
        return EqualInputs(to_tensor(self.of, device))


@dataclass(frozen=True)
class PatchReservoir:
    """A random subset of the different images so far, of a bounded size.

    Parameters
    ----------
    images : PatchImages
        The images.
    keys : ndarray of shape (m,)
        Their random keys, the smallest of all: a subset of two parts then follows from
        subsets of each.
    residual_diag : ndarray of shape (m,)
        Prior variances minus what features explain, as in `ImageFeatures`.
    """

    images: PatchImages
    keys: FloatArray
    residual_diag: FloatArray

    def join(self, other: Self, size: int) -> Self:
        """Return so many images of both; images of the other follow."""
        mine, theirs = self.images, other.images
        images = PatchImages(
            np.vstack([mine.rows, theirs.rows]),
            np.concatenate([mine.samples, theirs.samples]),
            np.concatenate([mine.of, len(mine.rows) + theirs.of]),
        )
        keys = np.concatenate([self.keys, other.keys])
        residual_diag = np.concatenate([self.residual_diag, other.residual_diag])
        chosen = np.sort(keys.argsort()[:size])
        return type(self)(images.take(chosen), keys[chosen], residual_diag[chosen])


def draw_keys(n_before: int, n_images: int, generator: Generator) -> Tensor:
    """Return random keys (m,) of images that follow earlier samples.

    The keys of earlier ones are drawn again: a seed gives each image the same key,
    however images are cut into batches.
    """
    return uniforms((n_before + n_images,), generator, torch.float32)[n_before:]


def unexplained_of(
    features: Tensor,
    rows: NDArray[np.floating],
    prior: PatchPrior,
    unit: float,
    variance: str,
    run: Run,
    known: FloatArray | None = None,
) -> Tensor:
    """Return prior variances (m,) that features do not explain, if they count.

    Parameters
    ----------
    features : Tensor of shape (m, r)
        Features, for a mean prior variance of 1.
    rows : ndarray of shape (m, d)
        The images.
    prior : PatchPrior
        Gives prior variances.
    unit : float
        Mean prior variance, by which they are divided.
    variance : {"dtc", "sor"}
        With "sor" they do not count, and zeros are returned.
    run : Run
        How to compute.
    known : ndarray of shape (m,), optional
        The result, if it is known.
    """
    if known is not None:
        return to_tensor(known, features.device)
    if variance == "sor":
        return features.new_zeros(len(features))
    variances = prior.variances(rows, run).to(features) / unit
    return (variances - features.square().sum(1)).clamp(min=0.0)


@dataclass(frozen=True)
class ImageFeatures:
    """Different images, given by their features, with all that predictions need.

    Parameters
    ----------
    features : Tensor of shape (m, r)
        F, for a mean prior variance of 1.
    data : MergedSamples
        Targets and weights.
    residual_diag : Tensor of shape (m,)
        Prior variances minus the diagonal of F F^T, if they count; otherwise zeros.
    """

    features: Tensor
    data: MergedSamples
    residual_diag: Tensor

    @classmethod
    def of(
        cls,
        features: Tensor,
        data: MergedSamples,
        rows: NDArray[np.floating],
        prior: PatchPrior,
        unit: float,
        variance: str,
        run: Run,
        known: FloatArray | None = None,
    ) -> Self:
        """Return images (m, d) by their features; parameters as `unexplained_of`."""
        residual_diag = unexplained_of(
            features, rows, prior, unit, variance, run, known
        )
        return cls(features, data, residual_diag)

    def left_out(self, posterior: FeaturePosterior, noise: float) -> LeaveOneOut:
        """Return predictions of the m targets without their images, by features."""
        unit = torch.full_like(self.residual_diag, noise)
        data = self.data
        return feature_leave_one_out(
            self.features, data.targets, unit, data.weights, posterior
        )


def left_out_images(
    images: PatchImages,
    model: Model,
    prior: PatchPrior,
    posterior: FeaturePosterior,
    variance: str,
    run: Run,
    residual_diag: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return leave-one-out means (s, k) and variances (s,) of the samples of images.

    Their features are computed again, a block of images at a time.

    Parameters
    ----------
    images : PatchImages
        The images.
    model : Model
        Model of all samples.
    prior : PatchPrior
        Gives the features.
    posterior : FeaturePosterior
        Posterior of their coefficients, given all samples.
    variance : {"dtc", "sor"}
        What becomes of the variance that the features leave out.
    run : Run
        How to compute.
    residual_diag : ndarray of shape (m,), optional
        Prior variances minus what features explain, if they are known.
    """
    data = images.merge(model.targets, model.weights, run.config.device)
    found, residual_diags = [], []
    for part, block in prior.blocks(images.rows, run, "leave out"):
        own = ImageFeatures.of(
            block.to(torch.float64),
            data.take(part),
            images.rows[part],
            prior,
            model.mean_diag,
            variance,
            run,
            None if residual_diag is None else residual_diag[part],
        )
        found.append(own.left_out(posterior, model.noise))
        residual_diags.append(own.residual_diag)
    mean = torch.cat([one.mean for one in found])
    loo = LeaveOneOut(mean, torch.cat([one.var for one in found]))
    return images.values_of_samples(loo, torch.cat(residual_diags), model)
