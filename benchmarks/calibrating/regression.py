"""Gaussian processes for numbers: ours and scikit-learn's, kernels by evidence."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from peers.pipe import Stopwatch
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.preprocessing import StandardScaler

from calibrating.source import Figures
from skconvgp import ConvNetGPRegressor
from skconvgp.datasets import load_uci
from skconvgp.kernels import arcsine, dense, rbf
from skconvgp.metrics import interval_coverage, negative_log_predictive_density

SETS = (
    "yacht",
    "boston",
    "energy",
    "concrete",
    "wine_red",
    "kin8nm",
    "power_plant",
    "protein",
)
CHOSEN = "largest evidence"
OURS = {"rbf": rbf(2.0), "arc-sine": arcsine(), "dense": dense(2)}
SKLEARN, SKLEARN_EACH = "scikit-learn, rbf", "scikit-learn, rbf, each feature"
N_RESTARTS = 1
LEVEL = 0.95


@dataclass(frozen=True)
class Table:
    """Scaled samples to learn from, and samples to be judged on."""

    X: NDArray[Any]
    y: NDArray[Any]
    X_test: NDArray[Any]
    y_test: NDArray[Any]

    def first(self, n: int) -> Self:
        """Return one with the first n training samples."""
        return type(self)(self.X[:n], self.y[:n], self.X_test, self.y_test)


def load(name: str, split: int) -> Table:
    """Return a set; features have mean 0 and deviation 1 among training samples."""
    X, y = load_uci(name, split, return_X_y=True)
    X_test, y_test = load_uci(name, split, subset="test", return_X_y=True)
    scaler = StandardScaler().fit(X)
    return Table(scaler.transform(X), y, scaler.transform(X_test), y_test)


def measure(table: Table, n_learned: int) -> Iterator[tuple[str, Figures]]:
    """Yield name and scores; kernels are learned on the first samples of the table."""
    rows = {name: _ours(kernel, table, n_learned) for name, kernel in OURS.items()}
    yield from rows.items()
    best = max(rows.values(), key=lambda row: row["evidence"])
    total = sum(row["fit_cpu_seconds"] for row in rows.values())
    yield CHOSEN, best | {"fit_cpu_seconds": total}
    one, each = RBF(1.0, (1e-2, 1e3)), RBF(np.ones(table.X.shape[1]), (1e-2, 1e3))
    for name, kernel in ((SKLEARN, one), (SKLEARN_EACH, each)):
        yield name, _theirs(kernel, table, n_learned)


def _ours(kernel: Any, table: Table, n_learned: int) -> Figures:
    few = table.first(n_learned)
    watch = Stopwatch()
    learned = ConvNetGPRegressor(
        kernel,
        optimizer="evidence",
        n_restarts_optimizer=N_RESTARTS,
        noise_variance="evidence",
        dtype="float64",
        random_state=0,
    ).fit(few.X, few.y)
    gp = learned
    if len(table.y) > n_learned:
        gp = ConvNetGPRegressor(
            learned.kernel_, noise_variance=learned.noise_variance_, dtype="float64"
        ).fit(table.X, table.y)
    seconds = watch.read()["cpu_seconds"]
    mean, std = gp.predict_latent(table.X_test, return_std=True, noise=True)
    return {
        "kernel": repr(gp.kernel_),
        "noise_variance": gp.noise_variance_,
        "evidence": learned.log_marginal_likelihood(),
        "fit_cpu_seconds": seconds,
    } | judge(table.y_test, mean, std)


def _theirs(kernel: Any, table: Table, n_learned: int) -> Figures:
    few = table.first(n_learned)
    whole = ConstantKernel(1.0, (1e-2, 1e4)) * kernel + WhiteKernel(0.1, (1e-8, 1e1))
    settings = {"normalize_y": True, "random_state": 0}
    watch = Stopwatch()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        gp = GaussianProcessRegressor(
            whole, n_restarts_optimizer=N_RESTARTS, **settings
        ).fit(few.X, few.y)
        # Of targets that it has scaled.
        evidence = gp.log_marginal_likelihood_value_ - len(few.y) * np.log(few.y.std())
        if len(table.y) > n_learned:
            gp = GaussianProcessRegressor(gp.kernel_, optimizer=None, **settings)
            gp.fit(table.X, table.y)
    seconds = watch.read()["cpu_seconds"]
    mean, std = gp.predict(table.X_test, return_std=True)
    return {
        "kernel": repr(gp.kernel_),
        "evidence": float(evidence),
        "fit_cpu_seconds": seconds,
    } | judge(table.y_test, mean, std)


def judge(y: NDArray[Any], mean: NDArray[Any], std: NDArray[Any]) -> Figures:
    """Return the scores of predictions, in the units of y."""
    return {
        "rmse": float(np.sqrt(np.mean((y - mean) ** 2))),
        "nlpd": float(negative_log_predictive_density(y, mean, std)),
        "coverage": float(interval_coverage(y, mean, std, level=LEVEL)),
        "n_test": len(y),
    }
