"""PatchParameters: what is learned of a patch process, as one vector theta."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from skconvgp._tensors import int_range
from skconvgp._typing import FloatArray, ImageShape
from skconvgp.engine import to_numpy, to_tensor
from skconvgp.flows._landscape import NOISE_LABEL
from skconvgp.kernels import Kernel, PatchKernel
from skconvgp.kernels._orbit_maps import FLIPS
from skconvgp.processes import (
    Inducing,
    Term,
    TermChoice,
    place_locations,
    terms_of,
)
from skconvgp.processes.basis._patch_features import (
    Root,
    Whitening,
    usual_root,
    whitening,
)

NOISE_BOUNDS = 1e-6, 1e1  # of a noise that is learned, in units of the prior variance
MOST_WEIGHT = 10.0  # weights begin at 1, and their scale changes no value
MOST_CHANGE = 10.0  # of an inducing patch, in standard deviations of them


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
        moves = change.to(self.patches).reshape(self.patches.shape)
        return self.patches + scale * moves


@dataclass(frozen=True)
class LearnedPatches:
    """The kernel and the inducing patches that a search has learned."""

    # With learned hyperparameters and weights. Weights of the only term have a mean
    # square of 1; in a sum, theirs says how much the term counts.
    kernel: Kernel
    choices: tuple[TermChoice, ...]  # the inducing patches of each term


@dataclass(frozen=True)
class PatchParameters:
    """Parameters of a patch process: hyperparameters, noise, weights, and patches.

    Weights are learned in each term whose kernel says so.
    """

    # The kernel at its start, with numbers for all settings but learned weights.
    kernel: Kernel
    image_shape: ImageShape
    starts: tuple[TermStart, ...]  # inducing patches of each term of the kernel
    # Noise variance, as a share of the mean prior variance: fixed, or the start.
    noise: float
    learns_noise: bool = True
    learns_kernel: bool = True  # whether free hyperparameters are learned
    root: Root = usual_root  # whitens features

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
            whitening(
                term.of_patches(shape),
                shape,
                patches,
                start.n_locations,
                self.root,
            )
            for term, patches, start in zip(
                terms, self.patches_at(theta), self.starts, strict=True
            )
        ]

    def noise_at(self, theta: FloatArray) -> float:
        """Return the noise variance at parameters (p,)."""
        n_log = self.sizes[0]
        return float(np.exp(theta[n_log])) if self.learns_noise else self.noise

    def learned(self, theta: Tensor, choices: tuple[TermChoice, ...]) -> LearnedPatches:
        """Return plain values at parameters (p,), and choices with these patches."""
        weights = [to_numpy(one) for one in self.weights_at(theta)]
        if len(weights) == 1 and len(weights[0]):  # the amplitude has their scale
            weights = [weights[0] / np.sqrt(np.mean(weights[0] ** 2))]
        return LearnedPatches(
            self.kernel_with(to_numpy(self.logs_at(theta)), weights),
            tuple(
                choice._replace(inducing=patches.detach())
                for choice, patches in zip(choices, self.patches_at(theta), strict=True)
            ),
        )

    def _by_term(self, parts: list[Any]) -> tuple[list[Any], list[Any]]:
        """Return the parts of weights and the parts of patches, term by term."""
        return parts[: len(self.starts)], parts[len(self.starts) :]


def starts_of(
    inducing: Inducing, choices: tuple[TermChoice, ...], device: torch.device
) -> tuple[TermStart, ...]:
    """Return the inducing patches of each term, and whether they are learned."""
    return tuple(
        TermStart(
            to_tensor(term.patches, device),
            place_locations(term.kernel, term.image_shape, choice.n_locations),
            choice.learns_patches,
        )
        for term, choice in zip(inducing.terms, choices, strict=True)
    )


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
