"""Quasi-Newton steps on the fixed batches."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from torch import Generator

from skconvgp._parts import Part
from skconvgp._protocols import Landscape, OptimizerResult, Step
from skconvgp._settings import is_int, is_number, require
from skconvgp._threads import small_on_one_thread
from skconvgp._typing import FloatArray
from skconvgp.flows._search import (
    ALL_DONE,
    DIFFERENCE_STEP,
    STOPPED,
    Best,
    check_slope,
    slope,
)


@dataclass(repr=False)
class LBFGS(Part):
    """L-BFGS-B on the fixed batches.

    The batches are the same for each theta (common random numbers), so that the mean
    over them is a smooth function, as line searches need it. The result is the best
    theta of all that were evaluated.

    If the value or its slope is undefined, the line search gets the largest value so
    far with a zero slope, and tries a shorter step; theta is kept in the trace.

    Parameters
    ----------
    max_iter : int, default=50
        Largest number of iterations. Each one takes one or a few evaluations, with
        derivatives, of all fixed batches.
    gradient : str, default="exact"
        How slopes are computed: "exact", tile by tile; "autograd", through a graph that
        is held in memory; "finite_difference", from two values for each hyperparameter.
    tolerance : float, default=1e-5
        The search ends if an iteration lowers the value by less than this (as a share
        of the value if that is above 1), or if no slope within the bounds is steeper.
    difference_step : float, default=0.005
        As in `GradientDescent`.

    Raises
    ------
    ValueError
        In `minimize`, for a wrong setting.

    See Also
    --------
    Adam : Steps on fresh batches.

    References
    ----------
    Byrd, Lu, Nocedal and Zhu, "A limited memory algorithm for bound constrained
    optimization", 1995.

    Examples
    --------
    >>> from skconvgp.flows import LBFGS
    >>> LBFGS(max_iter=20)
    LBFGS(max_iter=20)
    """

    max_iter: int = 50
    gradient: str = "exact"
    tolerance: float = 1e-5
    difference_step: float = DIFFERENCE_STEP

    def minimize(self, landscape: Landscape, generator: Generator) -> OptimizerResult:
        """Return the best hyperparameters found.

        Parameters
        ----------
        landscape : Landscape
            The function that is minimised.
        generator : torch.Generator
            Not used.

        Returns
        -------
        result : OptimizerResult
            The best theta that was evaluated; `stats` has the number of iterations and
            of undefined evaluations.
        """
        self._check_settings()
        objective = _ScipyObjective(self, landscape)
        message = self._run(objective)
        stats = {
            "n_steps": float(objective.n_iter),
            "n_undefined": float(objective.n_undefined),
        }
        return OptimizerResult(objective.best.theta, message, stats=stats)

    def _run(self, objective: "_ScipyObjective") -> str:
        """Run scipy's search; return why it stopped."""
        options = {"maxiter": self.max_iter, "ftol": self.tolerance}
        try:
            with small_on_one_thread():
                result = minimize(
                    objective.evaluate,
                    objective.best.theta,
                    jac=True,
                    method="L-BFGS-B",
                    bounds=objective.landscape.bounds,
                    callback=objective.report,
                    options=options | {"gtol": self.tolerance},
                )
        except _StopError:
            return STOPPED
        if not math.isfinite(objective.best.value):
            return "the objective is undefined at the start"
        if result.success:
            return "converged"
        return (
            ALL_DONE if objective.n_iter >= self.max_iter else "no way down was found"
        )

    def _check_settings(self) -> None:
        check_slope(self, self.gradient, self.difference_step)
        require(self, "max_iter", is_int(self.max_iter), "an int >= 1")
        require(self, "tolerance", is_number(self.tolerance), "a finite number > 0")


class _StopError(Exception):
    """Ends scipy's search, because a report asked to stop."""


class _ScipyObjective:
    """The mean over the fixed batches as a function for scipy."""

    def __init__(self, part: LBFGS, landscape: Landscape):
        self.landscape = landscape
        # scipy evaluates the start first, so that it needs no value here.
        self.best = Best(landscape.start.copy(), math.nan)
        self.n_iter, self.n_undefined = 0, 0
        self._part, self._largest = part, landscape.worst

    def evaluate(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return value and slope; if undefined, the largest value so far, flat."""
        value, by_theta = slope(
            self.landscape,
            theta,
            self.landscape.fixed,
            self._part.gradient,
            self._part.difference_step,
        )
        if math.isfinite(value):
            self._largest = max(self._largest, value)
            self.best.offer(theta, value)
            return value, by_theta
        self.n_undefined += 1
        self._report(theta, value)
        return self._largest, np.zeros_like(theta)

    def report(self, intermediate_result: Any) -> None:
        """Report an iteration."""
        self._report(intermediate_result.x.copy(), float(intermediate_result.fun))
        self.n_iter += 1

    def _report(self, theta: FloatArray, value: float) -> None:
        index, total = self.n_iter, self._part.max_iter
        if self.landscape.report(Step(index, total, theta, value)):
            raise _StopError
