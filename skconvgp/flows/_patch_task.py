"""PatchTask: what of a patch process is learned, and its features and derivatives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from skconvgp._autograd import enabled_autograd
from skconvgp._typing import FloatArray
from skconvgp.backends import Responses
from skconvgp.flows._landscape import NOISE_LABEL
from skconvgp.kernels import PatchKernel
from skconvgp.processes._patch_features import Whitening, whitened_features

__all__ = [
    "PatchTask",
    "features_of",
    "pull_features",
    "pull_variances",
    "variances_of",
]

NOISE_BOUNDS = 1e-6, 1e1  # of a noise that is learned, in units of the prior variance
MOST_WEIGHT = 10.0  # weights begin at 1, and their scale changes no value
MOST_CHANGE = 10.0  # of an inducing patch, in standard deviations of them
PAIRS_AT_ONCE = 2**18  # pairs of patches of one image whose graph is held


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

    def variance_parts(self) -> tuple[Tensor, ...]:
        """Return the sampled images, as many at once as have few pairs of patches."""
        _, channels, height, width = self.images.shape
        n_pairs = self.kernel.n_positions((channels, height, width))
        return torch.split(self.sampled, max(1, PAIRS_AT_ONCE // n_pairs))

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
        logs, _, weights, _ = torch.split(theta, list(self.sizes))
        kernel = self.kernel.with_theta(logs) if len(logs) else self.kernel.replace()
        if self.learns_weights:
            kernel.set_params(weights=weights)
        return kernel

    def patches_at(self, theta: Tensor) -> Tensor:
        """Return the inducing patches at parameters (p,), differentiable by them."""
        if not self.learns_patches:
            return self.patches
        change = torch.split(theta, list(self.sizes))[3].reshape(self.patches.shape)
        return self.patches + self.patch_scale * change

    def noise_at(self, theta: FloatArray) -> float:
        """Return the noise variance at parameters (p,)."""
        n_log = self.sizes[0]
        return float(np.exp(theta[n_log])) if self.learns_noise else self.noise


def _tile(task: PatchTask, theta: Tensor, factors: Whitening, images: Tensor) -> Tensor:
    """Return features (n, r) of images (n, c, h, w), differentiable by theta."""
    kernel = task.kernel_at(theta)
    responses = Responses(kernel.base_kernel, task.patches_at(theta), "torch")
    return whitened_features(kernel, responses, factors, images)


def features_of(
    index: int, task: PatchTask, theta: Tensor, factors: Whitening, part: slice
) -> tuple[int, Tensor]:
    """Return features (n, r) of a part of the images."""
    with torch.no_grad():
        return index, _tile(task, theta, factors, task.images[part])


def pull_features(
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


def variances_of(
    index: int, task: PatchTask, theta: Tensor, part: Tensor
) -> tuple[int, Tensor]:
    """Return the prior variances (s,) of images, differentiable by theta."""
    kernel = task.kernel_at(theta)
    return index, kernel.diag(kernel.prepare(task.images[part]))


def pull_variances(
    index: int, task: PatchTask, theta: FloatArray, part: Tensor
) -> tuple[int, Tensor]:
    """Return the derivatives (p,) of the sum of prior variances."""
    with enabled_autograd():
        free = torch.tensor(theta, requires_grad=True)
        _, variances = variances_of(index, task, free, part)
        if not variances.requires_grad:
            return index, torch.zeros_like(free)
        (slope,) = torch.autograd.grad(variances.sum(), free)
        return index, slope
