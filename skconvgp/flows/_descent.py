"""Gradient descent on fresh batches: Adam, and descent with momentum."""

import abc
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from torch import Generator

from skconvgp._parts import Part
from skconvgp._protocols import Landscape, OptimizerResult, Step
from skconvgp._settings import as_float, is_int, is_number, require
from skconvgp._tensors import uniforms
from skconvgp._typing import FloatArray
from skconvgp.flows._search import (
    ALL_DONE,
    DIFFERENCE_STEP,
    STOPPED,
    Best,
    check_slope,
    slope,
)

MOST_UNDEFINED = 10  # steps in a row, after which a search without restarts ends
EPSILON = 1e-8  # Kingma and Ba, algorithm 1


class Rule(Protocol):
    """Turns slopes into moves; it remembers earlier slopes."""

    def move(self, by_theta: FloatArray) -> FloatArray:
        """Return the vector to subtract from theta."""
        ...


class Descent(Part, abc.ABC):
    """Descent on fresh batches that keeps the best running mean of theta.

    A subclass is a dataclass with these settings, and provides the rule of its moves.
    """

    gradient: str
    learning_rate: float
    max_iter: int
    difference_step: float
    restart_undefined: bool
    check_every: int

    def minimize(self, landscape: Landscape, generator: Generator) -> OptimizerResult:
        """Return the best hyperparameters found.

        Parameters
        ----------
        landscape : Landscape
            The function that is minimised.
        generator : torch.Generator
            Source of randomness for new starts.

        Returns
        -------
        result : OptimizerResult
            The start or the best of the running means; `stats` has the number of
            steps and of undefined steps.
        """
        self._check_settings()
        best = Best.at_start(landscape)
        walk = _Walk(landscape, self._rule)
        for index in range(self.max_iter):
            batch = landscape.draw(index / self.max_iter)
            theta = walk.theta
            value, by_theta = slope(
                landscape, theta, (batch,), self.gradient, self.difference_step
            )
            walk.advance(value, by_theta, generator if self.restart_undefined else None)
            is_stopped = landscape.report(Step(index, self.max_iter, theta, value))
            is_last = is_stopped or walk.is_lost or index + 1 == self.max_iter
            if is_last or (index + 1) % self.check_every == 0:
                walk.check(best)
            if is_last:
                break
        message = walk.message if walk.is_lost else ALL_DONE
        stats = {"n_steps": index + 1.0, "n_undefined": float(walk.n_undefined)}
        return OptimizerResult(
            best.theta, STOPPED if is_stopped else message, walk.n_restarts, stats
        )

    @abc.abstractmethod
    def _rule(self) -> Rule:
        """Return a new rule of moves, which remembers no slopes yet."""

    def _check_settings(self) -> None:
        check_slope(self, self.gradient, self.difference_step)
        for name in ("max_iter", "check_every"):
            require(self, name, is_int(getattr(self, name)), "an int >= 1")
        is_rate = is_number(self.learning_rate)
        require(self, "learning_rate", is_rate, "a finite number > 0")
        is_flag = isinstance(self.restart_undefined, bool)
        require(self, "restart_undefined", is_flag, "True or False")
        self._check_further()

    @abc.abstractmethod
    def _check_further(self) -> None:
        """Raise a ValueError if a setting of the subclass cannot be used."""


@dataclass(repr=False)
class GradientDescent(Descent):
    r"""Gradient descent with momentum, each step on a fresh batch.

    With the slope :math:`g` of the batch by the logarithms :math:`\theta` of the
    hyperparameters, :math:`v \leftarrow \mu v + g` and :math:`\theta \leftarrow \theta
    - \eta v`, moved back to the bounds. At the start, every `check_every` steps and at
    the end, the mean of :math:`\theta` since the last check is evaluated on the fixed
    batches. The best of these is the result, so that on these batches it is never worse
    than the start.

    If the value or the slope of a step is undefined, the search goes back half of the
    way to the last :math:`\theta` at which both were defined, and resets its momentum.

    Parameters
    ----------
    gradient : str, default="exact"
        How slopes are computed: "exact", tile by tile; "autograd", through a graph that
        is held in memory; "finite_difference", from two values for each hyperparameter.
    learning_rate : float, default=0.1
        :math:`\eta`.
    momentum : float, default=0.9
        :math:`\mu`; 0 for none.
    nesterov : bool, default=False
        Whether to move by :math:`g + \mu v`, as if the slope were taken ahead.
    max_iter : int, default=200
        Number of steps.
    restart_undefined : bool, default=False
        Whether an undefined step restarts the search from hyperparameters drawn within
        the bounds. Otherwise ten undefined steps in a row end the search.
    check_every : int, default=20
        Steps between two checks.
    difference_step : float, default=0.005
        Distance to either side of a central difference, in the logarithm. The default,
        the cube root of the precision of float32, suits values with relative errors of
        1e-7; with tiles in float64 1e-5 is more exact.

    Raises
    ------
    ValueError
        In `minimize`, for a wrong setting.

    See Also
    --------
    Adam : With a step length for each hyperparameter.

    References
    ----------
    Owhadi and Yoo, "Kernel flows: from learning kernels from data into the abyss",
    2019, section 3; Sutskever et al., "On the importance of initialization and momentum
    in deep learning", 2013; Bin Khalid, 2022, section 3.3, for the restarts.

    Examples
    --------
    >>> from skconvgp.flows import GradientDescent
    >>> GradientDescent(gradient="finite_difference", nesterov=True)
    GradientDescent(gradient='finite_difference', nesterov=True)
    """

    gradient: str = "exact"
    learning_rate: float = 0.1
    momentum: float = 0.9
    nesterov: bool = False
    max_iter: int = 200
    restart_undefined: bool = False
    check_every: int = 20
    difference_step: float = DIFFERENCE_STEP

    def _rule(self) -> Rule:
        return _Momentum(self.learning_rate, self.momentum, self.nesterov)

    def _check_further(self) -> None:
        require(self, "momentum", _is_share(self.momentum), "a number >= 0 and < 1")
        is_flag = isinstance(self.nesterov, bool)
        require(self, "nesterov", is_flag, "True or False")


@dataclass(repr=False)
class Adam(Descent):
    r"""Adam, each step on a fresh batch.

    As `GradientDescent`, but each hyperparameter moves by the mean of its last slopes
    divided by their root mean square. Its first step is `learning_rate` for any slope.

    Parameters
    ----------
    max_iter : int, default=200
        Number of steps.
    learning_rate : float, default=0.05
        Length of a step, in the logarithm of each hyperparameter.
    gradient : str, default="exact"
        How slopes are computed: "exact", tile by tile; "autograd", through a graph that
        is held in memory; "finite_difference", from two values for each hyperparameter.
    beta1, beta2 : float, default=0.9, 0.999
        Decay of the mean of slopes and of the mean of their squares.
    restart_undefined : bool, default=False
        Whether an undefined step restarts the search from hyperparameters drawn within
        the bounds. Otherwise ten undefined steps in a row end the search.
    check_every : int, default=20
        Steps between two checks of the mean theta on the fixed batches.
    difference_step : float, default=0.005
        As in `GradientDescent`.

    Raises
    ------
    ValueError
        In `minimize`, for a wrong setting.

    See Also
    --------
    GradientDescent : One step length for all; describes the checks.

    References
    ----------
    Kingma and Ba, "Adam: a method for stochastic optimization", 2015, algorithm 1.

    Examples
    --------
    >>> from skconvgp.flows import Adam
    >>> Adam(max_iter=100, learning_rate=0.1)
    Adam(max_iter=100, learning_rate=0.1)
    """

    max_iter: int = 200
    learning_rate: float = 0.05
    gradient: str = "exact"
    beta1: float = 0.9
    beta2: float = 0.999
    restart_undefined: bool = False
    check_every: int = 20
    difference_step: float = DIFFERENCE_STEP

    def _rule(self) -> Rule:
        return Moments(self.learning_rate, self.beta1, self.beta2)

    def _check_further(self) -> None:
        for name in ("beta1", "beta2"):
            is_share = _is_share(getattr(self, name))
            require(self, name, is_share, "a number >= 0 and < 1")


@dataclass
class _Momentum:
    rate: float
    momentum: float
    nesterov: bool
    velocity: FloatArray = field(default_factory=lambda: np.zeros(()))

    def move(self, by_theta: FloatArray) -> FloatArray:
        self.velocity = self.momentum * self.velocity + by_theta
        if self.nesterov:
            return self.rate * (by_theta + self.momentum * self.velocity)
        return self.rate * self.velocity


@dataclass
class Moments:
    """The rule of Adam."""

    rate: float
    beta1: float = 0.9
    beta2: float = 0.999
    mean: FloatArray = field(default_factory=lambda: np.zeros(()))
    square: FloatArray = field(default_factory=lambda: np.zeros(()))
    count: int = 0

    def move(self, by_theta: FloatArray) -> FloatArray:
        """Return the vector to subtract from theta."""
        self.count += 1
        self.mean = self.beta1 * self.mean + (1.0 - self.beta1) * by_theta
        self.square = self.beta2 * self.square + (1.0 - self.beta2) * by_theta**2
        mean = self.mean / (1.0 - self.beta1**self.count)
        square = self.square / (1.0 - self.beta2**self.count)
        moved: FloatArray = self.rate * mean / (np.sqrt(square) + EPSILON)
        return moved


class _Walk:
    """Present theta of a descent, and those since the last check."""

    message = f"the objective was undefined {MOST_UNDEFINED} times in a row"

    def __init__(self, landscape: Landscape, new_rule: Callable[[], Rule]):
        self._landscape, self._new_rule = landscape, new_rule
        self.n_undefined, self.n_restarts, self._n_in_row = 0, 0, 0
        self.theta = self._defined = landscape.start.copy()
        self._visited: list[FloatArray] = []
        self._rule = new_rule()

    @property
    def is_lost(self) -> bool:
        """Whether too many steps in a row were undefined."""
        return self._n_in_row == MOST_UNDEFINED

    def advance(
        self, value: float, by_theta: FloatArray, generator: Generator | None
    ) -> None:
        """Move down the slope; if it is undefined, move back or to a new start."""
        lows, highs = self._landscape.bounds.T
        if math.isfinite(value):
            self._defined, self._n_in_row = self.theta, 0
            self.theta = np.clip(self.theta - self._rule.move(by_theta), lows, highs)
            self._visited.append(self.theta)
            return
        self.n_undefined += 1
        self._rule = self._new_rule()
        if generator is not None:
            self.n_restarts += 1
            shares = uniforms((len(lows),), generator)
            self.theta = lows + np.array(shares.tolist()) * (highs - lows)
            self._visited = []
        else:
            self._n_in_row += 1
            self.theta = (self.theta + self._defined) / 2.0
            self._visited[-1:] = [self.theta]

    def check(self, best: Best) -> None:
        """Evaluate the mean of theta since the last check; keep it if it is best."""
        if self._visited:
            mean = np.mean(self._visited, axis=0)
            best.offer(mean, self._landscape.value(mean, self._landscape.fixed))
        self._visited = []


def _is_share(value: object) -> bool:
    return 0.0 <= as_float(value) < 1.0
