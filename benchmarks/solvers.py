"""Beyond Cholesky: seconds, memory and differences of conjugate gradients.

    python benchmarks/solvers.py

Takes about five minutes on two cores and 7 GiB of memory. Fits 20 000 vectors with
Cholesky, with conjugate gradients on a matrix that is held, and with 256 MiB allowed,
so that it is never held; each way in a process of its own. Prints a table and writes
benchmarks/results/solvers.json.

    python benchmarks/solvers.py --n-samples 5000 --lengthscale 2.0
    python benchmarks/solvers.py --ways cg

Runs with other settings write only what --output names.
"""

import argparse
import json
import pickle
import subprocess
import sys
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

RESULTS = Path(__file__).parent / "results" / "solvers.json"
ENOUGH = "64 GiB"  # to hold the matrix; what is free counts too
WAYS: dict[str, dict[str, Any]] = {
    "cholesky": {"solver": "cholesky"},
    "cg": {"solver": "cg", "memory_budget": "256 MiB"},
    "cg, held": {"solver": "cg", "memory_budget": ENOUGH},
}
USUAL = {"n_samples": 20_000, "lengthscale": 3.0}
N_FEATURES, N_NEW, NOISE = 6, 1000, 0.1
GIBIBYTE, MEBIBYTE = 2**30, 2**20


def main() -> None:
    """Measure each way in a process of its own, print and save."""
    options = parse()
    if options.only:
        print(json.dumps(measure(options.only, options)))
        return
    record: dict[str, Any] = {"versions": versions(), "machine": machine(), "ways": {}}
    head = ("fit s", "cpu s", "predict s", "GiB", "model MiB", "iter", "evidence")
    print(f"{'':<12}" + "".join(f"{word:>11}" for word in head) + "    mean, deviation")
    exact = None
    for way in options.ways:
        row = ask(way, options)
        predictions = np.array(row.pop("mean")), np.array(row.pop("std"))
        exact = predictions if way == "cholesky" else exact
        if exact is not None:
            scale = np.abs(exact[0]).max()
            row["mean_difference"] = float(
                np.abs(predictions[0] - exact[0]).max() / scale
            )
            row["std_difference"] = float(np.abs(predictions[1] / exact[1] - 1.0).max())
        record["ways"][way] = row
        save(options.output, record)
        print_way(way, row)
    if options.output:
        print(f"\nwritten to {options.output}")


def parse() -> Any:
    """Return the options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    add("--n-samples", type=int, default=USUAL["n_samples"])
    add("--lengthscale", type=float, default=USUAL["lengthscale"], help="of the RBF")
    add("--output", type=Path, help="by default results/solvers.json")
    add("--only", choices=WAYS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    is_usual = all(getattr(options, name) == value for name, value in USUAL.items())
    if is_usual and options.ways == list(WAYS) and not options.output:
        options.output = RESULTS
    return options


def ask(way: str, options: Any) -> dict[str, Any]:
    """Return what a process of its own measures."""
    given = ["--only", way, "--n-samples", str(options.n_samples)]
    given += ["--lengthscale", str(options.lengthscale)]
    done = subprocess.run(
        [sys.executable, __file__, *given], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{way}: {done.stderr}")
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def measure(way: str, options: Any) -> dict[str, Any]:
    """Return time, memory and predictions of one way."""
    X, y, X_new = samples(options.n_samples)
    gp = ConvNetGPRegressor(rbf(options.lengthscale), **WAYS[way])
    gp.fit(X[:100], y[:100]).predict(X_new[:10], return_std=True)  # start threads
    forget_peak()
    watch = Stopwatch()
    report = gp.fit(X, y).fit_report_
    fit = watch.read()
    watch = Stopwatch()
    mean, std = gp.predict(X_new, return_std=True)
    return {
        "n_samples": len(y),
        "lengthscale": options.lengthscale,
        "fit_seconds": fit["seconds"],
        "fit_cpu_seconds": fit["cpu_seconds"],
        "predict_seconds": watch.read()["seconds"],
        "peak_bytes": size("VmHWM"),
        "model_bytes": len(pickle.dumps(gp)),
        "is_gram_held": report.is_gram_held,
        "iterations": report.iterations,
        "evidence": gp.log_marginal_likelihood(),
        "evidence_error": report.evidence_error,
        "mean": mean.tolist(),
        "std": std.tolist(),
    }


def samples(n: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return vectors, noisy values of a smooth function, and new vectors."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, N_FEATURES))
    y = np.sin(X).sum(axis=1) + NOISE * rng.normal(size=n)
    return X, y, rng.normal(size=(N_NEW, N_FEATURES))


def print_way(way: str, row: dict[str, Any]) -> None:
    """Print a line of the table."""
    peak = "?" if row["peak_bytes"] is None else f"{row['peak_bytes'] / GIBIBYTE:.2f}"
    told = f"{row['fit_seconds']:>11.1f}{row['fit_cpu_seconds']:>11.1f}"
    told += f"{row['predict_seconds']:>11.1f}{peak:>11}"
    told += f"{row['model_bytes'] / MEBIBYTE:>11.0f}{row['iterations']:>11}"
    told += f"{row['evidence']:>11.1f}"
    if "mean_difference" in row:
        told += f"    {row['mean_difference']:.1e}, {row['std_difference']:.1e}"
    print(f"{way:<12}{told}")


if __name__ == "__main__":
    main()
