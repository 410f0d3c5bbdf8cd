"""How much longer do small fits take with more than one thread, on busy cores?

    SKCONVGP_DATA=<folder with mnist.npz> python -m benchmarks busy_cores

Takes some minutes. As many processes as there are cores keep these busy, as other jobs
or a browser do. Each model is fitted in two processes, with one thread
(OMP_NUM_THREADS=1) and with the threads that are there by default, which take turns.
Rows have the median seconds of the clock of a fit, and of the processor. Large fits are
measured without the other processes: there all threads should help.
"""

import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from multiprocessing.connection import Connection
from typing import Any

from sklearn.datasets import load_iris

from benchmarks.data import images
from benchmarks.measure import Record, machine, unwarned
from benchmarks.report import Figures, Target, show
from skconvgp import (
    BayesianNetworkClassifier,
    ConvNetGPClassifier,
    ImageClassifier,
    KernelFlowsClassifier,
    PatchGPClassifier,
)
from skconvgp.datasets import load_digits_images
from skconvgp.flows import Adam
from skconvgp.kernels import rbf

Ask = Callable[[str, str], tuple[float, float]]

PARTS = {"fits": ("data", "model")}
MODELS: dict[str, Callable[[Any], Any]] = {
    "exact": ConvNetGPClassifier,
    "evidence": lambda kernel: ConvNetGPClassifier(kernel, optimizer="evidence"),
    "Kernel Flows": lambda kernel: KernelFlowsClassifier(
        kernel, optimizer=Adam(max_iter=50), random_state=0
    ),
    "images": lambda _: ImageClassifier(random_state=0),
    "patches": lambda _: PatchGPClassifier(random_state=0),
    "networks": lambda _: BayesianNetworkClassifier(max_iter=50, random_state=0),
}
ON_TABLES = ("exact", "evidence", "Kernel Flows", "networks")
IRIS = "iris"
SMALL = {IRIS: ON_TABLES, "60 digits": tuple(MODELS), "500 digits": tuple(MODELS)}
LARGE = {"1797 digits": ("exact",), "3000 of MNIST": ("exact",)}
THREADS = ("one", "all")
USUAL, QUICK = {"repeat": 5}, {"repeat": 1}
LEAST = 4.0  # seconds of the fits of a row
MOST = 1.5  # times the seconds with one thread


def options(add: Any) -> None:
    add("--repeat", type=int, help="fits of each process")
    add("--data", nargs="+", default=[*SMALL, *LARGE], choices=[*SMALL, *LARGE])


def run(options: Any, record: Record) -> list[Target]:
    columns = ("one", "all", "times", "one, cpu", "all, cpu")
    show("data, model", columns)
    with fitting("1") as one, fitting("") as every:
        for data in options.data:
            with busy(machine()["cores"] if data in SMALL else 0):
                for model in (SMALL | LARGE)[data]:
                    row = measure(one, every, data, model, options.repeat)
                    record.add("fits", {"data": data, "model": model} | row)
                    seconds = [row[f"{name}_seconds"] for name in THREADS]
                    cpu = [row[f"{name}_cpu_seconds"] for name in THREADS]
                    show(f"{data}, {model}", (*seconds, row["times"], *cpu))
    small = [row["times"] for row in record.rows("fits") if row["data"] in SMALL]
    return [("small fits, in seconds of one thread", max(small), "at most", MOST)]


def measure(one: Ask, every: Ask, data: str, model: str, repeat: int) -> Figures:
    """Return median seconds of fits by one thread and by all, which take turns."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in THREADS}
    for ask in (one, every):
        ask(data, model)  # the first fit loads code
    start = time.perf_counter()
    while len(found[THREADS[0]]) < repeat or time.perf_counter() - start < LEAST:
        for name, ask in zip(THREADS, (one, every), strict=True):
            found[name].append(ask(data, model))
    row = {}
    for name, runs in found.items():
        clock, cpu = zip(*runs, strict=True)
        row[f"{name}_seconds"] = statistics.median(clock)
        row[f"{name}_cpu_seconds"] = statistics.median(cpu)
    return row | {"times": row["all_seconds"] / row["one_seconds"]}


@contextmanager
def fitting(n_threads: str) -> Iterator[Ask]:
    """Give what returns the seconds of a fit in a process with some threads."""
    name = "OMP_NUM_THREADS"
    before = os.environ.pop(name, "")
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=fit, args=(theirs,), daemon=True)
    try:
        os.environ |= {name: n_threads} if n_threads else {}
        process.start()
    finally:
        os.environ.pop(name, None)
        os.environ |= {name: before} if before else {}

    def ask(data: str, model: str) -> tuple[float, float]:
        ours.send((data, model))
        return ours.recv()

    try:
        yield ask
    finally:
        process.kill()


def fit(connection: Connection) -> None:
    """Fit a model to data each time that it is asked for; send the seconds."""
    while True:
        data, model = connection.recv()
        X, y = load(data)
        kernel = rbf() if data == IRIS else None
        start, cpu = time.perf_counter(), time.process_time()
        with unwarned():
            MODELS[model](kernel).fit(X, y)
        connection.send((time.perf_counter() - start, time.process_time() - cpu))


@cache
def load(data: str) -> tuple[Any, Any]:
    """Return samples and labels."""
    if data == IRIS:
        return load_iris(return_X_y=True)
    n = int(data.split()[0])
    if "MNIST" in data:
        table = images("mnist", n, 1)
        return table.X, table.y
    X, y = load_digits_images(return_X_y=True)
    return X[:n], y[:n]


@contextmanager
def busy(n_cores: int) -> Iterator[None]:
    """Keep some cores busy."""
    context = multiprocessing.get_context("spawn")
    spinning = [context.Process(target=spin, daemon=True) for _ in range(n_cores)]
    for process in spinning:
        process.start()
    try:
        yield
    finally:
        for process in spinning:
            process.kill()


def spin() -> None:
    """Compute nothing for ever."""
    while True:
        pass
