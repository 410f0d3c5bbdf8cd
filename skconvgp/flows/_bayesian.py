"""Bayesian optimisation; the only module that knows scikit-optimize."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Generator
from torch.quasirandom import SobolEngine

from skconvgp._parts import Part
from skconvgp._protocols import Landscape, OptimizerResult, Step
from skconvgp._settings import as_float, is_int, one_of, reject, require
from skconvgp._tensors import random_ints
from skconvgp._typing import FloatArray
from skconvgp.flows._search import ALL_DONE, STOPPED, Best

ACQUISITIONS = ("EI", "LCB", "PI", "gp_hedge")
LARGEST_SEED = 2**31 - 1
MOST_INITIAL = 10_000


class Surrogate(Protocol):
    """Proposes points of the unit cube from earlier points and their values."""

    def ask(self) -> Sequence[Any]:
        """Return a point (p,)."""
        ...

    def tell(self, x: Sequence[float], y: float) -> object:
        """Add a finite value."""
        ...


@dataclass(repr=False)
class BayesianOptimization(Part):
    """Bayesian optimisation of the mean over the fixed batches, without slopes.

    A Gaussian process on the logarithms of the hyperparameters proposes candidates, by
    scikit-optimize: first the start, then a Sobol sequence, then the candidate with the
    largest acquisition.

    A new best counts only once it is confirmed on a fresh batch. Its value there must
    not exceed its value on the fixed batches by more than `confirm_tolerance`, unless
    the best so far is even worse on the fresh batch. An undefined value is never the
    best; the Gaussian process gets the largest finite value so far instead.

    Parameters
    ----------
    acquisition : str, default="EI"
        Function of a candidate that is maximised: "EI", expected improvement; "LCB",
        confidence bound; "PI", probability of improvement; "gp_hedge", one of them at
        random, the more often the more it has gained.
    n_initial : int, default=15
        Number of candidates, including the start, that fill the space first.
    max_iter : int, default=50
        Number of all candidates.
    confirm_tolerance : float, default=0.02
        Largest excess of the value on a fresh batch over the value on the fixed ones.

    Raises
    ------
    ValueError
        In `minimize`, for a wrong setting.

    See Also
    --------
    LBFGS : Uses slopes on the fixed batches.

    References
    ----------
    Jones, Schonlau and Welch, "Efficient global optimization of expensive black-box
    functions", 1998; Bin Khalid, 2022, section 3.4.

    Examples
    --------
    >>> from skconvgp.flows import BayesianOptimization
    >>> BayesianOptimization("LCB", max_iter=30)
    BayesianOptimization(acquisition='LCB', max_iter=30)
    """

    acquisition: str = "EI"
    n_initial: int = 15
    max_iter: int = 50
    confirm_tolerance: float = 0.02

    def minimize(self, landscape: Landscape, generator: Generator) -> OptimizerResult:
        """Return the best confirmed hyperparameters.

        Parameters
        ----------
        landscape : Landscape
            The function that is minimised.
        generator : torch.Generator
            Seeds the search.

        Returns
        -------
        result : OptimizerResult
            The start or the best confirmed candidate. `stats` has the number of
            candidates, of undefined values and of new bests that were not confirmed.
        """
        self._check_settings()
        search = _Search(self, landscape, generator)
        message = ALL_DONE
        for index in range(self.max_iter if search.n_free else 1):
            theta, value = search.step(index)
            if landscape.report(Step(index, self.max_iter, theta, value)):
                message = STOPPED
                break
        return OptimizerResult(search.best.theta, message, stats=search.stats)

    def _check_settings(self) -> None:
        word = self.acquisition
        is_known = isinstance(word, str) and word in ACQUISITIONS
        require(self, "acquisition", is_known, one_of(ACQUISITIONS))
        is_number_of_points = is_int(self.n_initial, most=MOST_INITIAL)
        expected = f"an int from 1 to {MOST_INITIAL}"
        require(self, "n_initial", is_number_of_points, expected)
        require(self, "max_iter", is_int(self.max_iter), "an int >= 1")
        tolerance = self.confirm_tolerance
        if not 0.0 <= as_float(tolerance) < math.inf:
            reject(self, "confirm_tolerance", "a finite number >= 0", tolerance)


class _Search:
    """Candidates in the unit cube of those hyperparameters whose bounds differ."""

    def __init__(
        self, part: BayesianOptimization, landscape: Landscape, generator: Generator
    ):
        self._part, self._landscape = part, landscape
        self._lows, self._highs = landscape.bounds.T
        self._widths = self._highs - self._lows
        self._free = self._widths > 0.0
        self.n_free = int(self._free.sum())
        self.best = Best.at_start(landscape)
        self._worst: float | None = None
        self._n_steps, self._n_undefined, self._n_unconfirmed = 0, 0, 0
        seed = int(random_ints(LARGEST_SEED, (), generator))
        if self.n_free:
            self._initial = _sobol(part.n_initial, self.n_free, seed)
            self._surrogate = _surrogate(part, self.n_free, seed)

    @property
    def stats(self) -> dict[str, float]:
        """Numbers of candidates."""
        return {
            "n_steps": float(self._n_steps),
            "n_undefined": float(self._n_undefined),
            "n_unconfirmed": float(self._n_unconfirmed),
        }

    def step(self, index: int) -> tuple[FloatArray, float]:
        """Evaluate the next candidate; return it with its value."""
        self._n_steps = index + 1
        if index == 0:
            theta, value = self.best.theta, self.best.value
        else:
            theta = self._theta(self._next(index))
            value = self._landscape.value(theta, self._landscape.fixed)
            self._judge(theta, value)
        if not math.isfinite(value):
            self._n_undefined += 1
        self._tell(theta, value)
        return theta, value

    def _next(self, index: int) -> Sequence[float]:
        if index < self._part.n_initial:
            return self._initial[index]
        # scikit-optimize warns if it proposes a point for the second time.
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The objective has been evaluated")
            return [float(x) for x in self._surrogate.ask()]

    def _theta(self, point: Sequence[float]) -> FloatArray:
        theta = self._landscape.start.copy()
        inside = self._lows[self._free] + np.array(point) * self._widths[self._free]
        theta[self._free] = inside
        return np.clip(theta, self._lows, self._highs)

    def _tell(self, theta: FloatArray, value: float) -> None:
        if not self.n_free:
            return
        if math.isfinite(value):
            self._worst = value if self._worst is None else max(self._worst, value)
        else:
            value = self._landscape.worst if self._worst is None else self._worst
        shares = (theta - self._lows)[self._free] / self._widths[self._free]
        self._surrogate.tell(np.clip(shares, 0.0, 1.0).tolist(), value)

    def _judge(self, theta: FloatArray, value: float) -> None:
        """Keep a new best if a fresh batch confirms it."""
        if not self.best.is_beaten_by(value):
            return
        if self._is_confirmed(theta, value):
            self.best.offer(theta, value)
        else:
            self._n_unconfirmed += 1

    def _is_confirmed(self, theta: FloatArray, value: float) -> bool:
        """Say whether the value on a fresh batch is close, or the old best is worse."""
        batch = (self._landscape.draw(1.0),)
        fresh = self._landscape.value(theta, batch)
        if not math.isfinite(fresh):
            return False
        if fresh <= value + self._part.confirm_tolerance:
            return True
        return not self._landscape.value(self.best.theta, batch) <= fresh


def _sobol(n: int, n_dimensions: int, seed: int) -> list[list[float]]:
    """Return n points of the unit cube that fill it evenly."""
    # torch has no types for its constructor.
    engine = SobolEngine(n_dimensions, scramble=True, seed=seed)  # type: ignore[no-untyped-call]
    points: list[list[float]] = engine.draw(n, dtype=torch.float64).tolist()
    return points


def _surrogate(part: BayesianOptimization, n_free: int, seed: int) -> Surrogate:
    """Return scikit-optimize's surrogate."""
    from skopt import Optimizer  # takes half a second to import
    from skopt.space import Real as Interval

    surrogate: Surrogate = Optimizer(
        [Interval(0.0, 1.0)] * n_free,
        base_estimator="GP",
        n_initial_points=part.n_initial,
        acq_func=part.acquisition,
        random_state=seed,
    )
    return surrogate
