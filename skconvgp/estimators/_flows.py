"""BaseFlowGP: a process whose kernel learns itself before the fit."""

import copy
from functools import partial
from typing import Any

import numpy as np

from skconvgp._protocols import Optimizer, Step
from skconvgp.estimators._base import Problem
from skconvgp.estimators._callbacks import BaseCallbacks, FitTasks
from skconvgp.estimators._learning import BaseLearningGP, Search
from skconvgp.estimators._progress import ProgressLine
from skconvgp.estimators._resolve import (
    LEAST_BATCH,
    resolve_batch_sizes,
    resolve_count,
    resolve_noise,
    resolve_objective,
    resolve_optimizer,
    resolve_verbose,
)
from skconvgp.flows import FlowResult
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
        tasks.end()

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
        self._require_samples(problem)
        sizes = resolve_batch_sizes(self, self.batch_size, len(problem.rows))
        self._require_classes(problem, min(sizes))
        verbose = 0 if tasks.is_watched else resolve_verbose(self, self.verbose)
        search = Search(
            objective=lambda _: objective,
            minimize=optimizer.minimize,
            sizes=sizes,
            n_fixed=resolve_count(self, "n_batches", self.n_batches),
            watch=partial(
                self._watch, tasks, problem, ProgressLine("flow", verbose, "steps")
            ),
        )
        return self._find(problem, search)

    def _watch(
        self, tasks: FitTasks, problem: Problem, progress: ProgressLine, step: Step
    ) -> bool:
        """Tell of a step; return whether to stop."""
        progress(step.index + 1, step.total)
        start = self.kernel_

        def fitted() -> dict[str, Any]:
            model = copy.copy(self)
            model._fit_with(problem, start, step.theta)
            return dict(vars(model))

        return tasks.step(STEP, reconstruction_attributes=fitted)

    def _require_classes(self, problem: Problem, smallest: int) -> None:
        """Raise where a batch has no room for all classes."""
        if problem.codes is None:
            return
        n_classes = len(np.unique(problem.codes))
        if smallest < n_classes:
            raise ValueError(
                f"A batch of {smallest} samples has no room for {n_classes} classes: "
                "raise `batch_size`. Batches are stratified, each class in its share."
            )
