"""BaseFlowGP: a process whose kernel learns itself before the fit."""

import copy
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from skconvgp._protocols import (
    Completion,
    Localization,
    Objective,
    Optimizer,
    Selection,
    Step,
)
from skconvgp.estimators._base import Problem, Settings
from skconvgp.estimators._callbacks import BaseCallbacks, FitTasks
from skconvgp.estimators._inputs import Work
from skconvgp.estimators._learning import BaseLearningGP, Search
from skconvgp.estimators._progress import ProgressLine
from skconvgp.estimators._resolve import (
    LEAST_BATCH,
    NOISE_WORDS,
    require_room,
    resolve_amplitude,
    resolve_batch_sizes,
    resolve_completion,
    resolve_count,
    resolve_fraction,
    resolve_noise,
    resolve_objective,
    resolve_optimizer,
    resolve_solver,
    resolve_verbose,
)
from skconvgp.flows import FlowResult, Rho
from skconvgp.flows._iterative import IterativeEvidence
from skconvgp.flows._landscape import NOISE_LABEL
from skconvgp.flows._objectives import WITH_NOISE
from skconvgp.kernels import Kernel, rbf

__all__ = ["BaseFlowGP"]

STEP = "flow step"
AUTO = "auto"


class BaseFlowGP(BaseCallbacks, BaseLearningGP):
    """What classifier and regressor have in common."""

    optimizer: object
    objective: object
    batch_size: object
    n_batches: object

    flow_result_: FlowResult

    # What noise_variance="auto" is for the process; None is what was learned.
    _auto_noise: float | str | None = None
    # What it is where nothing was learned, and beside noise that labels fix.
    _usual_noise: ClassVar[float]

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
        if self._noise() != self._learned_noise:
            ended.pop(NOISE_LABEL, None)
        return ended

    def _fit_with(self, problem: Problem, start: Any, theta: NDArray[Any]) -> None:
        """Fit to all samples with hyperparameters that were found."""
        beside = theta[len(start.theta) :]
        if len(beside):
            self._learned_noise = float(np.exp(beside[0]))
        super()._fit_with(problem, start, theta)

    def _noise(self) -> float | str:
        asked = self._asked_noise()
        if asked != AUTO:
            return asked
        if self._auto_noise is not None:
            return self._auto_noise
        return self._usual_noise if self._learned_noise is None else self._learned_noise

    def _asked_noise(self) -> float | str:
        return resolve_noise(self, self.noise_variance, (AUTO, *NOISE_WORDS))

    def _resolve_auto_noise(self, problem: Problem) -> float | str | None:
        """Return what "auto" is for the process, None for what will be learned."""
        if self._label_models(problem):
            return self._usual_noise
        if hasattr(resolve_solver(self, self.solver), "n_values"):  # it iterates
            return None
        n = len(problem.rows)
        match resolve_completion(self, self.completion):
            case Completion() | Localization():
                return "loo"
            case Selection() as selection:
                n = selection.count(n, resolve_fraction(self, self.observed_fraction))
        choosing = Settings("loo", resolve_amplitude(self, self.amplitude))
        return None if self._missing_memory(self._route(n, choosing).size) else "loo"

    def _default_kernel(self) -> Kernel:
        return rbf()

    def _learn(
        self, problem: Problem, optimizer: Optimizer, tasks: FitTasks
    ) -> FlowResult:
        """Return the hyperparameters that the optimiser finds."""
        noise = self._asked_noise()
        objective = copy.deepcopy(resolve_objective(self, self.objective, noise))
        self._require_free(type(self).__name__.replace("KernelFlows", "ConvNetGP"))
        objective.count(LEAST_BATCH)  # its settings are wrong before any work
        self._learned_noise = None  # of another fit
        self._auto_noise = self._resolve_auto_noise(problem)
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
        is_chosen = isinstance(self._asked_noise(), str)
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
