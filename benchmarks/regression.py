"""How good are numbers and their intervals, on eight tables of UCI?

    SKCONVGP_DATA=<folder with uci_regression> python -m benchmarks regression

Takes about four hours on a core. Root mean squared error, negative log density and the
coverage of 95 % intervals of exact Gaussian processes with three kernels, beside
scikit-learn's and what the literature reports, on the splits that the literature uses.
Hyperparameters and noise maximise the evidence of at most 2000 training samples; then
the process is fitted to all of them, or of the largest set to 10 000. Each part can run
alone:

    python -m benchmarks regression --quick
    python -m benchmarks regression --sets yacht energy --splits 0 1

With --known the kernels and noises of rows that are there are not learned again: errors
and intervals are measured anew, in about an hour.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from benchmarks.data import REPORTED_NUMBERS, Samples, numbers, splits
from benchmarks.measure import Record, Stopwatch, judge_numbers, unwarned
from benchmarks.models import CHOSEN
from benchmarks.report import Figures, show, show_means
from skconvgp import ConvNetGPRegressor
from skconvgp.kernels import arcsine, dense, rbf

PARTS = {"regression": ("set", "split", "method")}
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
OURS = {"rbf": rbf(2.0), "arc-sine": arcsine(), "dense": dense(2)}
SKLEARN, SKLEARN_EACH = "scikit-learn, rbf", "scikit-learn, rbf, each feature"
N_RESTARTS = 1
USUAL = {"sets": SETS, "splits": range(20), "n_learned": 2000, "n_train": 10_000}
QUICK = {"sets": SETS[:2], "splits": [0], "n_learned": 150, "n_train": 150}
SCORES = ("rmse", "nlpd", "coverage", "fit_cpu_seconds")
REPORTED_METHODS = ("functional MCMC", "Wasserstein prior", "deep ensembles")
REPORTED = {
    name: {
        f"Tables 6.1, 6.2, {method}": figures[i]
        for i, method in enumerate(REPORTED_METHODS)
    }
    for name, figures in REPORTED_NUMBERS.items()
}


def options(add: Any) -> None:
    add("--sets", nargs="+", choices=SETS)
    add("--splits", nargs="+", type=int)
    add("--known", action="store_true")


def run(options: Any, record: Record) -> None:
    for name in options.sets:
        for split in splits(name, options.splits):
            table = numbers(name, split).first(options.n_train)
            place = {"set": name, "split": split, "n_train": len(table.y)}
            if options.known:
                judge_again(table, record, place)
                continue
            for method, row in measure(table, options.n_learned):
                record.add("regression", place | {"method": method} | row)
        print_set(record.rows("regression", set=name), name)


def print_set(rows: list[Figures], name: str) -> None:
    """Print means over the splits, with what was reported below."""
    n_splits = len({row["split"] for row in rows})
    print(f"\n{name}: means over {n_splits} splits, {rows[0]['n_train']} samples")
    show("", ("RMSE", "NLPD", "in 95 %", "CPU s"), 36)
    show_means(rows, SCORES, 36)
    for method, figures in REPORTED.get(name, {}).items():
        show(method, figures, 36)


def measure(table: Samples, n_learned: int) -> Iterator[tuple[str, Figures]]:
    """Yield name and scores; kernels are learned on the first samples of the table."""
    rows = {name: _ours(kernel, table, n_learned) for name, kernel in OURS.items()}
    yield from rows.items()
    best = max(rows.values(), key=lambda row: row["evidence"])
    total = sum(row["fit_cpu_seconds"] for row in rows.values())
    yield CHOSEN, best | {"fit_cpu_seconds": total}
    one, each = RBF(1.0, (1e-2, 1e3)), RBF(np.ones(table.X.shape[1]), (1e-2, 1e3))
    for name, kernel in ((SKLEARN, one), (SKLEARN_EACH, each)):
        yield name, _theirs(kernel, table, n_learned)


def judge_again(table: Samples, record: Record, place: Figures) -> None:
    """Measure the scores of rows anew, with the kernels and noises that they name."""
    made = {one.__name__: one for one in (rbf, arcsine, dense)}
    scores: dict[str, Figures] = {}
    for row in record.rows("regression", **place):
        if row["method"] not in (*OURS, CHOSEN):
            continue
        kernel = row["kernel"]
        if kernel not in scores:
            gp = ConvNetGPRegressor(
                eval(kernel, made),  # of a file of this repository
                noise_variance=row["noise_variance"],
                dtype="float64",
            ).fit(table.X, table.y)
            mean, std = gp.predict_latent(table.X_test, return_std=True, noise=True)
            scores[kernel] = judge_numbers(table.y_test, mean, std)
        record.add("regression", row | scores[kernel])


def _ours(kernel: Any, table: Samples, n_learned: int) -> Figures:
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
    } | judge_numbers(table.y_test, mean, std)


def _theirs(kernel: Any, table: Samples, n_learned: int) -> Figures:
    few = table.first(n_learned)
    whole = ConstantKernel(1.0, (1e-2, 1e4)) * kernel + WhiteKernel(0.1, (1e-8, 1e1))
    settings = {"normalize_y": True, "random_state": 0}
    watch = Stopwatch()
    with unwarned():
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
    } | judge_numbers(table.y_test, mean, std)
