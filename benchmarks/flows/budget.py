"""Any optimiser within a number of kernel evaluations, and how far it was when."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks.data import Array
from skconvgp.flows import OptimizerResult, Part


class Log(list[Any]):
    """A list that stays the same one when an estimator copies its optimiser."""

    def __deepcopy__(self, memo: Any) -> "Log":
        return self


@dataclass(repr=False)
class WithinBudget(Part):
    """An optimiser that stops when it has spent its kernel evaluations.

    A Gram matrix of a batch costs 1, one with p derivatives 1 + p. It is asked after
    each step, so that it may spend a step more.
    """

    optimizer: Any  # looks for the hyperparameters
    budget: float = math.inf  # what it may spend
    # Is told (cost, theta, value) of every better mean over the fixed batches.
    log: Log = field(default_factory=Log)
    # Hyperparameters of the kernel: derivatives by the noise cost no covariances.
    n_parameters: int = 0

    def minimize(self, landscape: Any, generator: Any) -> OptimizerResult:
        """Return what the optimiser found, with seconds: all, and of the objective."""
        start = time.perf_counter()
        counted = _Counted(landscape, self)
        result = self.optimizer.minimize(counted, generator)
        seconds = {
            "seconds": time.perf_counter() - start,
            "seconds_inside": counted.seconds,
        }
        return replace(result, stats=result.stats | seconds)


class _Counted:
    """A landscape that counts, and asks to stop."""

    def __init__(self, inner: Any, within: WithinBudget) -> None:
        self._inner, self._budget, self._log = inner, within.budget, within.log
        self._n_parameters = within.n_parameters
        self._best = math.inf
        self.fixed = inner.fixed
        self.seconds = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def value(self, theta: Array, batches: Any) -> float:
        with self._timed():
            value = self._inner.value(theta, batches)
        self._tell(theta, value, batches)
        return float(value)

    def gradient(
        self, theta: Array, batches: Any, method: str = "exact"
    ) -> tuple[float, Array]:
        with self._timed():
            value, slope = self._inner.gradient(theta, batches, method)
        self._tell(theta, value, batches)
        return value, slope

    def report(self, step: Any) -> bool:
        is_stopped = self._inner.report(step)
        return is_stopped or self._spent() >= self._budget

    def _tell(self, theta: Array, value: float, batches: Any) -> None:
        if batches is self.fixed and value < self._best:
            self._best = value
            self._log.append((self._spent(), theta.copy(), value))

    def _spent(self) -> int:
        return cost(self._inner, self._n_parameters)

    @contextmanager
    def _timed(self) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - start


def cost(counts: Any, n_parameters: int) -> int:
    """Return what was spent, from the counts of a landscape or a result."""
    return int(counts.n_evaluations + n_parameters * counts.n_derivatives)


def theta_at(log: Log, spent: float, start: Array) -> Array:
    """Return the best place that was known when so much was spent."""
    theta = start
    for when, place, _ in log:
        if when <= spent:
            theta = place
    return theta
