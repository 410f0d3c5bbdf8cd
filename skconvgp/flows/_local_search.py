"""LocalSearch: hyperparameters by the density of samples left out of neighbourhoods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import torch

from skconvgp._protocols import Batch, Localization, Optimizer, Step
from skconvgp.engine import Placement, compute_at, rows_to_tensor
from skconvgp.flows._evaluator import Evaluator
from skconvgp.flows._history import FlowResult
from skconvgp.flows._kernel_search import NOISE_START, Learned
from skconvgp.flows._landscape import NOISE_LABEL, BatchLandscape, Task
from skconvgp.flows._left_out import LeftOutDensity
from skconvgp.flows._restarts import minimize_from_many
from skconvgp.flows._stacks import OneBatch, StackEvaluator
from skconvgp.inference import noise_grid
from skconvgp.processes import (
    KernelBasis,
    Planner,
    Problem,
    Run,
    Settings,
    left_out_neighborhoods,
)


@dataclass(frozen=True)
class LocalSearch:
    """Maximises the density of left-out samples, each given its neighbours."""

    localization: Localization  # says which samples are near, whatever their kernel
    optimizer: Optimizer
    n_restarts: int  # number of further searches, from random hyperparameters
    noise: float | str  # the setting of the noise variance
    # Whether the process uses the noise that is learned with the kernel.
    keeps_noise: bool
    is_usual: bool  # whether the optimiser is the default one, not given by the user
    # Called with each step; returns whether to stop.
    watch: Callable[[Step], bool] = field(repr=False)

    def learn(
        self, problem: Problem, basis: KernelBasis, planner: Planner, settings: Settings
    ) -> tuple[Learned, FlowResult]:
        """Return the learned kernel and noise, and the trace of the search.

        The fit that follows is planned first, so that an impossible fit raises before
        any work.
        """
        plan, resources = planner.plan(problem, settings), planner.resources
        plan.require(resources)
        placement, _ = plan.placement(resources)
        find = partial(self._find, problem, basis, planner)
        result = compute_at(placement, find)
        noise = None
        if self.keeps_noise and np.isfinite(result.rho):
            noise = result.values[NOISE_LABEL]
        theta = result.theta[: len(basis.kernel.theta)]
        return Learned(basis.kernel.with_theta(theta), noise), result

    def _find(
        self,
        problem: Problem,
        basis: KernelBasis,
        planner: Planner,
        placement: Placement,
    ) -> FlowResult:
        run = planner.resources.run(placement)
        basis = planner.resources.with_precision(basis, run)
        generator = planner.resources.generator()
        indices, around, dropped = left_out_neighborhoods(
            self.localization, problem, basis, run, generator
        )
        objective = self._objective(
            LeftOutDensity(
                around.weights.to(run.config.device),
                dropped.to(run.config.device),
                NOISE_START if isinstance(self.noise, str) else self.noise,
            ),
            basis,
            run,
        )
        batch = Batch(torch.cat([indices[:, None], around.neighbors], 1))
        # Matrices of neighbours take half of the budget, and their tiles the other.
        half = max(1, run.config.memory_budget // 2)
        config = replace(run.config, dtype=basis.tile_dtype, memory_budget=half)
        landscape = BatchLandscape(
            Task(basis.kernel, objective, rows_to_tensor(problem.targets), (0,), 1),
            StackEvaluator(
                Evaluator(
                    basis.images(),
                    basis.map_shape,
                    run.backend,
                    config,
                    run.runner,
                ),
                half,
            ),
            OneBatch(batch),
            self.watch,
        )
        return landscape.result(
            minimize_from_many(self.optimizer, self.n_restarts, landscape, generator)
        )

    def _objective(
        self, objective: LeftOutDensity, basis: KernelBasis, run: Run
    ) -> LeftOutDensity:
        """Return the objective; it learns the noise unless that is a number."""
        if not isinstance(self.noise, str):
            return objective
        grid = noise_grid(basis.precision(run.config))
        return replace(objective, noise_variance_bounds=(grid[-1], grid[0]))
