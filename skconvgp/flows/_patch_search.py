"""PatchSearch: learns the parameters of a patch process, before it is fitted."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch

from skconvgp._protocols import Optimizer, Step
from skconvgp._tensors import permutation, reals
from skconvgp.engine import (
    Placement,
    compute_at,
    require_memory,
    rows_to_tensor,
    to_numpy,
)
from skconvgp.flows._history import FlowResult
from skconvgp.flows._kernel_search import NOISE_START
from skconvgp.flows._patch_landscape import PatchLandscape, PatchTask
from skconvgp.flows._patch_parameters import (
    LearnedPatches,
    PatchParameters,
    starts_of,
)
from skconvgp.flows._patch_task import images_at_once
from skconvgp.processes import (
    KernelBasis,
    Problem,
    Resources,
    TermChoice,
    choose_inducing,
    terms_of,
)

LEARNING_IMAGES = 2000  # drawn at random
VARIANCE_IMAGES = 256  # of these, whose prior variances are computed
HELD_OUT = 5  # one image of so many judges steps with weights or patches
# Copies of features and of their squares that a criterion holds.
ROW_COPIES, SQUARE_COPIES = 6, 4


@dataclass(frozen=True)
class PatchSearch:
    """Learns hyperparameters, weights and inducing patches on some of the images.

    Weights and inducing patches are many, and can fit their images alone. If they are
    learned, a fifth of the images is held out, and the step is taken that predicts
    these best.
    """

    criterion: str  # "loo" or "evidence", which is maximised
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
            parameters = PatchParameters(
                basis.kernel,
                basis.image_shape,
                starts_of(inducing, choices, device),
                NOISE_START if self.noise is None else self.noise,
                learns_noise=self.noise is None,
                learns_kernel=self.learns_kernel,
            )
            # Hundreds of parameters fit the images that they are learned from.
            is_held = torch.zeros(n, dtype=torch.bool, device=device)
            if sum(parameters.sizes[2:]) and n >= HELD_OUT:
                is_held[permutation(n, generator)[: n // HELD_OUT]] = True
            own = images[~is_held]
            step = math.ceil(len(own) / VARIANCE_IMAGES)
            sampled = own[::step]
            task = PatchTask(
                parameters, own, targets[~is_held], self.criterion, sampled
            )
            n_images = images_at_once(inducing, run)
            landscape = PatchLandscape(task, run, n_images, self.watch)
            landscape.start_at_best_noise()
            found = self.optimizer.minimize(landscape, generator)
            if is_held.any():
                held = images[is_held], targets[is_held]
                found = replace(found, theta=landscape.best_step(found.theta, *held))
            theta = reals(found.theta)
            return parameters.learned(theta, choices), landscape.result(found)

        return compute_at(resources.placement(needed), learn_at)
