"""Beyond Cholesky: seconds, memory and differences of conjugate gradients.

    python benchmarks/solvers.py

Takes about ten minutes on two cores and 7 GiB of memory. Fits 20 000 vectors with
Cholesky, with conjugate gradients on a matrix that is held, and with 256 MiB allowed,
so that it is never held; each way in a process of its own. Then 5000 vectors with
several lengthscales, deviations by columns and by solutions: how far from Cholesky they
are. Prints tables and writes benchmarks/results/solvers.json.

    python benchmarks/solvers.py --n-samples 10000 --lengthscales 2.0 --ways cg

Runs with settings write only what --output names.
"""

import argparse
import json
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from completing.report import save
from numpy.typing import NDArray
from peers.machine import machine, versions
from peers.ours import forget_peak, size
from peers.pipe import Stopwatch

from skconvgp import ConvNetGPRegressor
from skconvgp.kernels import rbf
from skconvgp.solvers import ConjugateGradient

RESULTS = Path(__file__).parent / "results" / "solvers.json"
ENOUGH = "64 GiB"  # to hold the matrix; what is free counts too
SOLVED = "cg, held, solve"  # deviations are solutions too, not of columns
WAYS: dict[str, dict[str, Any]] = {
    "cholesky": {"solver": "cholesky"},
    "cg": {"solver": "cg", "memory_budget": "256 MiB"},
    "cg, held": {"solver": "cg", "memory_budget": ENOUGH},
    SOLVED: {
        "solver": ConjugateGradient(deviations="solve"),
        "memory_budget": ENOUGH,
    },
}
LARGE = {"n_samples": 20_000, "lengthscales": [3.0], "ways": list(WAYS)[:3]}
HARD = {
    "n_samples": 5000,
    "lengthscales": [3.0, 2.0, 1.0],
    "ways": ["cholesky", "cg, held", SOLVED],
}
N_FEATURES, N_NEW, NOISE = 6, 1000, 0.1
GIBIBYTE, MEBIBYTE = 2**30, 2**20


def main() -> None:
    """Measure each way in a process of its own, print and save."""
    options = parse()
    if options.only:
        length = options.lengthscales[0]
        print(json.dumps(measure(options.only, options.n_samples, length)))
        return
    record: dict[str, Any] = {"versions": versions(), "machine": machine(), "rows": []}
    asked = {name: getattr(options, name) for name in LARGE}
    given = {name: value for name, value in asked.items() if value is not None}
    for settings in [LARGE | given] if given else [LARGE, HARD]:
        n_samples, ways = settings["n_samples"], settings["ways"]
        for length in settings["lengthscales"]:
            print_head(n_samples, length)
            for row in compare(ways, n_samples, length):
                print_way(row)
                record["rows"].append(row)
                save(options.output or (None if given else RESULTS), record)


def parse() -> Any:
    """Return the options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--ways", nargs="+", choices=WAYS)
    add("--n-samples", type=int)
    add("--lengthscales", nargs="+", type=float, help="of the RBF")
    add("--output", type=Path, help="by default results/solvers.json, without settings")
    add("--only", choices=WAYS, help=argparse.SUPPRESS)
    return parser.parse_args()


def compare(ways: list[str], n_samples: int, length: float) -> Iterator[dict[str, Any]]:
    """Yield what each way takes, and how far it is from Cholesky if that came first."""
    exact = None
    for way in ways:
        row = ask(way, n_samples, length)
        mean, std = np.array(row.pop("mean")), np.array(row.pop("std"))
        exact = (mean, std) if way == "cholesky" else exact
        if exact is not None:
            furthest = np.abs(mean - exact[0]).max() / np.abs(exact[0]).max()
            row["mean_difference"] = float(furthest)
            row["std_difference"] = float(np.abs(std / exact[1] - 1.0).max())
        yield row


def ask(way: str, n_samples: int, length: float) -> dict[str, Any]:
    """Return what a process of its own measures."""
    given = ["--only", way, "--n-samples", str(n_samples)]
    given += ["--lengthscales", str(length)]
    done = subprocess.run(
        [sys.executable, __file__, *given], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{way}: {done.stderr}")
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def measure(way: str, n_samples: int, length: float) -> dict[str, Any]:
    """Return time, memory and predictions of one way."""
    X, y, X_new = samples(n_samples)
    gp = ConvNetGPRegressor(rbf(length), **WAYS[way])
    gp.fit(X[:100], y[:100]).predict(X_new[:10], return_std=True)  # start threads
    forget_peak()
    watch = Stopwatch()
    report = gp.fit(X, y).fit_report_
    fit = watch.read()
    watch = Stopwatch()
    mean, std = gp.predict(X_new, return_std=True)
    return {
        "way": way,
        "n_samples": len(y),
        "lengthscale": length,
        "fit_seconds": fit["seconds"],
        "fit_cpu_seconds": fit["cpu_seconds"],
        "predict_seconds": watch.read()["seconds"],
        "peak_bytes": size("VmHWM"),
        "model_bytes": len(pickle.dumps(gp)),
        "is_gram_held": report.is_gram_held,
        "iterations": report.iterations,
        "evidence": gp.log_marginal_likelihood(),
        "evidence_error": report.evidence_error,
        "deviation_excess": report.deviation_excess,
        "mean": mean.tolist(),
        "std": std.tolist(),
    }


def samples(n: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return vectors, noisy values of a smooth function, and new vectors."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, N_FEATURES))
    y = np.sin(X).sum(axis=1) + NOISE * rng.normal(size=n)
    return X, y, rng.normal(size=(N_NEW, N_FEATURES))


def print_head(n_samples: int, length: float) -> None:
    """Print what the lines are."""
    head = ("fit s", "cpu s", "predict s", "GiB", "model MiB", "iter", "evidence")
    print(f"\n{n_samples} vectors, rbf({length}), and differences from Cholesky")
    print(f"{'':<16}" + "".join(f"{word:>11}" for word in head) + "    mean, deviation")


def print_way(row: dict[str, Any]) -> None:
    """Print a line of the table."""
    peak = "?" if row["peak_bytes"] is None else f"{row['peak_bytes'] / GIBIBYTE:.2f}"
    told = f"{row['fit_seconds']:>11.1f}{row['fit_cpu_seconds']:>11.1f}"
    told += f"{row['predict_seconds']:>11.1f}{peak:>11}"
    told += f"{row['model_bytes'] / MEBIBYTE:>11.0f}{row['iterations']:>11}"
    told += f"{row['evidence']:>11.1f}"
    if "mean_difference" in row:
        told += f"    {row['mean_difference']:.1e}, {row['std_difference']:.1e}"
    print(f"{row['way']:<16}{told}", flush=True)


if __name__ == "__main__":
    main()
