"""BaseFlowGP: a process whose kernel learns itself before the fit."""

import copy
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skconvgp._protocols import (
    Objective,
    Optimizer,
    Step,
)
from skconvgp.estimators._base import Problem
from skconvgp.estimators._callbacks import BaseCallbacks, FitTasks
from skconvgp.estimators._inputs import Work
from skconvgp.estimators._learning import BaseLearningGP, Search
from skconvgp.estimators._progress import ProgressLine
from skconvgp.estimators._resolve import (
    LEAST_BATCH,
    require_room,
    resolve_batch_sizes,
    resolve_count,
    resolve_noise,
    resolve_objective,
    resolve_optimizer,
    resolve_verbose,
)
from skconvgp.flows import FlowResult, Rho
from skconvgp.flows._iterative import IterativeEvidence
from skconvgp.flows._landscape import NOISE_LABEL
from skconvgp.flows._objectives import WITH_NOISE
from skconvgp.kernels import Kernel, rbf

__all__ = ["BaseFlowGP"]

STEP = "flow step"


class BaseFlowGP(BaseCallbacks, BaseLearningGP):
    """What classifier and regressor have in common."""

    optimizer: object
    objective: object
    batch_size: object
    n_batches: object

    flow_result_: FlowResult

    def _fit_problem(self, problem: Problem) -> None:
        """Learn the kernel on batches, then fit to all samples."""
        optimizer = copy.deepcopy(resolve_optimizer(self, self.optimizer))
        tasks = FitTasks(self)
        start = self.kernel_
        result = self._learn(problem, optimizer, tasks)
        self.flow_result_ = result
        self._warn_of(result)
        self._fit_with(problem, start, result.theta)
        self._warn_of_bounds(self._used_at_bounds(result))
        tasks.end()

    def _used_at_bounds(self, result: FlowResult) -> dict[str, float]:
        """Return what is at a bound; not the noise, where the process has another."""
        ended = result.at_bounds
        if self.noise_variance_ != self._learned_noise:
            ended.pop(NOISE_LABEL, None)
        return ended

    def _fit_with(self, problem: Problem, start: Any, theta: NDArray[Any]) -> None:
        """Fit to all samples with hyperparameters that were found."""
        beside = theta[len(start.theta) :]
        if len(beside):
            self._learned_noise = float(np.exp(beside[0]))
        super()._fit_with(problem, start, theta)

    def _default_kernel(self) -> Kernel:
        return rbf()

    def _learn(
        self, problem: Problem, optimizer: Optimizer, tasks: FitTasks
    ) -> FlowResult:
        """Return the hyperparameters that the optimiser finds."""
        noise = resolve_noise(self, self.noise_variance)
        objective = copy.deepcopy(resolve_objective(self, self.objective, noise))
        self._require_free(type(self).__name__.replace("KernelFlows", "ConvNetGP"))
        objective.count(LEAST_BATCH)  # its settings are wrong before any work
        self._learned_noise = None  # of another fit
        self._require_samples(problem)
        sizes = resolve_batch_sizes(self, self.batch_size, len(problem.rows))
        require_room(problem.codes, min(sizes))
        verbose = 0 if tasks.is_watched else resolve_verbose(self, self.verbose)
        search = Search(
            objective=partial(self._with_noise_if_chosen, objective, problem),
            minimize=optimizer.minimize,
            sizes=sizes,
            n_fixed=resolve_count(self, "n_batches", self.n_batches),
            watch=partial(
                self._watch, tasks, problem, ProgressLine("flow", verbose, "steps")
            ),
        )
        return self._find(problem, search)

    def _with_noise_if_chosen(
        self, objective: Objective, problem: Problem, work: Work
    ) -> Objective | IterativeEvidence:
        """Return an objective that learns the noise where a word is in its place.

        One that was given knows its own, and norms are for targets without noise.
        """
        is_chosen = isinstance(resolve_noise(self, self.noise_variance), str)
        is_own = self.objective is None or isinstance(self.objective, str)
        if not (is_chosen and is_own and isinstance(objective, Rho)):
            return objective
        if objective.kind not in WITH_NOISE:
            return objective
        return self._with_noise(objective, problem, work)

    def _watch(
        self, tasks: FitTasks, problem: Problem, progress: ProgressLine, step: Step
    ) -> bool:
        """Tell of a step; return whether to stop."""
        progress(step.index + 1, step.total)
        start = self.kernel_

        def fitted() -> dict[str, Any]:
            model = copy.copy(self)
            model.random_state = copy.deepcopy(self.random_state)  # draws nothing here
            model._fit_with(problem, start, step.theta)
            return dict(vars(model))

        return tasks.step(STEP, reconstruction_attributes=fitted)
