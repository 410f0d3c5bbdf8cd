"""Local processes beside the nearest neighbours alone and exact processes."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.neighbors import KNeighborsRegressor

from benchmarks.data import Array, Samples
from benchmarks.measure import Stopwatch, judge_numbers
from benchmarks.neighbors.search import GRID, Search, held_out
from benchmarks.report import Figures
from skconvgp import ConvNetGPRegressor
from skconvgp.datasets import make_doppler
from skconvgp.kernels import rbf

WEIGHTS = ("uniform", "epanechnikov", "gaussian", "hilbert")
ALONE, EXACT = "neighbours alone", "exact, evidence"
START = {"n_neighbors": 40.0, "lengthscale": 1.0, "noise_variance": 0.03}
CURVE_START = {"n_neighbors": 7.0, "lengthscale": 0.02, "noise_variance": 0.1}


def measure_table(table: Samples) -> Iterator[tuple[str, Figures]]:
    """Yield name and scores of each method on a set."""
    for weights in WEIGHTS:
        yield weights, _local(weights, table, START)
    yield ALONE, _alone(table)


def measure_curve(n: int, seed: int) -> Iterator[tuple[str, Figures]]:
    """Yield name and squared error of each method on Doppler's curve, at its points."""
    X, y = make_doppler(n, random_state=seed)
    curve = make_doppler(n, noise=0.0)[1]
    for weights in WEIGHTS:
        search = Search(weights, X, y)
        gp = search.estimator(search.find(CURVE_START)).fit(X, y)
        yield weights, _on_curve(gp, X, curve)
    settings = {"optimizer": "evidence", "noise_variance": "evidence"}
    gp = ConvNetGPRegressor(rbf(0.05), **settings, random_state=0).fit(X, y)
    yield EXACT, _on_curve(gp, X, curve)


def _local(weights: str, table: Samples, start: dict[str, float]) -> Figures:
    watch = Stopwatch()
    search = Search(weights, table.X, table.y)
    place = search.find(start)
    gp = search.estimator(place, random_state=0).fit(table.X, table.y)
    fitted = watch.read()["cpu_seconds"]
    mean, std = gp.predict_latent(table.X_test, return_std=True, noise=True)
    return {
        **{name: GRID[name][i] for name, i in place.items()},
        "n_tried": len(search.errors),
        "mse": float(np.mean((table.y_test - mean) ** 2)),
        "fit_cpu_seconds": fitted,
        "cpu_seconds": watch.read()["cpu_seconds"],
    } | judge_numbers(table.y_test, mean, std)


def _alone(table: Samples) -> Figures:
    watch = Stopwatch()
    errors = {}
    for k in GRID["n_neighbors"]:
        errors[k] = np.mean(
            [
                np.mean((KNeighborsRegressor(k).fit(X, y).predict(new) - truth) ** 2)
                for X, y, new, truth in held_out(table.X, table.y)
            ]
        )
    best = min(errors, key=errors.__getitem__)
    mean = KNeighborsRegressor(best).fit(table.X, table.y).predict(table.X_test)
    return {
        "n_neighbors": best,
        "mse": float(np.mean((table.y_test - mean) ** 2)),
        "cpu_seconds": watch.read()["cpu_seconds"],
    }


def _on_curve(gp: Any, X: Array, curve: Array) -> Figures:
    near = gp.completion.n_neighbors if gp.completion else len(X)
    return {
        "lengthscale": float(gp.kernel_.lengthscale),
        "noise_variance": float(gp.noise_variance_),
        "n_neighbors": near,
        "mse": float(np.mean((gp.predict(X) - curve) ** 2)),
    }
