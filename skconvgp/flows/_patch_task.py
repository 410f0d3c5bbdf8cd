"""PatchTask: learned values of a patch process, with its features and derivatives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from skconvgp._ambient import ordinary_torch
from skconvgp._tensors import int_range, reals
from skconvgp._typing import FloatArray, ImageShape
from skconvgp.backends import Responses
from skconvgp.flows._landscape import NOISE_LABEL
from skconvgp.kernels import Kernel, PatchKernel
from skconvgp.kernels._orbit_maps import FLIPS, versions_of
from skconvgp.processes import Term, terms_of
from skconvgp.processes.basis._patch_features import (
    Whitening,
    whitened_features,
    whitening,
)

NOISE_BOUNDS = 1e-6, 1e1  # of a noise that is learned, in units of the prior variance
MOST_WEIGHT = 10.0  # weights begin at 1, and their scale changes no value
MOST_CHANGE = 10.0  # of an inducing patch, in standard deviations of them
PAIRS_AT_ONCE = 2**18  # pairs of patches of one image whose graph is held


class TermStart(NamedTuple):
    """Inducing patches of a term of the kernel at the start of a search."""

    patches: Tensor  # (m, c', ph, pw), as the base kernel sees them
    n_locations: tuple[int, int]  # places along both sides, which stay
    learns_patches: bool = False

    @property
    def n_values(self) -> int:
        """Number of values of patches that are learned."""
        return self.patches.numel() if self.learns_patches else 0

    def moved(self, change: Tensor) -> Tensor:
        """Return the patches after a change (n_values,), in standard deviations."""
        if not self.learns_patches:
            return self.patches
        scale = float(self.patches.std(correction=0)) or 1.0
        return self.patches + scale * change.reshape(self.patches.shape)


@dataclass(frozen=True)
class PatchTask:
    """Parameters to learn, and the images on which they are learned.

    Weights are learned in each term whose kernel says so.
    """

    # The kernel at its start, with numbers for all settings but learned weights.
    kernel: Kernel
    images: Tensor  # learning images (n, c, h, w), in double precision
    targets: Tensor  # (n, k)
    starts: tuple[TermStart, ...]  # inducing patches of each term of the kernel
    criterion: str  # "loo", "evidence" or "elbo", which judges the parameters
    # Noise variance, as a share of the mean prior variance: fixed, or the start.
    noise: float
    # Indices (s,) of images whose prior variances stand for those of all.
    sampled: Tensor
    learns_noise: bool = True
    learns_kernel: bool = True  # whether free hyperparameters are learned

    @property
    def image_shape(self) -> ImageShape:
        """Shape of an image."""
        return cast(ImageShape, tuple(self.images.shape[1:]))

    @cached_property
    def weight_indices(self) -> tuple[Tensor, ...]:
        """Which parameter is each weight of a term; empty if it learns no weights."""
        return tuple(
            _weight_index(term, self.image_shape) for term in terms_of(self.kernel)
        )

    @cached_property
    def sizes(self) -> list[int]:
        """Numbers of hyperparameters, noises, and weights and patch values by term."""
        return [
            len(self.kernel.theta) if self.learns_kernel else 0,
            int(self.learns_noise),
            *(len(torch.unique(index)) for index in self.weight_indices),
            *(start.n_values for start in self.starts),
        ]

    def variance_parts(self) -> tuple[Tensor, ...]:
        """Return the sampled images, as many at once as have few pairs of patches."""
        n_pairs = self.kernel.n_positions(self.image_shape)
        return torch.split(self.sampled, max(1, PAIRS_AT_ONCE // n_pairs))

    def start(self) -> tuple[FloatArray, FloatArray, tuple[str, ...]]:
        """Return the start (p,), its bounds (p, 2), and names of the logarithms."""
        n_log, n_noise, *others = self.sizes
        n_weights, n_values = (sum(part) for part in self._by_term(others))
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

    def logs_at(self, theta: Tensor) -> Tensor:
        """Return the logarithms of free hyperparameters that are learned."""
        return theta[: self.sizes[0]]

    def weights_at(self, theta: Tensor) -> list[Tensor]:
        """Return the weights of each term, differentiable; empty if not learned."""
        _, _, *others = torch.split(theta, self.sizes)
        values, _ = self._by_term(others)
        return [
            one[index] for one, index in zip(values, self.weight_indices, strict=True)
        ]

    def patches_at(self, theta: Tensor) -> list[Tensor]:
        """Return the inducing patches of each term, differentiable by theta."""
        _, _, *others = torch.split(theta, self.sizes)
        _, changes = self._by_term(others)
        return [
            start.moved(one) for start, one in zip(self.starts, changes, strict=True)
        ]

    def kernel_at(self, theta: Tensor) -> Kernel:
        """Return the kernel at parameters (p,), differentiable by them."""
        return self.kernel_with(self.logs_at(theta), self.weights_at(theta))

    def kernel_with(
        self, logs: Tensor | FloatArray, weights: Sequence[Tensor | FloatArray]
    ) -> Kernel:
        """Return the kernel with logarithms (p,), and weights of each term."""
        kernel = self.kernel.with_theta(logs) if len(logs) else self.kernel.replace()
        for term, values in zip(terms_of(kernel), weights, strict=True):
            if len(values):
                term.kernel.set_params(weights=values)
        return kernel

    def whitenings_at(self, theta: Tensor) -> list[Whitening]:
        """Return whitenings of the features of each term, differentiable by theta."""
        shape, terms = self.image_shape, terms_of(self.kernel_at(theta))
        return [
            whitening(term.of_patches(shape), shape, patches, start.n_locations)
            for term, patches, start in zip(
                terms, self.patches_at(theta), self.starts, strict=True
            )
        ]

    def noise_at(self, theta: FloatArray) -> float:
        """Return the noise variance at parameters (p,)."""
        n_log = self.sizes[0]
        return float(np.exp(theta[n_log])) if self.learns_noise else self.noise

    def _by_term(self, parts: list[Any]) -> tuple[list[Any], list[Any]]:
        """Return the parts of weights and the parts of patches, term by term."""
        return parts[: len(self.starts)], parts[len(self.starts) :]


def _weight_index(term: Term, image_shape: ImageShape) -> Tensor:
    """Return which parameter each learned weight is; empty if none is learned.

    In an average over flips the weights at the left are those at the right.
    """
    kernel = term.kernel
    if not (isinstance(kernel, PatchKernel) and kernel.learns_weights):
        return int_range(0)
    index = int_range(kernel.n_weights(image_shape))
    if isinstance(term.maps, str) and term.maps == FLIPS:
        maps = index.reshape(-1, *kernel.grid(image_shape).shape)
        index = torch.minimum(maps, maps.flip(-1)).flatten()
    parameters: Tensor = torch.unique(index, return_inverse=True)[1]
    return parameters


def _tile(
    task: PatchTask, theta: Tensor, factors: Sequence[Whitening], images: Tensor
) -> Tensor:
    """Return features (n, r) of images (n, c, h, w), differentiable by theta."""
    shape, terms = task.image_shape, terms_of(task.kernel_at(theta))
    found = []
    for term, patches, given in zip(
        terms, task.patches_at(theta), factors, strict=True
    ):
        kernel = term.of_patches(shape)
        responses = Responses(kernel.base_kernel, patches, "torch")
        versions = versions_of(images, term.maps)
        features = whitened_features(kernel, responses, given, *versions)
        found.append(features * term.factor**0.5)
    return torch.cat(found, 1)


def features_of(
    index: int,
    task: PatchTask,
    theta: Tensor,
    factors: Sequence[Whitening],
    part: slice,
) -> tuple[int, Tensor]:
    """Return features (n, r) of a part of the images."""
    with torch.no_grad():
        return index, _tile(task, theta, factors, task.images[part])


def pull_features(
    index: int,
    task: PatchTask,
    theta: FloatArray,
    factors: Sequence[Whitening],
    part: slice,
    by_features: Tensor,
) -> tuple[int, tuple[Tensor, ...]]:
    """Return derivatives by theta and by all factors, as if they were independent."""
    with ordinary_torch():
        free = reals(theta).requires_grad_()
        given = [
            Whitening(*(one.detach().clone().requires_grad_() for one in of_term))
            for of_term in factors
        ]
        features = _tile(task, free, given, task.images[part])
        return index, torch.autograd.grad(
            features, [free, *chain(*given)], by_features, materialize_grads=True
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
    with ordinary_torch():
        free = reals(theta).requires_grad_()
        _, variances = variances_of(index, task, free, part)
        if not variances.requires_grad:
            return index, torch.zeros_like(free)
        (slope,) = torch.autograd.grad(variances.sum(), free)
        return index, slope
