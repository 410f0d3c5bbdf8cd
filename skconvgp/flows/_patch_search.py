"""PatchSearch: learns the parameters of a patch process, before it is fitted."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np
import torch
from torch import Tensor

from skconvgp._protocols import Optimizer, Step
from skconvgp._typing import ImageShape
from skconvgp.engine import (
    Placement,
    compute_at,
    for_each,
    require_memory,
    rows_to_tensor,
    to_numpy,
    to_tensor,
)
from skconvgp.exceptions import TileMemoryError
from skconvgp.flows._history import FlowResult
from skconvgp.flows._kernel_search import NOISE_START
from skconvgp.flows._patch_landscape import PatchLandscape
from skconvgp.flows._patch_task import PatchTask
from skconvgp.kernels import PatchKernel
from skconvgp.processes import InducingSet, KernelPrior, Problem, Resources, Run

__all__ = ["LearnedPatches", "PatchSearch"]

LEARNING_IMAGES = 2000  # drawn at random
VARIANCE_IMAGES = 256  # of these, whose prior variances are computed
HELD_OUT = 5  # one image of so many judges steps with weights or patches
MOST_IMAGES = 32  # of a tile
GRAPH_COPIES = 10  # of the responses to a tile, in its graph
# Copies of features and of their squares that a criterion holds.
ROW_COPIES, SQUARE_COPIES = 6, 4


@dataclass(frozen=True)
class LearnedPatches:
    """What a search has learned.

    Parameters
    ----------
    kernel : PatchKernel
        The kernel, with learned hyperparameters and weights of mean square 1.
    patches : Tensor of shape (m, c', ph, pw)
        The inducing patches.
    """

    kernel: PatchKernel
    patches: Tensor


@dataclass(frozen=True)
class PatchSearch:
    """Learns hyperparameters, weights and inducing patches on some of the images.

    Weights and inducing patches are many, and can fit their images alone. If they are
    learned, a fifth of the images is held out, and the step is taken that predicts
    these best.

    Parameters
    ----------
    criterion : {"loo", "evidence", "elbo"}
        Criterion that is maximised.
    optimizer : Optimizer
        Algorithm of the search.
    noise : float or None
        Relative noise variance; None learns it, too.
    learns_kernel, learns_patches : bool
        Whether free hyperparameters, and inducing patches, are learned. Weights are if
        the kernel says so.
    watch : callable
        Called with each step; returns whether to stop.
    """

    criterion: str
    optimizer: Optimizer
    noise: float | None
    learns_kernel: bool
    learns_patches: bool
    watch: Callable[[Step], bool] = field(repr=False)

    def learn(
        self,
        problem: Problem,
        prior: KernelPrior,
        inducing: InducingSet,
        n_locations: tuple[int, int],
        resources: Resources,
    ) -> tuple[LearnedPatches, FlowResult]:
        """Return what is learned, and the trace of the search.

        Parameters
        ----------
        problem : Problem
            All samples. Each different image counts once, with the mean of its targets.
        prior : KernelPrior
            The kernel from which the search begins.
        inducing : InducingSet
            Inducing patches at the start.
        n_locations : (int, int)
            Places along both sides, which stay.
        resources : Resources
            How to compute.
        """
        kernel, shape = cast(PatchKernel, prior.kernel), prior.image_shape
        learns_weights = kernel.learns_weights
        if learns_weights:
            kernel = kernel.replace(weights=np.ones(kernel.n_weights(shape)))
        n, r = min(problem.inputs.n_inputs, LEARNING_IMAGES), inducing.n_features
        values = ROW_COPIES * n * r + SQUARE_COPIES * r**2
        needed = values * torch.float64.itemsize

        def learn_at(placement: Placement) -> tuple[LearnedPatches, FlowResult]:
            what = f"Learning from {n} images with {r} features"
            remedy = "lower `n_inducing` or `n_locations`."
            require_memory(needed, placement.device, what, remedy)
            run = resources.run(placement, needed)
            generator = resources.generator()
            order = torch.randperm(problem.inputs.n_inputs, generator=generator)
            drawn = order[:n].sort().values
            rows = problem.rows[to_numpy(problem.inputs.first()[drawn])]
            targets, weights = map(rows_to_tensor, (problem.targets, problem.weights))
            device = placement.device
            merged = problem.inputs.merge(targets, weights).targets[drawn]
            images = prior.images(rows).to(device, torch.float64)
            targets = merged.to(device, torch.float64)
            # Hundreds of parameters fit the images that they are learned from.
            is_held = torch.zeros(n, dtype=torch.bool, device=device)
            if (learns_weights or self.learns_patches) and n >= HELD_OUT:
                is_held[torch.randperm(n, generator=generator)[: n // HELD_OUT]] = True
            n_used = int((~is_held).sum())
            step = math.ceil(n_used / VARIANCE_IMAGES)
            task = PatchTask(
                kernel,
                images[~is_held],
                targets[~is_held],
                to_tensor(inducing.patches, device),
                n_locations,
                self.criterion,
                NOISE_START if self.noise is None else self.noise,
                torch.arange(n_used, device=device)[::step],
                learns_noise=self.noise is None,
                learns_kernel=self.learns_kernel,
                learns_weights=learns_weights,
                learns_patches=self.learns_patches,
            )
            n_images = _images_at_once(kernel, shape, len(inducing.patches), run)
            landscape = PatchLandscape(task, run, n_images, self.watch)
            landscape.start_at_best_noise()
            found = self.optimizer.minimize(landscape, generator)
            if is_held.any():
                held = replace(task, images=images[is_held], targets=targets[is_held])
                found = replace(found, theta=landscape.best_step(found.theta, held))
            theta = torch.tensor(found.theta)
            return _learned(task, theta), landscape.result(found)

        return compute_at(resources.placement(needed), learn_at)


def _learned(task: PatchTask, theta: Tensor) -> LearnedPatches:
    """Return plain values at parameters (p,)."""
    n_log, n_noise, n_weights, _ = task.sizes
    kernel = task.kernel
    if n_log:
        kernel = kernel.with_theta(to_numpy(theta[:n_log]))
    if n_weights:
        weights = to_numpy(theta[n_log + n_noise :][:n_weights])
        kernel = kernel.replace(weights=weights / np.sqrt(np.mean(weights**2)))
    return LearnedPatches(kernel, task.patches_at(theta))


def _images_at_once(
    kernel: PatchKernel, shape: ImageShape, n_patches: int, run: Run
) -> int:
    """Return how many images a tile has whose graph is held."""
    grid = kernel.grid(shape)
    responses = grid.n_patches * n_patches
    responses *= kernel.base_kernel.n_positions((grid.channels, *grid.size))
    an_image = GRAPH_COPIES * responses * torch.float64.itemsize
    share = run.config.memory_budget // run.config.n_workers
    if share < an_image:
        n_workers = run.config.n_workers
        fewer = "use a smaller `n_jobs`, " if n_workers > 1 else ""
        raise TileMemoryError(
            f"Learning needs {an_image} bytes for the responses to a single image"
            f"{for_each(n_workers, 'workers')} and `memory_budget` allows {share}: "
            f"raise `memory_budget`, {fewer}lower `n_inducing`, or raise `stride` of "
            "the kernel."
        )
    return min(MOST_IMAGES, share // an_image)
