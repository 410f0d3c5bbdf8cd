"""BaseLearningGP: what looks for hyperparameters before a process is fitted."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from torch import Generator

from skconvgp._protocols import Found, Objective, Step
from skconvgp.estimators._base import Problem, make_generator
from skconvgp.estimators._convnet import BaseConvGP
from skconvgp.estimators._inputs import Size, Work
from skconvgp.estimators._label_evidence import AMPLITUDE_LABEL
from skconvgp.estimators._place import Place, compute_at
from skconvgp.estimators._resolve import LEAST_BATCH, reject, resolve_backend
from skconvgp.estimators._validation import rows_to_tensor
from skconvgp.estimators._warn import warn_caller
from skconvgp.flows import FlowResult, Rho
from skconvgp.flows._batches import Batches
from skconvgp.flows._evaluator import Evaluator
from skconvgp.flows._iterative import IterativeEvidence
from skconvgp.flows._landscape import NOISE_LABEL, BatchLandscape, Task
from skconvgp.inference import noise_grid
from skconvgp.kernels import Kernel

__all__ = ["BaseLearningGP", "Search"]

Minimize: TypeAlias = Callable[[BatchLandscape, Generator], Found]

NOISE_START = 1e-2  # where a noise variance that is learned begins
# Matrices of the size of a batch that an objective holds at once, with derivatives.
BATCH_COPIES = 8
# What to do where a search ends at a bound of what is learned beside the kernel.
OWN_REMEDIES = {
    NOISE_LABEL: "hold the noise by a number as `noise_variance`",
    AMPLITUDE_LABEL: "fit the kernel that was found with optimizer=None and a number "
    "as `amplitude`",
}


@dataclass(frozen=True)
class Search:
    """How hyperparameters are looked for.

    Parameters
    ----------
    objective : callable
        Returns the objective, given where and how precisely to compute.
    minimize : callable
        Looks for its smallest value.
    sizes : sequence of int
        Sizes of the batches, each for an equal part of the steps.
    n_fixed : int
        Batches on which places are compared.
    watch : callable
        Told each step; returns whether to stop.
    n_held : int or None, default=None
        Numbers held at once; None is what an objective holds of a batch.
    n_beside : int, default=0
        Numbers held beside a GPU that does the work.
    """

    objective: Callable[[Work], Objective | IterativeEvidence]
    minimize: Minimize
    sizes: Sequence[int]
    n_fixed: int
    watch: Callable[[Step], bool]
    n_held: int | None = None
    n_beside: int = 0


class BaseLearningGP(BaseConvGP):
    """What all estimators that learn a kernel have in common."""

    def _find(self, problem: Problem, search: Search) -> FlowResult:
        """Return the hyperparameters that a search finds."""
        self._require_fit(problem)
        largest = max(search.sizes)
        held = search.n_held or BATCH_COPIES * largest**2
        size = Size(held, held, search.n_beside)
        place, needed = self._place_of_fit(largest, size)

        def find(place: Place) -> FlowResult:
            rows = problem.rows[:largest]
            work = self._work(place, is_fitting=True, rows=rows, reserved=needed)
            kernel = self._network()
            generator = make_generator(self.random_state)
            codes = None if problem.codes is None else torch.as_tensor(problem.codes)
            targets = rows_to_tensor(problem.targets)
            objective = search.objective(work)
            landscape = BatchLandscape(
                Task(kernel, objective, targets, search.sizes, search.n_fixed),
                Evaluator(
                    self._images(problem.rows, kernel),
                    self._map_shape(kernel),
                    resolve_backend(self, self.backend),
                    work.config,
                    work.runner,
                ),
                Batches(len(problem.rows), codes, generator),
                search.watch,
            )
            return landscape.result(search.minimize(landscape, generator))

        return compute_at(place, find)

    def _with_noise(
        self,
        objective: Rho | IterativeEvidence,
        problem: Problem,
        work: Work,
        start: float = NOISE_START,
    ) -> Rho | IterativeEvidence:
        """Return an objective that learns the noise with the kernel."""
        grid = noise_grid(self._gram_precision(problem.rows, work))
        return replace(
            objective,
            noise_variance=start,
            noise_variance_bounds=(grid[-1], grid[0]),
        )

    def _require_fit(self, problem: Problem) -> None:
        """Raise for what cannot be fitted in the end."""
        plan, rows = copy.copy(self), problem.rows
        _, _, place, needed = plan._planned(problem)
        check = partial(plan._work, is_fitting=True, rows=rows, reserved=needed)
        compute_at(place, check)

    def _fit_with(self, problem: Problem, start: Any, theta: NDArray[Any]) -> None:
        """Fit to all samples with hyperparameters that were found."""
        self.kernel_ = start.with_theta(theta[: len(start.theta)])
        super()._fit_problem(problem)

    def _network(self) -> Kernel:
        assert isinstance(self.kernel_, Kernel)
        return self.kernel_

    def _require_free(self, alternative: str) -> None:
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
                f"{alternative}."
            )
        for item in free:
            low, high = map(float, item.bounds)
            if not low <= float(item.value) <= high:
                raise ValueError(
                    f"{item.label!r} of {self.kernel_!r} is {float(item.value):g}, "
                    f"which is not within its bounds {item.bounds!r}: learning begins "
                    "there, so change one of them."
                )

    def _require_samples(self, problem: Problem) -> None:
        if len(problem.rows) < LEAST_BATCH:
            raise ValueError(
                f"A kernel learns from {LEAST_BATCH} samples or more, got 1 sample."
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
                "`noise_variance`, that of the objective if it has its own.",
                UserWarning,
            )

    def _warn_of_bounds(self, at_bounds: dict[str, float]) -> None:
        """Warn of what a search found at a bound, by name; say what to do."""
        if not at_bounds:
            return
        told = ", ".join(f"{name} at {bound:g}" for name, bound in at_bounds.items())
        remedies = [OWN_REMEDIES[name] for name in at_bounds if name in OWN_REMEDIES]
        free = [name for name in at_bounds if name not in OWN_REMEDIES]
        if free:
            # One pair of bounds is that of all features or layers of a setting.
            settings = dict.fromkeys(name.partition("[")[0] for name in free)
            wider = ", ".join(f"`{name}_bounds`" for name in settings)
            remedies.insert(0, f"widen {wider} of the kernel or hold it by 'fixed'")
        warn_caller(
            f"The hyperparameters that {type(self).__name__} found are at a bound of "
            f"the search, and better ones may lie beyond: {told}. Start from other "
            f"hyperparameters, or {'; '.join(remedies)}.",
            ConvergenceWarning,
        )
