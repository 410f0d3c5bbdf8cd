"""PatchSearch: learns the parameters of a patch process, before it is fitted."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from skconvgp._protocols import Optimizer, Step
from skconvgp._tensors import int_range, permutation, reals
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
from skconvgp.flows._patch_task import PatchTask, TermStart
from skconvgp.kernels import Kernel
from skconvgp.kernels._orbit_maps import n_versions
from skconvgp.processes import (
    Inducing,
    KernelBasis,
    Problem,
    Resources,
    Run,
    TermChoice,
    choose_inducing,
    place_locations,
    terms_of,
)

LEARNING_IMAGES = 2000  # drawn at random
VARIANCE_IMAGES = 256  # of these, whose prior variances are computed
HELD_OUT = 5  # one image of so many judges steps with weights or patches
MOST_IMAGES = 32  # of a tile
GRAPH_COPIES = 10  # of the responses to a tile, in its graph
# Copies of features and of their squares that a criterion holds.
ROW_COPIES, SQUARE_COPIES = 6, 4


@dataclass(frozen=True)
class LearnedPatches:
    """The kernel and the inducing patches that a search has learned."""

    # With learned hyperparameters and weights. Weights of the only term have a mean
    # square of 1; in a sum, theirs says how much the term counts.
    kernel: Kernel
    choices: tuple[TermChoice, ...]  # the inducing patches of each term


@dataclass(frozen=True)
class PatchSearch:
    """Learns hyperparameters, weights and inducing patches on some of the images.

    Weights and inducing patches are many, and can fit their images alone. If they are
    learned, a fifth of the images is held out, and the step is taken that predicts
    these best.
    """

    criterion: str  # "loo", "evidence" or "elbo", which is maximised
    optimizer: Optimizer
    noise: float | None  # relative noise variance; None learns it, too
    # Whether free hyperparameters are learned. Weights are if the kernel says so, and
    # inducing patches if the choices of the terms do.
    learns_kernel: bool
    # Called with each step; returns whether to stop.
    watch: Callable[[Step], bool] = field(repr=False)

    def learn(
        self,
        problem: Problem,
        basis: KernelBasis,
        choices: tuple[TermChoice, ...],
        resources: Resources,
    ) -> tuple[LearnedPatches, FlowResult]:
        """Return the learned values, and the trace of the search.

        Each different image of the problem counts once, with the mean of its targets.
        The search begins with the kernel of the basis. `choices` says how inducing
        patches are chosen at the start, for each term of the kernel.
        """
        terms = terms_of(basis.kernel)
        given = basis.images(basis.rows[to_numpy(problem.inputs.first())])
        inducing = choose_inducing(terms, choices, given, resources.generator())
        n, r = min(problem.inputs.n_inputs, LEARNING_IMAGES), inducing.n_features
        values = ROW_COPIES * n * r + SQUARE_COPIES * r**2
        needed = values * torch.float64.itemsize

        def learn_at(placement: Placement) -> tuple[LearnedPatches, FlowResult]:
            what = f"Learning from {n} images with {r} features"
            remedy = "lower `n_inducing` or `n_locations`."
            require_memory(needed, placement.device, what, remedy)
            run = resources.run(placement, needed)
            generator = resources.generator()
            order = permutation(problem.inputs.n_inputs, generator)
            drawn = order[:n].sort().values
            rows = problem.rows[to_numpy(problem.inputs.first()[drawn])]
            targets, weights = map(rows_to_tensor, (problem.targets, problem.weights))
            device = placement.device
            merged = problem.inputs.merge(targets, weights).targets[drawn]
            images = basis.images(rows).to(device, torch.float64)
            targets = merged.to(device, torch.float64)
            task = PatchTask(
                basis.kernel,
                images,
                targets,
                _starts(inducing, choices, device),
                self.criterion,
                NOISE_START if self.noise is None else self.noise,
                int_range(n, device),
                learns_noise=self.noise is None,
                learns_kernel=self.learns_kernel,
            )
            # Hundreds of parameters fit the images that they are learned from.
            is_held = torch.zeros(n, dtype=torch.bool, device=device)
            if sum(task.sizes[2:]) and n >= HELD_OUT:
                is_held[permutation(n, generator)[: n // HELD_OUT]] = True
            n_used = int((~is_held).sum())
            step = math.ceil(n_used / VARIANCE_IMAGES)
            task = replace(
                task,
                images=images[~is_held],
                targets=targets[~is_held],
                sampled=task.sampled[:n_used:step],
            )
            n_images = _images_at_once(inducing, run)
            landscape = PatchLandscape(task, run, n_images, self.watch)
            landscape.start_at_best_noise()
            found = self.optimizer.minimize(landscape, generator)
            if is_held.any():
                held = replace(task, images=images[is_held], targets=targets[is_held])
                found = replace(found, theta=landscape.best_step(found.theta, held))
            theta = reals(found.theta)
            return _learned(task, theta, choices), landscape.result(found)

        return compute_at(resources.placement(needed), learn_at)


def _starts(
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


def _learned(
    task: PatchTask, theta: Tensor, choices: tuple[TermChoice, ...]
) -> LearnedPatches:
    """Return plain values at parameters (p,)."""
    weights = [to_numpy(one) for one in task.weights_at(theta)]
    if len(weights) == 1 and len(weights[0]):  # the amplitude has their scale
        weights = [weights[0] / np.sqrt(np.mean(weights[0] ** 2))]
    return LearnedPatches(
        task.kernel_with(to_numpy(task.logs_at(theta)), weights),
        tuple(
            choice._replace(inducing=patches)
            for choice, patches in zip(choices, task.patches_at(theta), strict=True)
        ),
    )


def _images_at_once(inducing: Inducing, run: Run) -> int:
    """Return how many images a tile has whose graph is held."""
    responses = 0
    for term in inducing.terms:
        grid, base = term.kernel.grid(term.image_shape), term.kernel.base_kernel
        of_a_patch = len(term.patches) * base.n_positions((grid.channels, *grid.size))
        n_views = n_versions(term.maps, term.image_shape)
        responses += n_views * grid.n_patches * of_a_patch
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
