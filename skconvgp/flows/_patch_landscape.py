"""PatchLandscape: a criterion as a function of the parameters of a patch process.

Values take one pass over the learning images, tile by tile; derivatives take a second
one, in which each tile is computed again and pulled back. Only features of all images
and the graph of one tile are held.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from skconvgp._protocols import Batch
from skconvgp._tensors import int_range
from skconvgp._typing import FloatArray
from skconvgp.engine import to_numpy
from skconvgp.exceptions import NotPSDError
from skconvgp.flows._patch_parameters import PatchParameters
from skconvgp.flows._patch_task import PatchPoint
from skconvgp.flows._trace import Traced, Watcher
from skconvgp.inference import (
    FeatureScore,
    feature_evidence,
    feature_posterior,
    feature_score,
    sum_features,
)
from skconvgp.processes import Run

START_NOISES = tuple(10.0**i for i in range(-6, 2))  # of which the best is taken
WORST = 10.0  # a value for each target that is above those of useful parameters


@dataclass(frozen=True)
class PatchTask:
    """Parameters to learn, and the images on which they are learned."""

    parameters: PatchParameters
    images: Tensor  # learning images (n, c, h, w), in double precision
    targets: Tensor  # (n, k)
    criterion: str  # "loo" or "evidence", which judges the parameters
    sampled: Tensor  # images whose prior variances stand for those of all


class PatchLandscape(Traced):
    """A criterion as a function of the parameters of a patch process.

    Theta holds logarithms of free hyperparameters and of the noise, then weights, then
    changes of inducing patches, each as far as it is learned. There is one batch, of
    all learning images.

    A tile has `n_images` images.
    """

    def __init__(
        self, task: PatchTask, run: Run, n_images: int, watch: Watcher
    ) -> None:
        super().__init__(watch)
        self._task, self._run = task, run
        self._parameters = task.parameters
        self._n_images = n_images
        self.worst = WORST
        self.start, self.bounds, self.labels = self._parameters.start()
        self.origin = self.start
        self.limits = np.exp(self.bounds[: len(self.labels)])
        self.fixed = (Batch(int_range(len(task.images))),)
        # Noise that is learned is a share of the mean prior variance at the start.
        self._unit = self._mean_variance(self._at(self.start))

    def start_at_best_noise(self) -> None:
        """Begin with the noise that is best for the start, if noise is learned."""
        if not self._parameters.learns_noise:
            return
        point, best = self._at(self.start), math.inf
        features = point.features(self._task.images)
        index, starts = self._parameters.sizes[0], []
        for noise in START_NOISES:
            starts.append(self.start.copy())
            starts[-1][index] = math.log(noise)
        for start in starts:
            score = self._score(start, features, self._unit)
            if score is not None and score.value < best:
                best, self.start, self.origin = score.value, start, start

    def best_step(
        self, found: FloatArray, images: Tensor, targets: Tensor
    ) -> FloatArray:
        """Return the theta of the start, of a step or `found` that predicts best.

        The thetas are judged by the log density of targets (m, k) of images (m, c, h,
        w), which the optimiser that found the last one has not seen.
        """
        thetas = [self.start, *(step.theta for step in self._steps), found]
        return min(thetas, key=lambda theta: self._loss(theta, images, targets))

    def draw(self, progress: float) -> Batch:
        """Return the batch of all learning images."""
        return self.fixed[0]

    def _mean(self, theta: FloatArray, batches: tuple[Batch, ...]) -> float:
        """Return the value over all learning images; NaN if it is undefined."""
        self.n_evaluations += 1
        point = self._at(theta)
        score = self._score(
            theta, point.features(self._task.images), self._unit_at(point)
        )
        return math.nan if score is None else score.value

    def gradient(
        self,
        theta: FloatArray,
        batches: tuple[Batch, ...],
        method: str = "exact",
    ) -> tuple[float, FloatArray]:
        """Return the value and its derivatives (p,); NaN if undefined."""
        self.n_evaluations += 1
        self.n_derivatives += 1
        point, task = self._at(theta), self._task
        score = self._score(theta, point.features(task.images), self._unit_at(point))
        if score is None:
            return math.nan, np.full(len(theta), math.nan)
        self._remember(theta, score.value)
        slope = point.slope(task.images, score.by_features)
        if self._parameters.learns_noise:
            noise = self._parameters.noise_at(theta) * self._unit
            slope[self._parameters.sizes[0]] += score.by_noise * noise
        else:  # the noise is a share of the mean prior variance
            by_mean = self._parameters.noise * score.by_noise / len(task.sampled)
            by_variances = task.sampled.new_full((len(task.sampled),), by_mean)
            slope = slope + point.variance_slope(task.sampled, by_variances)
        return score.value, to_numpy(slope)

    def _score(
        self, theta: FloatArray, features: Tensor, unit: float
    ) -> FeatureScore | None:
        """Return the criterion of features; None if it is undefined.

        The noise is a share of the variance `unit`.
        """
        noise = self._parameters.noise_at(theta) * unit
        try:
            score = feature_score(
                features, self._task.targets, noise, self._task.criterion
            )
        except NotPSDError:
            return None
        is_defined = math.isfinite(score.value)
        is_defined = is_defined and bool(score.by_features.isfinite().all())
        return score if is_defined else None

    def _unit_at(self, point: PatchPoint) -> float:
        """Return the variance of which the noise is a share."""
        if self._parameters.learns_noise:
            return self._unit
        return self._mean_variance(point)

    def _mean_variance(self, point: PatchPoint) -> float:
        """Return the mean prior variance."""
        return float(point.variances(self._task.sampled).mean())

    def _loss(self, theta: FloatArray, images: Tensor, held: Tensor) -> float:
        """Return minus the mean log density of targets (m, k) that were held out."""
        targets, point = self._task.targets, self._at(theta)
        share = self._parameters.noise_at(theta) * self._unit_at(point)
        noise = torch.full_like(targets[:, 0], share)
        features = point.features(self._task.images), point.features(images)
        if not all(bool(one.isfinite().all()) for one in features):
            return math.inf
        seen, new = features
        sums = sum_features(seen, targets, noise, torch.ones_like(noise))
        posterior = feature_posterior(sums)
        _, amplitude = feature_evidence(sums, posterior, None)
        var = (posterior.half(new).square().sum(0) + noise[0])[:, None] * amplitude
        error = (held - new @ posterior.mean).square()
        return float((error / var + var.log()).mean()) / 2.0

    def _at(self, theta: FloatArray) -> PatchPoint:
        return PatchPoint.at(self._task.parameters, theta, self._run, self._n_images)
