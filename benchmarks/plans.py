"""Does a fit take the seconds and the memory that its plan says?

    SKCONVGP_DATA=<folder with mnist.npz, cifar10.npz> python -m benchmarks plans

Plans a dozen fits, and then makes them, each in a process of its own on one thread: of
digits, MNIST, CIFAR-10 and a table, exactly, by conjugate gradients, by landmarks, by
features and by parts of images. Each process has made a small fit of the same kind
before, so that libraries are loaded. Seconds are of the processor; memory is the peak
of the process above its size before the fit. It takes a quarter of an hour. Rows that
are there are not measured again.

    python -m benchmarks plans --cases digits table
    python -m benchmarks plans --quick
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks.data import FETCH
from benchmarks.measure import Record, apart, forget_peak, size, unwarned
from benchmarks.report import AGAIN, Figures, Target, show
from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    ImageClassifier,
    NystromCompletedGP,
    PatchGPClassifier,
)
from skconvgp.completion import RandomFeatures
from skconvgp.datasets import load_digits_images
from skconvgp.kernels import convnet, rbf

PARTS = {"fits": ("case",)}
# Name of the data, number of samples, and how the estimator is made.
Case = tuple[str, int, Callable[[], Any]]
CASES: dict[str, Case] = {
    "digits, 1000": ("digits", 1000, ConvNetGPClassifier),
    "digits, evidence": (
        "digits",
        300,
        lambda: ConvNetGPClassifier(convnet(2, 3), optimizer="evidence"),
    ),
    "digits, images": ("digits", 300, lambda: ImageClassifier(random_state=0)),
    "table, 3000": ("table", 3000, lambda: ConvNetGPRegressor(rbf())),
    "table, cg": (
        "table",
        5000,
        lambda: ConvNetGPRegressor(rbf(), solver="cg", noise_variance=0.1),
    ),
    "table, random features": (
        "table",
        20_000,
        lambda: ConvNetGPRegressor(rbf(), completion=RandomFeatures(1000)),
    ),
    "mnist, 500": ("mnist", 500, ConvNetGPClassifier),
    "mnist, 2000": ("mnist", 2000, ConvNetGPClassifier),
    "mnist, 2 layers, 4000": (
        "mnist",
        4000,
        lambda: ConvNetGPClassifier(convnet(2, 3), noise_variance=1e-3),
    ),
    "mnist, landmarks": (
        "mnist",
        9000,
        lambda: NystromCompletedGP(convnet(2, 3), n_landmarks=500),
    ),
    "mnist, patches, 5000": (
        "mnist",
        5000,
        lambda: PatchGPClassifier(random_state=0),
    ),
    "mnist, images, 500": ("mnist", 500, lambda: ImageClassifier(random_state=0)),
    "mnist, images, landmarks": (
        "mnist",
        10_000,
        lambda: ImageClassifier(n_landmarks=1000, random_state=0),
    ),
    "cifar10, patches, 2000": (
        "cifar10",
        2000,
        lambda: PatchGPClassifier(random_state=0),
    ),
    "cifar10, images, 500": ("cifar10", 500, lambda: ImageClassifier(random_state=0)),
}
USUAL = {"cases": list(CASES)}
QUICK = {"cases": ["digits, 1000", "table, 3000"]}
WARM = 60  # samples of the first fit
MOST_TIMES, MOST_MEMORY, LEAST_MEMORY = 2.0, 0.2, 2.0**26


def options(add: Any) -> None:
    add("--cases", nargs="+", choices=list(CASES))
    add("--again", **AGAIN)


def run(options: Any, record: Record) -> list[Target]:
    show("case", ("way", "planned s", "s", "planned MiB", "MiB", "planning s"))
    for case in options.cases:
        if record.missing("fits", case=case):
            record.add("fits", {"case": case} | apart(measure, case))
        (row,) = record.rows("fits", case=case)
        mib = (row[name] and row[name] / 2**20 for name in ("planned_bytes", "bytes"))
        planned, peak = mib
        cells = row["planned_seconds"], row["seconds"], planned, peak
        show(case, (row["way"], *cells, row["planning_seconds"]))
    rows = record.figures["fits"]
    off = [
        max(row["seconds"] / row["planned_seconds"], 1.0 / time_share(row))
        for row in rows
    ]
    large = [row for row in rows if (row["bytes"] or 0) > LEAST_MEMORY]
    bytes_off = [abs(row["planned_bytes"] / row["bytes"] - 1.0) for row in large]
    return [
        ("largest factor of seconds", max(off), "at most", MOST_TIMES),
        ("share of bytes that is off", max(bytes_off, default=0.0), "at most", 0.2),
    ]


def time_share(row: Figures) -> float:
    """Return the seconds of a fit, as a share of those that were planned."""
    return float(row["seconds"] / row["planned_seconds"])


def measure(case: str) -> Figures:
    """Plan a fit and make it; return what was planned and what it took."""
    torch.set_num_threads(1)
    name, n, make = CASES[case]
    X, y = data(name, n)
    with unwarned():
        make().fit(X[:WARM], y[:WARM])
        start = time.perf_counter()
        plan = make().plan(X, y)
        planning = time.perf_counter() - start
        before = forget_peak()
        start, cpu_start = time.perf_counter(), time.process_time()
        fitted = make().fit(X, y)
        seconds = time.process_time() - cpu_start
        wall = time.perf_counter() - start
    peak = None if before is None else size("VmHWM") - before
    return {
        "n_samples": n,
        "way": plan.way,
        "planned_seconds": plan.seconds,
        "seconds": seconds,
        "wall_seconds": wall,
        "planned_bytes": plan.peak_bytes,
        "bytes": peak,
        "planning_seconds": planning,
        "stages": {stage.name: stage.seconds for stage in plan.stages},
        "gram_seconds": fitted.fit_report_.gram_seconds,
        "solve_seconds": fitted.fit_report_.solve_seconds,
    }


def data(name: str, n: int) -> tuple[Any, Any]:
    """Return samples, and labels or targets."""
    if name == "digits":
        X, y = load_digits_images(return_X_y=True)
        return X[:n], y[:n]
    if name == "table":
        random = np.random.default_rng(0)
        X = random.normal(size=(n, 10))
        return X, np.sin(X.sum(1)) + 0.1 * random.normal(size=n)
    found: tuple[Any, Any] = FETCH[name](n_samples=n, return_X_y=True)
    return found
