"""BaseFlowGP: a process whose kernel learns itself before the fit."""

import copy
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._protocols import Objective, Optimizer, Step
from skconvgp.estimators._base import Problem, make_generator
from skconvgp.estimators._callbacks import BaseCallbacks, FitTasks
from skconvgp.estimators._convnet import BaseConvGP
from skconvgp.estimators._inputs import Size
from skconvgp.estimators._place import Place, compute_at
from skconvgp.estimators._progress import ProgressLine
from skconvgp.estimators._resolve import (
    LEAST_BATCH,
    reject,
    resolve_backend,
    resolve_batch_sizes,
    resolve_count,
    resolve_noise,
    resolve_objective,
    resolve_optimizer,
    resolve_verbose,
)
from skconvgp.estimators._validation import rows_to_tensor
from skconvgp.estimators._warn import warn_caller
from skconvgp.flows import FlowResult
from skconvgp.flows._batches import Batches
from skconvgp.flows._evaluator import Evaluator
from skconvgp.flows._landscape import BatchLandscape, Task
from skconvgp.kernels import Kernel, rbf

__all__ = ["BaseFlowGP"]

# Matrices of the size of a batch that an objective holds at once, with derivatives.
BATCH_COPIES = 8
STEP = "flow step"


class BaseFlowGP(BaseCallbacks, BaseConvGP):
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

    def _fit_with(self, problem: Problem, start: Any, theta: NDArray[Any]) -> None:
        """Fit to all samples with hyperparameters that were found."""
        self.kernel_ = start.with_theta(theta[: len(start.theta)])
        super()._fit_problem(problem)

    def _default_kernel(self) -> Kernel:
        return rbf()

    def _learn(
        self, problem: Problem, optimizer: Optimizer, tasks: FitTasks
    ) -> FlowResult:
        """Return the hyperparameters that the optimiser finds."""
        noise = resolve_noise(self, self.noise_variance)
        objective = copy.deepcopy(resolve_objective(self, self.objective, noise))
        self._require_free(objective)
        n = len(problem.rows)
        if n < LEAST_BATCH:
            raise ValueError(
                f"A kernel learns from {LEAST_BATCH} samples or more, got 1 sample."
            )
        sizes = resolve_batch_sizes(self, self.batch_size, n)
        self._require_classes(problem, min(sizes))
        n_fixed = resolve_count(self, "n_batches", self.n_batches)
        largest = max(sizes)
        held = BATCH_COPIES * largest**2
        place, needed = self._place_of_fit(largest, Size(held, held, 0))
        verbose = 0 if tasks.is_watched else resolve_verbose(self, self.verbose)
        watch = partial(
            self._watch, tasks, problem, ProgressLine("flow", verbose, "steps")
        )

        def learn(place: Place) -> FlowResult:
            work = self._work(
                place, is_fitting=True, n_samples=largest, reserved=needed
            )
            kernel = self._network()
            generator = make_generator(self.random_state)
            codes = None if problem.codes is None else torch.as_tensor(problem.codes)
            landscape = BatchLandscape(
                Task(kernel, objective, self._targets_of(problem), sizes, n_fixed),
                Evaluator(
                    self._images(problem.rows, kernel),
                    self._map_shape(kernel),
                    resolve_backend(self, self.backend),
                    work.config,
                    work.runner,
                ),
                Batches(n, codes, generator),
                watch,
            )
            return landscape.result(optimizer.minimize(landscape, generator))

        return compute_at(place, learn)

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

    def _network(self) -> Kernel:
        assert isinstance(self.kernel_, Kernel)
        return self.kernel_

    def _targets_of(self, problem: Problem) -> Tensor:
        return rows_to_tensor(problem.targets)

    def _require_free(self, objective: Objective) -> None:
        """Raise where there is nothing to learn, or where it is not within bounds."""
        if not isinstance(self.kernel_, Kernel):
            reject(
                self,
                "kernel",
                "None or a kernel of skconvgp.kernels: a precomputed matrix has no "
                "hyperparameters to learn",
                self.kernel,
            )
        free = [item for item in self.kernel_.hyperparameters if item.is_free]
        if not free:
            raise ValueError(
                f"{self.kernel_!r} has no free hyperparameters, so that there is "
                "nothing to learn: give one of them bounds such as "
                "weight_variance_bounds=(1e-4, 1e4), or fit the kernel as it is with "
                f"{type(self).__name__.replace('KernelFlows', 'ConvNetGP')}."
            )
        for item in free:
            low, high = map(float, item.bounds)
            if not low <= float(item.value) <= high:
                raise ValueError(
                    f"{item.label!r} of {self.kernel_!r} is {float(item.value):g}, "
                    f"which is not within its bounds {item.bounds!r}: learning begins "
                    "there, so change one of them."
                )
        objective.count(2)  # its settings are wrong before any work

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

    def _warn_of(self, result: FlowResult) -> None:
        """Warn where nothing was learned, or not in the way that was asked for."""
        if result.stats.get("is_native"):
            warn_caller(
                "scikit-optimize is not installed: Bayesian optimisation was that of "
                "the package itself, by expected improvement.",
                UserWarning,
            )
        if not np.isfinite(result.rho):
            warn_caller(
                f"{type(self).__name__} has learned nothing: the objective is "
                f"undefined wherever it was looked at ({result.message}). Scale X to "
                "numbers near 1, start from other hyperparameters, or raise "
                "`noise_variance` of the objective.",
                UserWarning,
            )
