"""Settings of local processes by held-out samples, one setting after the other."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.model_selection import KFold

from benchmarks.data import Array
from skconvgp import ConvNetGPRegressor
from skconvgp.completion import NearestNeighbors
from skconvgp.kernels import rbf

Place = dict[str, int]
# Ratios of about two: errors differ little between neighbouring values.
GRID: dict[str, tuple[Any, ...]] = {
    "n_neighbors": (5, 7, 10, 15, 20, 30, 40, 60, 80, 120),
    "lengthscale": tuple(0.01 * 2.0**i for i in range(13)),
    "noise_variance": tuple(10.0 ** (-i / 2.0) for i in range(13)),
}
MANY = 2000  # samples from which on a few of them are held out, and not each once
HELD_OUT = 600
N_FOLDS = 3


class Search:
    """A walk over the grid, to the place of the least held-out squared error."""

    def __init__(self, weights: str, X: Array, y: Array) -> None:
        self.weights, self.X, self.y = weights, X, y
        self.errors: dict[tuple[int, ...], float] = {}

    def find(self, start: dict[str, float]) -> Place:
        """Return the best place, from which no step in one setting is better."""
        place = {
            name: int(np.argmin(np.abs(np.log(np.array(values) / start[name]))))
            for name, values in GRID.items()
        }
        is_better = True
        while is_better:
            is_better = False
            for name in GRID:
                while (step := self._step(place, name)) is not None:
                    place, is_better = step, True
        return place

    def estimator(self, place: Place, **settings: Any) -> ConvNetGPRegressor:
        """Return the process of a place."""
        at = {name: GRID[name][i] for name, i in place.items()}
        near = NearestNeighbors(at["n_neighbors"], "euclidean", self.weights)
        usual = {"noise_variance": at["noise_variance"], "dtype": "float64"}
        return ConvNetGPRegressor(
            rbf(at["lengthscale"]), completion=near, **usual | settings
        )

    def _step(self, place: Place, name: str) -> Place | None:
        """Return a better place beside this one, if there is one."""
        for step in (-1, 1):
            other = place | {name: place[name] + step}
            is_inside = 0 <= other[name] < len(GRID[name])
            if is_inside and self._error(other) < self._error(place):
                return other
        return None

    def _error(self, place: Place) -> float:
        key = tuple(place.values())
        if key not in self.errors:
            squares = [
                (self.estimator(place, amplitude=1.0).fit(X, y).predict(new) - truth)
                ** 2
                for X, y, new, truth in self._parts()
            ]
            self.errors[key] = float(np.concatenate(squares).mean())
        return self.errors[key]

    def _parts(self) -> Iterator[tuple[Array, ...]]:
        yield from held_out(self.X, self.y)


def held_out(X: Array, y: Array) -> Iterator[tuple[Array, ...]]:
    """Yield samples to fit, their targets, samples to predict and their targets."""
    if len(y) > MANY:
        order = np.random.default_rng(0).permutation(len(y))
        parts = [(order[HELD_OUT:], order[:HELD_OUT])]
    else:
        parts = list(KFold(N_FOLDS, shuffle=True, random_state=0).split(X))
    for one, two in parts:
        yield X[one], y[one], X[two], y[two]
