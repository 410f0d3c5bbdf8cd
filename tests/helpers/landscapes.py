"""Landscapes in closed form for optimisers to search."""

import math

import numpy as np
import torch

from skconvgp._protocols import Batch


class Surface:
    """A function of theta whose minimum lies elsewhere on each batch.

    Parameters
    ----------
    function : callable
        Value at theta (p,); NaN where it is undefined.
    slope : callable or None
        Its derivatives (p,).
    start : array-like of shape (p,)
        Where to begin.
    bounds : tuple of float or array-like of shape (p, 2)
        The same for all dimensions, or one for each.
    spread : float
        Standard deviation of the minimum over batches, in each dimension.
    last : int or None
        Step whose report asks to stop.
    n_fixed : int
        Number of fixed batches.
    """

    worst = 1.0

    def __init__(
        self,
        function,
        slope,
        start,
        bounds=(-3.0, 3.0),
        spread=0.0,
        last=None,
        n_fixed=4,
    ):
        self.function, self.slope = function, slope
        self.start = np.array(start, dtype=np.float64)
        pairs = np.array(bounds, dtype=np.float64)
        self.bounds = np.broadcast_to(pairs, (len(self.start), 2)).copy()
        self.spread, self.last = spread, last
        self.fixed = tuple(Batch(torch.tensor([-1 - i])) for i in range(n_fixed))
        self.n_evaluations = self.n_derivatives = self.n_drawn = 0
        self.visited, self.steps, self.progress, self.methods = [], [], [], set()

    def draw(self, progress):
        self.n_drawn += 1
        self.progress.append(progress)
        return Batch(torch.tensor([self.n_drawn]))

    def value(self, theta, batches):
        self.visited.append(np.array(theta))
        self.n_evaluations += len(batches)
        return float(np.mean([self.function(theta - self._shift(b)) for b in batches]))

    def gradient(self, theta, batches, method="exact"):
        self.methods.add(method)
        self.n_derivatives += len(batches)
        value = self.value(theta, batches)
        slopes = [self.slope(theta - self._shift(batch)) for batch in batches]
        return value, np.mean(slopes, axis=0)

    def report(self, step):
        self.steps.append(step)
        return step.index == self.last

    def fixed_value(self, theta):
        """Return the mean over the fixed batches, uncounted."""
        return float(
            np.mean([self.function(theta - self._shift(b)) for b in self.fixed])
        )

    def _shift(self, batch):
        seed = int(batch.indices[0]) % 2**31
        return self.spread * np.random.default_rng(seed).normal(size=len(self.start))


def bowl(start=(2.0, -2.0), middle=(0.5, 1.0), undefined=None, **settings):
    """Return a quadratic function, five times as steep in each further dimension."""
    middle = np.array(middle)
    weights = 0.05 * 5.0 ** np.arange(len(middle))

    def function(theta):
        if undefined is not None and undefined(theta):
            return math.nan
        return float(weights @ (theta - middle) ** 2) + 0.1

    def slope(theta):
        return 2.0 * weights * (theta - middle)

    return Surface(function, slope, start, **settings)


BRANIN_MINIMUM = 0.397887


def branin(**settings):
    """Return the function of Branin on the square from 0 to 1."""

    def function(theta):
        x, y = 15.0 * theta[0] - 5.0, 15.0 * theta[1]
        bend = y - 5.1 / (4.0 * math.pi**2) * x**2 + 5.0 / math.pi * x - 6.0
        return bend**2 + 10.0 * (1.0 - 0.125 / math.pi) * math.cos(x) + 10.0

    return Surface(function, None, (0.9, 0.9), (0.0, 1.0), n_fixed=1, **settings)
