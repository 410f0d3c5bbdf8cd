"""What do conjugate gradients take beside Cholesky, and how far from it are they?

    python -m benchmarks solvers

Takes about ten minutes on two cores and 7 GiB of memory. Fits 20 000 vectors with
Cholesky, with conjugate gradients on a matrix that is held, and with 256 MiB allowed,
so that it is never held; each way in a process of its own. Then 5000 vectors with
several lengthscales, deviations by columns and by solutions: how far from Cholesky they
are.

    python -m benchmarks solvers --n-samples 10000 --lengthscales 2.0 --ways cg

Runs with settings write only what --output names.
"""

import pickle
from typing import Any

import numpy as np

from benchmarks.data import Array
from benchmarks.measure import Record, Stopwatch, apart, forget_peak, size
from benchmarks.report import Figures, show
from skconvgp import ConvNetGPRegressor
from skconvgp.kernels import rbf
from skconvgp.solvers import ConjugateGradient

PARTS: dict[str, tuple[str, ...]] = {"rows": ()}
ENOUGH = "64 GiB"  # to hold the matrix; what is free counts too
SOLVED = "cg, held, solve"  # deviations are solutions too, not of columns
WAYS: dict[str, dict[str, Any]] = {
    "cholesky": {"solver": "cholesky"},
    "cg": {"solver": "cg", "memory_budget": "256 MiB"},
    "cg, held": {"solver": "cg", "memory_budget": ENOUGH},
    SOLVED: {"solver": ConjugateGradient(deviations="solve"), "memory_budget": ENOUGH},
}
LARGE = {"n_samples": 20_000, "lengthscales": [3.0], "ways": list(WAYS)[:3]}
HARD = {
    "n_samples": 5000,
    "lengthscales": [3.0, 2.0, 1.0],
    "ways": ["cholesky", "cg, held", SOLVED],
}
N_FEATURES, N_NEW, NOISE = 6, 1000, 0.1
SHOWN = {
    "fit_seconds": "fit s",
    "fit_cpu_seconds": "CPU s",
    "predict_seconds": "predict s",
    "peak_bytes": "peak B",
    "model_bytes": "model B",
    "iterations": "iterations",
    "evidence": "evidence",
    "mean_difference": "mean",
    "std_difference": "deviation",
}


def options(add: Any) -> None:
    add("--ways", nargs="+", choices=WAYS)
    add("--n-samples", type=int)
    add("--lengthscales", nargs="+", type=float, help="of the RBF")


def is_trial(options: Any) -> bool:
    return any(getattr(options, name) is not None for name in LARGE)


def run(options: Any, record: Record) -> None:
    asked = {name: getattr(options, name) for name in LARGE}
    given = {name: value for name, value in asked.items() if value is not None}
    for settings in [LARGE | given] if given else [LARGE, HARD]:
        n_samples = settings["n_samples"]
        for length in settings["lengthscales"]:
            exact = None
            print(f"\n{n_samples} vectors, rbf({length}); differences from Cholesky")
            show("", SHOWN.values(), 16)
            for way in settings["ways"]:
                row = apart(measure, way, n_samples, length)
                mean, std = row.pop("mean"), row.pop("std")
                exact = (mean, std) if way == "cholesky" else exact
                if exact is not None:
                    furthest = np.abs(mean - exact[0]).max() / np.abs(exact[0]).max()
                    row["mean_difference"] = float(furthest)
                    row["std_difference"] = float(np.abs(std / exact[1] - 1.0).max())
                record.add("rows", row)
                show(way, (row.get(name) for name in SHOWN), 16)


def measure(way: str, n_samples: int, length: float) -> Figures:
    """Return time, memory and predictions of one way."""
    X, y, X_new = samples(n_samples)
    gp = ConvNetGPRegressor(rbf(length), **WAYS[way])
    gp.fit(X[:100], y[:100]).predict(X_new[:10], return_std=True)  # start threads
    forget_peak()
    watch = Stopwatch()
    report = gp.fit(X, y).fit_report_
    fitted, watch = watch.read("fit_"), Stopwatch()
    mean, std = gp.predict(X_new, return_std=True)
    return {
        "way": way,
        "n_samples": len(y),
        "lengthscale": length,
        **fitted,
        "predict_seconds": watch.read()["seconds"],
        "peak_bytes": size("VmHWM"),
        "model_bytes": len(pickle.dumps(gp)),
        "is_gram_held": report.is_gram_held,
        "iterations": report.iterations,
        "evidence": gp.log_marginal_likelihood(),
        "evidence_error": report.evidence_error,
        "deviation_excess": report.deviation_excess,
        "mean": mean,
        "std": std,
    }


def samples(n: int) -> tuple[Array, Array, Array]:
    """Return vectors, noisy values of a smooth function, and new vectors."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, N_FEATURES))
    y = np.sin(X).sum(axis=1) + NOISE * rng.normal(size=n)
    return X, y, rng.normal(size=(N_NEW, N_FEATURES))
