"""Searches for the hyperparameters of a kernel, before a process is fitted.

`EvidenceSearch` uses all samples, `FlowSearch` uses batches of them. Both return the
learned hyperparameters as a value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

import numpy as np
import torch
from torch import Generator

from skconvgp._protocols import (
    IterativeSolver,
    Objective,
    Optimizer,
    OptimizerResult,
    Step,
)
from skconvgp._typing import FloatArray
from skconvgp.engine import Placement, Size, compute_at, rows_to_tensor
from skconvgp.flows._batches import Batches
from skconvgp.flows._evaluator import Evaluator
from skconvgp.flows._history import FlowResult
from skconvgp.flows._iterative import IterativeEvidence
from skconvgp.flows._label_evidence import AMPLITUDE_LABEL, LabelEvidence
from skconvgp.flows._landscape import NOISE_LABEL, BatchLandscape, Task
from skconvgp.flows._objectives import WITH_NOISE, Rho
from skconvgp.flows._restarts import minimize_from_many
from skconvgp.inference import noise_grid, select_noise
from skconvgp.kernels import Kernel
from skconvgp.processes import (
    KernelBasis,
    LinkModel,
    PlainBasis,
    Planner,
    Problem,
    Route,
    Run,
    Settings,
    iterative_route,
    missing_memory,
    placement_of_fit,
    prepare_fit,
    scaled_gram,
)
from skconvgp.solvers import ConjugateGradient

Minimize: TypeAlias = Callable[[BatchLandscape, Generator], OptimizerResult]
MakeObjective: TypeAlias = Callable[[KernelBasis, Run], Objective | IterativeEvidence]

NOISE_START = 1e-2  # noise variance with which learning it begins
# Matrices of the size of a batch that an objective holds at once, with derivatives.
BATCH_COPIES = 8
SCORE_COPIES = 1  # factors of derivatives, in units of the values that a solver holds


@dataclass(frozen=True)
class Learned:
    """Result of a search."""

    kernel: Kernel  # with the learned hyperparameters
    noise: float | None = None  # learned noise variance that the process must use
    # Learned noise variance that the process uses unless a setting or the data choose
    # another one.
    usual_noise: float | None = None
    amplitude: float | None = None  # learned with the kernel


@dataclass(frozen=True)
class _Search:
    """A search for hyperparameters: objective, optimiser and batches."""

    objective: MakeObjective  # returns the objective, given the basis and the run
    minimize: Minimize
    sizes: Sequence[int]  # sizes of the batches, each for an equal part of the steps
    n_fixed: int  # number of batches on which hyperparameters are compared
    watch: Callable[[Step], bool]  # called with each step; returns whether to stop
    # Numbers held at once; None is for an objective that factors a batch.
    n_held: int | None = None
    n_beside: int = 0  # numbers held on the host if a GPU computes

    def find(
        self, problem: Problem, basis: KernelBasis, planner: Planner, settings: Settings
    ) -> FlowResult:
        """Return the learned hyperparameters.

        The fit that follows is planned first, so that an impossible fit raises before
        any work.
        """
        resources = planner.resources
        planner.plan(problem, settings).require(resources)
        largest = max(self.sizes)
        held = self.n_held or BATCH_COPIES * largest**2
        size = Size(held, held, self.n_beside)
        placement, needed = placement_of_fit(largest, size, resources)

        def find_at(placement: Placement) -> FlowResult:
            # The precision of the tiles is chosen for a matrix as large as a batch.
            batch_basis: PlainBasis = basis.take(np.arange(largest))
            run, batch_basis = prepare_fit(batch_basis, needed, placement, resources)
            assert isinstance(batch_basis, KernelBasis)
            precise = replace(basis, dtype=batch_basis.dtype)
            generator = resources.generator()
            codes = None if problem.codes is None else rows_to_tensor(problem.codes)
            targets = rows_to_tensor(problem.targets)
            objective = self.objective(precise, run)
            landscape = BatchLandscape(
                Task(basis.kernel, objective, targets, self.sizes, self.n_fixed),
                Evaluator(
                    basis.images(),
                    basis.map_shape,
                    run.backend,
                    replace(run.config, dtype=precise.tile_dtype),
                    run.runner,
                ),
                Batches(len(problem.rows), codes, generator),
                self.watch,
            )
            return landscape.result(self.minimize(landscape, generator))

        return compute_at(placement, find_at)


@dataclass(frozen=True)
class EvidenceSearch:
    """Maximises the evidence, or the leave-one-out density, of all samples."""

    criterion: str  # "evidence" or "loo", which judges a kernel
    kind: str  # the kind of `Rho` that computes the criterion
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
        """Return the learned kernel, noise and amplitude, and the trace of the search.

        The search begins with the kernel of the basis. The planner plans the fit that
        will follow, with its settings.
        """
        search = self._search(problem, planner, settings)
        result = search.find(problem, basis, planner, settings)
        is_defined, noise, amplitude = bool(np.isfinite(result.rho)), None, None
        if self.keeps_noise and is_defined:
            noise = result.values[NOISE_LABEL]
        if is_defined and planner.parts.completion is None:
            amplitude = result.values.get(AMPLITUDE_LABEL)
        kernel = _with_theta(basis.kernel, result.theta)
        return Learned(kernel, noise, amplitude=amplitude), result

    def _search(
        self, problem: Problem, planner: Planner, settings: Settings
    ) -> _Search:
        """Return a search on a single batch that holds all samples."""
        n, link = len(problem.rows), self._link_model(problem, planner)
        route = self._route(problem, planner, settings)
        by_route = route.size.held if route else None
        held = by_route
        if link is not None:
            held = LabelEvidence(link, 0.0).n_copies() * n**2
        # If matrices are factored, the start has the best noise of a grid.
        is_graded = route is None and self._learns_noise(problem, planner)
        search = partial(minimize_from_many, self.optimizer, self.n_restarts)
        return _Search(
            objective=partial(self._objective, problem, planner, settings, route),
            minimize=partial(search, noise_start=NOISE_START if is_graded else None),
            sizes=(n,),
            n_fixed=1,
            watch=self.watch,
            n_held=held,
            n_beside=by_route or 0,  # a GPU returns factors of derivatives to the host
        )

    def _objective(
        self,
        problem: Problem,
        planner: Planner,
        settings: Settings,
        route: Route | None,
        basis: KernelBasis,
        run: Run,
    ) -> Objective | IterativeEvidence:
        """Return the objective: the evidence of labels or of the targets.

        The evidence of labels learns an amplitude. The evidence of targets learns the
        noise variance, too, unless the noise is a given number.
        """
        link = self._link_model(problem, planner)
        if link is not None:
            assert not isinstance(settings.noise, str)
            return LabelEvidence(link, settings.noise)
        start = NOISE_START if isinstance(self.noise, str) else self.noise
        objective: Rho | IterativeEvidence = Rho(self.kind, noise_variance=start)
        if route is not None:
            assert isinstance(route.solver, IterativeSolver)
            objective = IterativeEvidence(route.solver, route.is_held, start)
        if not self._learns_noise(problem, planner):
            return objective
        if route is None:
            start = self._noise_at_start(problem, basis, run)
        return _with_noise(objective, basis, run, start)

    def _learns_noise(self, problem: Problem, planner: Planner) -> bool:
        """Return whether a noise is learned with the kernel."""
        if self._link_model(problem, planner) is not None:
            return False
        models = planner.parts.models_of(problem)
        return isinstance(self.noise, str) or bool(models)

    def _noise_at_start(self, problem: Problem, basis: KernelBasis, run: Run) -> float:
        """Return the noise of a grid that is best for the kernel before the search."""
        y = run.tensor(problem.targets)
        ones = torch.ones_like(y[:, 0])
        try:
            gram, _ = scaled_gram(basis.oracle(run, "start"), ones)
        except ValueError:  # undefined for this kernel, but perhaps not for others
            return NOISE_START
        return select_noise(
            gram,
            y,
            ones,
            criterion=self.criterion,
            amplitude=None,
            precision=basis.precision(run.config),
        )

    def _link_model(self, problem: Problem, planner: Planner) -> LinkModel | None:
        """Return the model whose evidence of labels is maximised, if there is one."""
        for model in planner.parts.models_of(problem):
            if self.criterion == "evidence" and isinstance(model, LinkModel):
                return model
        return None

    def _route(
        self, problem: Problem, planner: Planner, settings: Settings
    ) -> Route | None:
        """Return the route of an iterative evidence; None if matrices are factored.

        Matrices are factored as long as they fit into the free memory, unless the
        process that follows cannot hold its matrix either. Only a process with the
        whole Gram matrix, without completion, can be fitted by iterations.
        """
        parts, n = planner.parts, len(problem.rows)
        is_whole = parts.completion is None and not parts.models_of(problem)
        if self.criterion != "evidence" or not is_whole:
            return None
        route = planner.route(n, is_selecting=isinstance(settings.noise, str))
        is_iterative = isinstance(route.solver, IterativeSolver)
        if not is_iterative:
            if not parts.is_auto:
                return None
            route = replace(route, solver=ConjugateGradient())
        held = BATCH_COPIES * n**2
        is_tight = is_iterative and not route.is_held
        if not (is_tight or missing_memory(Size(held, held, 0), planner.resources)):
            return None
        return _with_slopes(iterative_route(route, n, planner.resources), n)


@dataclass(frozen=True)
class FlowSearch:
    """Kernel Flows: lowers an objective on batches of the samples."""

    optimizer: Optimizer
    objective: Objective  # judges a kernel by a batch
    sizes: Sequence[int]  # sizes of the batches, each for an equal part of the steps
    n_batches: int  # number of batches on which hyperparameters are compared
    # Whether a noise may be learned with the kernel, if the objective has one.
    learns_noise: bool
    # Called with each step; returns whether to stop.
    watch: Callable[[Step], bool] = field(repr=False)

    def learn(
        self, problem: Problem, basis: KernelBasis, planner: Planner, settings: Settings
    ) -> tuple[Learned, FlowResult]:
        """Return the learned kernel and noise, and the trace of the search."""
        search = _Search(
            objective=self._objective,
            minimize=self.optimizer.minimize,
            sizes=self.sizes,
            n_fixed=self.n_batches,
            watch=self.watch,
        )
        result = search.find(problem, basis, planner, settings)
        return self.learned_at(basis.kernel, result.theta), result

    def learned_at(self, start: Kernel, theta: FloatArray) -> Learned:
        """Return the result of a search that ends at this theta."""
        log_noise = theta[len(start.theta) :]
        noise = float(np.exp(log_noise[0])) if len(log_noise) else None
        return Learned(_with_theta(start, theta), usual_noise=noise)

    def _objective(self, basis: KernelBasis, run: Run) -> Objective | IterativeEvidence:
        """Return the objective; it learns the noise if its kind judges predictions.

        Kinds that compare norms assume targets without noise.
        """
        objective = self.objective
        if not (self.learns_noise and isinstance(objective, Rho)):
            return objective
        if objective.kind not in WITH_NOISE:
            return objective
        return _with_noise(objective, basis, run, NOISE_START)


def _with_noise(
    objective: Rho | IterativeEvidence, basis: KernelBasis, run: Run, start: float
) -> Rho | IterativeEvidence:
    """Return an objective that learns the noise with the kernel."""
    grid = noise_grid(basis.precision(run.config))
    return replace(
        objective, noise_variance=start, noise_variance_bounds=(grid[-1], grid[0])
    )


def _with_slopes(route: Route, n: int) -> Route:
    """Return a route whose size includes the factors of derivatives of a search."""
    assert isinstance(route.solver, IterativeSolver)
    solver = route.solver.for_search()
    held = route.size.held + SCORE_COPIES * solver.n_values(n)
    return replace(route, solver=solver, size=Size(held, held, held))


def _with_theta(start: Kernel, theta: FloatArray) -> Kernel:
    return start.with_theta(theta[: len(start.theta)])
