"""PatchLandscape: a criterion as a function of the parameters of a patch process.

Values take one pass over the learning images, tile by tile; derivatives take a second
one, in which each tile is computed again and pulled back. Only features of all images
and the graph of one tile are held.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from skconvgp._ambient import ordinary_torch
from skconvgp._protocols import Batch
from skconvgp._tensors import int_range, reals
from skconvgp._typing import FloatArray
from skconvgp.engine import slices, to_numpy
from skconvgp.exceptions import NotPSDError
from skconvgp.flows._patch_task import (
    PatchTask,
    features_of,
    pull_features,
    pull_variances,
    variances_of,
)
from skconvgp.flows._trace import Traced, Watcher
from skconvgp.inference import (
    FeatureScore,
    feature_bound,
    feature_evidence,
    feature_posterior,
    feature_score,
    sum_features,
)
from skconvgp.processes import Run

START_NOISES = tuple(10.0**i for i in range(-6, 2))  # of which the best is taken
WORST = 10.0  # a value for each target that is above those of useful parameters
BOUND = "elbo"


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
        self._parts = list(slices(len(task.images), n_images))
        self.worst = WORST
        self.start, self.bounds, self.labels = task.start()
        self.origin = self.start
        self.limits = np.exp(self.bounds[: len(self.labels)])
        self.fixed = (Batch(int_range(len(task.images))),)
        # Noise that is learned is a share of the mean prior variance at the start.
        self._unit = float(self._variances(reals(self.start)).mean())

    def start_at_best_noise(self) -> None:
        """Begin with the noise that is best for the start, if noise is learned."""
        if not self._task.learns_noise:
            return
        features, best = self._features(self.start), math.inf
        index, starts = self._task.sizes[0], []
        for noise in START_NOISES:
            starts.append(self.start.copy())
            starts[-1][index] = math.log(noise)
        for start in starts:
            score = self._score(start, features)
            if score is not None and score.value < best:
                best, self.start, self.origin = score.value, start, start

    def best_step(self, found: FloatArray, held: PatchTask) -> FloatArray:
        """Return the theta of the start, of a step or `found` that predicts best.

        The thetas are judged by the log density of images `held`, which the optimiser
        that found the last one has not seen.
        """
        thetas = [self.start, *(step.theta for step in self._steps), found]
        return min(thetas, key=lambda theta: self._loss(theta, held))

    def draw(self, progress: float) -> Batch:
        """Return the batch of all learning images."""
        return self.fixed[0]

    def _mean(self, theta: FloatArray, batches: tuple[Batch, ...]) -> float:
        """Return the value over all learning images; NaN if it is undefined."""
        self.n_evaluations += 1
        score = self._score(theta, self._features(theta))
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
        score = self._score(theta, self._features(theta))
        if score is None:
            return math.nan, np.full(len(theta), math.nan)
        self._remember(theta, score.value)
        slope = to_numpy(self._pulled(theta, score))
        if self._task.learns_noise:
            noise = self._task.noise_at(theta) * self._unit
            slope[self._task.sizes[0]] += score.by_noise * noise
        return score.value, slope

    @property
    def _needs_variances(self) -> bool:
        return self._task.criterion == BOUND or not self._task.learns_noise

    def _score(self, theta: FloatArray, features: Tensor) -> FeatureScore | None:
        """Return the criterion of features; None if it is undefined.

        Its derivative by the mean prior variance includes that of a fixed noise.
        """
        task, variances, unit = self._task, None, self._unit
        if self._needs_variances:
            variances = self._variances(reals(theta))
            unit = unit if task.learns_noise else float(variances.mean())
        noise = task.noise_at(theta) * unit
        is_bound = task.criterion == BOUND
        name = "evidence" if is_bound else task.criterion
        try:
            score = feature_score(features, task.targets, noise, name)
        except NotPSDError:
            return None
        if is_bound:
            assert variances is not None
            score = feature_bound(score, features, task.sampled, variances, noise)
        is_defined = math.isfinite(score.value)
        is_defined = is_defined and bool(score.by_features.isfinite().all())
        return score if is_defined else None

    def _loss(self, theta: FloatArray, held: PatchTask) -> float:
        """Return minus the mean log density of targets that were held out."""
        targets, unit = self._task.targets, self._unit
        if not self._task.learns_noise:
            unit = float(self._variances(reals(theta)).mean())
        noise = torch.full_like(targets[:, 0], self._task.noise_at(theta) * unit)
        features = self._features(theta), self._features(theta, held)
        if not all(bool(one.isfinite().all()) for one in features):
            return math.inf
        seen, new = features
        sums = sum_features(seen, targets, noise, torch.ones_like(noise))
        posterior = feature_posterior(sums)
        _, amplitude = feature_evidence(sums, posterior, None)
        var = (posterior.half(new).square().sum(0) + noise[0])[:, None] * amplitude
        error = (held.targets - new @ posterior.mean).square()
        return float((error / var + var.log()).mean()) / 2.0

    def _features(self, theta: FloatArray, task: PatchTask | None = None) -> Tensor:
        """Return features (n, r) of all images, by default of the learning images."""
        task = task or self._task
        size = self._parts[0].stop
        with torch.no_grad():
            given = reals(theta)
            factors = task.whitenings_at(given)
            jobs = (
                partial(features_of, i, task, given, factors, part)
                for i, part in enumerate(slices(len(task.images), size))
            )
            return torch.cat(self._in_order(jobs))

    def _variances(self, theta: Tensor) -> Tensor:
        """Return the prior variances (s,) of the sampled images."""
        jobs = (
            partial(variances_of, i, self._task, theta, part)
            for i, part in enumerate(self._task.variance_parts())
        )
        return torch.cat(self._in_order(jobs))

    def _pulled(self, theta: FloatArray, score: FeatureScore) -> Tensor:
        """Return the derivatives (p,) through features and prior variances."""
        task = self._task
        with ordinary_torch():
            free = reals(theta).requires_grad_()
            factors = task.whitenings_at(free)
        total = torch.zeros_like(free)
        made = list(chain(*factors))
        by_factors = [torch.zeros_like(one) for one in made]
        by_features = score.by_features
        jobs: Any = (
            partial(pull_features, i, task, theta, factors, part, by_features[part])
            for i, part in enumerate(self._parts)
        )
        for by_theta, *by_given in self._in_order(jobs):
            total += by_theta
            for sums, by_factor in zip(by_factors, by_given, strict=True):
                sums.add_(by_factor)
        moving = [i for i, one in enumerate(made) if one.requires_grad]
        if moving:
            (further,) = torch.autograd.grad(
                [made[i] for i in moving],
                free,
                [by_factors[i] for i in moving],
                materialize_grads=True,
            )
            total += further
        by_variance = score.by_variance
        if not task.learns_noise:  # the noise is a share of the mean prior variance
            by_variance += task.noise * score.by_noise
        if self._needs_variances:
            jobs = (
                partial(pull_variances, i, task, theta, part)
                for i, part in enumerate(task.variance_parts())
            )
            for by_theta in self._in_order(jobs):
                total += by_theta * (by_variance / len(task.sampled))
        return total

    def _in_order(self, jobs: Iterator[Callable[[], tuple[int, Any]]]) -> list[Any]:
        found = sorted(self._run.runner(jobs), key=lambda one: one[0])
        return [one for _, one in found]
