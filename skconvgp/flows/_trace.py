"""Traced: a landscape that keeps its steps and counts its evaluations."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from operator import is_
from typing import TypeAlias

import numpy as np

from skconvgp._protocols import Batch, OptimizerResult, Step
from skconvgp._typing import FloatArray
from skconvgp.flows._history import FlowResult

Watcher: TypeAlias = Callable[[Step], bool]


class Traced(ABC):
    """A landscape that keeps its steps, and values over its fixed batches.

    Theta begins with logarithms, which have labels and are reported. `watch` is called
    with each step, and returns whether to stop.
    """

    fixed: tuple[Batch, ...]
    labels: tuple[str, ...]
    origin: FloatArray  # where a search begins; restarts begin elsewhere
    limits: FloatArray  # (p, 2), bounds of the labelled parameters, without logarithm

    def __init__(self, watch: Watcher) -> None:
        self._watch, self._start_time = watch, time.perf_counter()
        self._steps: list[Step] = []
        self._seconds: list[float] = []
        self._counts: list[int] = []
        self._fixed_values: dict[bytes, float] = {}  # by theta
        self.n_evaluations = self.n_derivatives = 0

    def value(self, theta: FloatArray, batches: tuple[Batch, ...]) -> float:
        """Return the mean value over batches; NaN if it is undefined.

        Values over the fixed batches are remembered, so that none is computed twice.
        """
        is_fixed = len(batches) == len(self.fixed) and all(
            map(is_, batches, self.fixed)
        )
        if not is_fixed:
            return self._mean(theta, batches)
        key = _key(theta)
        if key not in self._fixed_values:
            self._fixed_values[key] = self._mean(theta, batches)
        return self._fixed_values[key]

    @abstractmethod
    def _mean(self, theta: FloatArray, batches: tuple[Batch, ...]) -> float:
        """Return the mean value over batches; NaN if it is undefined."""

    def _remember(self, theta: FloatArray, value: float) -> None:
        """Keep the value over the fixed batches."""
        self._fixed_values[_key(theta)] = value

    def report(self, step: Step) -> bool:
        """Keep a step in the trace; return whether to stop."""
        self._steps.append(step)
        self._seconds.append(time.perf_counter() - self._start_time)
        self._counts.append(self.n_evaluations)
        return self._watch(step)

    def result(self, outcome: OptimizerResult) -> FlowResult:
        """Return the result of an optimiser with the trace of all steps."""
        p = len(self.labels)
        thetas = [step.theta[:p] for step in self._steps]
        return FlowResult(
            theta=outcome.theta[:p],
            labels=self.labels,
            rho=self.value(outcome.theta, self.fixed),
            start_theta=self.origin[:p],
            start_rho=self.value(self.origin, self.fixed),
            message=outcome.message,
            theta_trace=np.array(thetas, dtype=np.float64).reshape(len(thetas), p),
            rho_trace=np.array([step.value for step in self._steps]),
            seconds=np.array(self._seconds),
            evaluations=np.array(self._counts),
            n_evaluations=self.n_evaluations,
            n_derivatives=self.n_derivatives,
            n_restarts=outcome.n_restarts,
            stats=outcome.stats,
            bounds=self.limits,
        )


def _key(theta: FloatArray) -> bytes:
    return np.asarray(theta, dtype=np.float64).tobytes()
