"""PatchLandscape: a criterion as a function of the parameters of a patch process.

Values take one pass over the learning images, tile by tile; derivatives take a second
one, in which each tile is computed again and pulled back. Only features of all images
and the graph of one tile are held.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from skconvgp._autograd import enabled_autograd
from skconvgp._protocols import Batch, OptimizerResult, Step
from skconvgp._typing import FloatArray
from skconvgp.backends import Responses
from skconvgp.engine import slices, to_numpy
from skconvgp.exceptions import NotPSDError
from skconvgp.flows._history import FlowResult
from skconvgp.flows._landscape import NOISE_LABEL
from skconvgp.inference import FeatureScore, feature_bound, feature_score
from skconvgp.kernels import PatchKernel
from skconvgp.processes import Run
from skconvgp.processes._patch_features import (
    Whitening,
    whitened_features,
    whitening,
)

__all__ = ["PatchLandscape", "PatchTask"]

NOISE_BOUNDS = 1e-6, 1e1  # of a noise that is learned, in units of the prior variance
MOST_WEIGHT = 10.0  # weights begin at 1, and their scale changes no value
MOST_CHANGE = 10.0  # of an inducing patch, in standard deviations of them
WORST = 10.0  # a value for each target that is above those of useful parameters
BOUND = "elbo"


@dataclass(frozen=True)
class PatchTask:
    """What is learned, on which images.

    Parameters
    ----------
    kernel : PatchKernel
        The kernel at its start, with numbers for all settings.
    images : Tensor of shape (n, c, h, w)
        Learning images, in double precision.
    targets : Tensor of shape (n, k)
        Their targets.
    patches : Tensor of shape (m, c', ph, pw)
        Inducing patches at their start, as the base kernel sees them.
    n_locations : (int, int)
        Places along both sides.
    criterion : {"loo", "evidence", "elbo"}
        Judges the parameters.
    noise : float
        Noise variance, as a share of the mean prior variance: fixed, or the start.
    sampled : Tensor of shape (s,)
        Indices of images whose prior variances stand for those of all.
    learns_noise, learns_kernel, learns_weights, learns_patches : bool
        What is learned.
    """

    kernel: PatchKernel
    images: Tensor
    targets: Tensor
    patches: Tensor
    n_locations: tuple[int, int]
    criterion: str
    noise: float
    sampled: Tensor
    learns_noise: bool = True
    learns_kernel: bool = True
    learns_weights: bool = False
    learns_patches: bool = False

    @cached_property
    def patch_scale(self) -> float:
        """Unit in which inducing patches are changed."""
        return float(self.patches.std(correction=0)) or 1.0

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Numbers of hyperparameters, noises, weights and values of patches learned."""
        shape = self.images.shape
        n_weights = self.kernel.n_weights((shape[1], shape[2], shape[3]))
        return (
            len(self.kernel.theta) if self.learns_kernel else 0,
            int(self.learns_noise),
            n_weights if self.learns_weights else 0,
            self.patches.numel() if self.learns_patches else 0,
        )

    def start(self) -> tuple[FloatArray, FloatArray, tuple[str, ...]]:
        """Return the start (p,), its bounds (p, 2), and names of the logarithms."""
        n_log, n_noise, n_weights, n_values = self.sizes
        free = [item for item in self.kernel.hyperparameters if item.is_free][:n_log]
        logs = [self.kernel.theta[:n_log], np.full(n_noise, math.log(self.noise))]
        start = [*logs, np.ones(n_weights), np.zeros(n_values)]
        bounds = [
            self.kernel.bounds[:n_log],
            np.log([NOISE_BOUNDS] * n_noise).reshape(-1, 2),
            np.tile([-MOST_WEIGHT, MOST_WEIGHT], (n_weights, 1)),
            np.tile([-MOST_CHANGE, MOST_CHANGE], (n_values, 1)),
        ]
        labels = [*(item.label for item in free), *[NOISE_LABEL] * n_noise]
        return np.concatenate(start), np.concatenate(bounds), tuple(labels)

    def kernel_at(self, theta: Tensor) -> PatchKernel:
        """Return the kernel at parameters (p,), differentiable by them."""
        logs, _, weights, _ = theta.split(self.sizes)
        kernel = self.kernel.with_theta(logs) if len(logs) else self.kernel.replace()
        if self.learns_weights:
            kernel.set_params(weights=weights)
        return kernel

    def patches_at(self, theta: Tensor) -> Tensor:
        """Return the inducing patches at parameters (p,), differentiable by them."""
        if not self.learns_patches:
            return self.patches
        change = theta.split(self.sizes)[3].reshape(self.patches.shape)
        return self.patches + self.patch_scale * change

    def noise_at(self, theta: FloatArray) -> float:
        """Return the noise variance at parameters (p,)."""
        n_log = self.sizes[0]
        return float(np.exp(theta[n_log])) if self.learns_noise else self.noise

class PatchLandscape:
    """A criterion as a function of the parameters of a patch process.

    Theta holds logarithms of free hyperparameters and of the noise, then weights, then
    changes of inducing patches, each as far as it is learned. There is one batch, of
    all learning images.

    Parameters
    ----------
    task : PatchTask
        What is learned.
    run : Run
        How to compute.
    n_images : int
        Images of a tile.
    watch : callable
        Called with each step; returns whether to stop.
    """

    def __init__(
        self, task: PatchTask, run: Run, n_images: int, watch: Callable[[Step], bool]
    ) -> None:
        self._task, self._run, self._watch = task, run, watch
        self._parts = list(slices(len(task.images), n_images))
        self._start_time = time.perf_counter()
        self._steps: list[Step] = []
        self._seconds: list[float] = []
        self._counts: list[int] = []
        self._values: dict[bytes, float] = {}
        self.n_evaluations = self.n_derivatives = 0
        self.worst = WORST
        self.start, self.bounds, self.labels = task.start()
        self.fixed = (Batch(torch.arange(len(task.images))),)
        # Noise that is learned is a share of the mean prior variance at the start.
        self._unit = float(self._variances(torch.tensor(self.start)).mean())

    def draw(self, progress: float) -> Batch:  # noqa: ARG002  (other landscapes need it)
        """Return the batch of all learning images."""
        return self.fixed[0]

    def value(self, theta: FloatArray, batches: tuple[Batch, ...]) -> float:  # noqa: ARG002  (there is one batch)
        """Return the value; NaN if it is undefined."""
        key = np.asarray(theta, dtype=np.float64).tobytes()
        if key not in self._values:
            self.n_evaluations += 1
            score = self._score(theta, self._features(theta))
            self._values[key] = math.nan if score is None else score.value
        return self._values[key]

    def gradient(
        self,
        theta: FloatArray,
        batches: tuple[Batch, ...],  # noqa: ARG002  (there is one batch)
        method: str = "exact",  # noqa: ARG002  (both methods are by tiles)
    ) -> tuple[float, FloatArray]:
        """Return the value and its derivatives (p,); NaN if undefined."""
        self.n_evaluations += 1
        self.n_derivatives += 1
        score = self._score(theta, self._features(theta))
        if score is None:
            return math.nan, np.full(len(theta), math.nan)
        self._values[np.asarray(theta, dtype=np.float64).tobytes()] = score.value
        slope = to_numpy(self._pulled(theta, score))
        if self._task.learns_noise:
            noise = self._task.noise_at(theta) * self._unit
            slope[self._task.sizes[0]] += score.by_noise * noise
        return score.value, slope

    def report(self, step: Step) -> bool:
        """Keep a step in the trace; return whether to stop."""
        self._steps.append(step)
        self._seconds.append(time.perf_counter() - self._start_time)
        self._counts.append(self.n_evaluations)
        return self._watch(step)

    def result(self, found: OptimizerResult) -> FlowResult:
        """Return the result of an optimiser: its logarithms with names."""
        p = len(self.labels)
        thetas = [step.theta[:p] for step in self._steps]
        return FlowResult(
            theta=found.theta[:p],
            labels=self.labels,
            rho=self.value(found.theta, self.fixed),
            start_theta=self.start[:p],
            start_rho=self.value(self.start, self.fixed),
            message=found.message,
            theta_trace=np.array(thetas, dtype=np.float64).reshape(-1, p),
            rho_trace=np.array([step.value for step in self._steps]),
            seconds=np.array(self._seconds),
            evaluations=np.array(self._counts),
            n_evaluations=self.n_evaluations,
            n_derivatives=self.n_derivatives,
            n_restarts=found.n_restarts,
            stats=found.stats,
            bounds=np.exp(self.bounds[:p]),
        )

    @property
    def _needs_variances(self) -> bool:
        return self._task.criterion == BOUND or not self._task.learns_noise

    def _score(self, theta: FloatArray, features: Tensor) -> FeatureScore | None:
        """Return the criterion of features; None if it is undefined.

        Its derivative by the mean prior variance includes that of a fixed noise.
        """
        task, variances, unit = self._task, None, self._unit
        if self._needs_variances:
            variances = self._variances(torch.tensor(theta))
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

    def _features(self, theta: FloatArray) -> Tensor:
        """Return features (n, r) of all images."""
        with torch.no_grad():
            given = torch.tensor(theta)
            factors = self._whitening(given)
            jobs = (
                partial(_features_of, i, self._task, given, factors, part)
                for i, part in enumerate(self._parts)
            )
            return torch.cat(self._in_order(jobs))

    def _variances(self, theta: Tensor) -> Tensor:
        """Return the prior variances (s,) of the sampled images."""
        jobs = (
            partial(_variance_of, i, self._task, theta, index, is_derived=False)
            for i, index in enumerate(self._task.sampled.tolist())
        )
        return torch.cat(self._in_order(jobs))

    def _pulled(self, theta: FloatArray, score: FeatureScore) -> Tensor:
        """Return the derivatives (p,) through features and prior variances."""
        task = self._task
        with enabled_autograd():
            free = torch.tensor(theta, requires_grad=True)
            factors = self._whitening(free)
        total = torch.zeros_like(free)
        given = [getattr(factors, one.name).detach() for one in fields(factors)]
        by_factors = [torch.zeros_like(one) for one in given]
        jobs: Any = (
            partial(_pull, i, task, theta, given, part, score.by_features[part])
            for i, part in enumerate(self._parts)
        )
        for by_theta, *by_given in self._in_order(jobs):
            total += by_theta
            for one, more in zip(by_factors, by_given, strict=True):
                one += more
        made = [getattr(factors, one.name) for one in fields(factors)]
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
                partial(_variance_of, i, task, torch.tensor(theta), index, is_derived=True)
                for i, index in enumerate(task.sampled.tolist())
            )
            for slope in self._in_order(jobs):
                total += slope * (by_variance / len(task.sampled))
        return total

    def _whitening(self, theta: Tensor) -> Whitening:
        task = self._task
        _, channels, height, width = task.images.shape
        return whitening(
            task.kernel_at(theta),
            (channels, height, width),
            task.patches_at(theta),
            task.n_locations,
        )

    def _in_order(self, jobs: Iterator[Callable[[], tuple[int, Any]]]) -> list[Any]:
        found = sorted(self._run.runner(jobs), key=lambda one: one[0])
        return [one for _, one in found]


def _tile(
    task: PatchTask, theta: Tensor, factors: Whitening, images: Tensor
) -> Tensor:
    """Return features (n, r) of images (n, c, h, w), differentiable by theta."""
    kernel = task.kernel_at(theta)
    responses = Responses(kernel.base_kernel, task.patches_at(theta), "torch")
    return whitened_features(kernel, responses, factors, images)


def _features_of(
    index: int, task: PatchTask, theta: Tensor, factors: Whitening, part: slice
) -> tuple[int, Tensor]:
    with torch.no_grad():
        return index, _tile(task, theta, factors, task.images[part])


def _pull(
    index: int,
    task: PatchTask,
    theta: FloatArray,
    factors: Sequence[Tensor],
    part: slice,
    by_features: Tensor,
) -> tuple[int, tuple[Tensor, ...]]:
    """Return derivatives by theta and by the factors, both as if independent."""
    with enabled_autograd():
        free = torch.tensor(theta, requires_grad=True)
        given = [one.clone().requires_grad_() for one in factors]
        features = _tile(task, free, Whitening(*given), task.images[part])
        return index, torch.autograd.grad(
            features, [free, *given], by_features, materialize_grads=True
        )


def _variance_of(
    number: int, task: PatchTask, theta: Tensor, index: int, *, is_derived: bool
) -> tuple[int, Tensor]:
    """Return the prior variance (1,) of an image, or its derivatives (p,)."""
    with enabled_autograd():
        free = theta.detach().clone().requires_grad_(is_derived)
        kernel = task.kernel_at(free)
        variance = kernel.diag(kernel.prepare(task.images[index : index + 1]))
        if not is_derived:
            return number, variance
        if not variance.requires_grad:
            return number, torch.zeros_like(free)
        (slope,) = torch.autograd.grad(variance, free, torch.ones_like(variance))
        return number, slope
