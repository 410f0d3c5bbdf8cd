"""What does learning by the variational bound over all images reach, and how soon?

    SKCONVGP_DATA=<folder with mnist.npz> python -m benchmarks patch_bounds --state X

The procedure is that of van der Wilk, Rasmussen and Hensman (2017): lengthscales,
weights of positions and inducing patches follow the bound over all images, by batches
of 200. Each row has a kernel of their Table 1, or of their rectangles, and its trace:
steps, seconds of the search, and minus the bound for each image, a mean of the steps
since the point before. The rows of all 60 000 images take hours each. The folder X
keeps the state of a row, so that a run that was stopped goes on there; processor
seconds of a fit are those since it went on. A row that is there is not measured again.
"""

from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import log_loss

from benchmarks.data import Array, images
from benchmarks.measure import Record, Stopwatch, apart
from benchmarks.report import AGAIN, Figures, show
from skconvgp import PatchGPClassifier
from skconvgp.datasets import make_rectangles
from skconvgp.flows import VariationalBound
from skconvgp.kernels import Kernel, PatchKernel, rbf

PART, KEYS = "rows", ("data", "n_train", "kernel")
PARTS = {PART: KEYS}
BATCH, POINTS = 200, 40  # images of a step; points of a trace
N_TEST = 5000  # rectangles


class Case(NamedTuple):
    """A set of images, and how kernels are learned from it."""

    n_inducing: int
    patch_size: int
    likelihood: str
    steps: int
    kernels: tuple[str, ...]


TABLE = ("invariant", "rbf", "weighted", "weighted + rbf")
CASES = {
    ("rectangles", 1200): Case(16, 3, "bernoulli", 600, TABLE[:3]),
    ("mnist", 5000): Case(128, 5, "robustmax", 400, TABLE),
    ("mnist", 60_000): Case(750, 5, "robustmax", 10_000, TABLE),
}
# Error in percent and log loss of the source, of all images.
PUBLISHED = {
    "rectangles": {
        "invariant": (1.4, 0.055),
        "weighted": (0.0, 0.005),
        "rbf": (5.0, 0.258),
    },
    "mnist": {
        "invariant": (2.08, 0.077),
        "rbf": (1.90, 0.068),
        "weighted": (1.22, 0.048),
        "weighted + rbf": (1.17, 0.039),
    },
}
SHOWN = {"error": "error", "log_loss": "NLPP", "seconds": "search s"}


def options(add: Any) -> None:
    add("--data", nargs="+", choices=PUBLISHED, default=list(PUBLISHED))
    add("--sizes", nargs="+", type=int)
    add("--kernels", nargs="+", choices=TABLE, default=list(TABLE))
    add("--steps", type=int, help="of the search, in the place of the usual number")
    add("--state", type=Path, help="folder of the state of rows that were stopped")
    add("--again", **AGAIN)


def run(options: Any, record: Record) -> None:
    show("", SHOWN.values(), 50)
    for (data, n), case in CASES.items():
        if data not in options.data or n not in (options.sizes or [n]):
            continue
        for kernel in case.kernels:
            if kernel not in options.kernels:
                continue
            wanted = dict(zip(KEYS, (data, n, kernel), strict=True))
            if record.missing(PART, **wanted):
                steps = options.steps or case.steps
                record.add(PART, apart(measure, data, n, kernel, steps, options.state))
            (row,) = record.rows(PART, **wanted)
            show(f"{data} {n}, {kernel}", (row[score] for score in SHOWN), 50)
            error, loss = PUBLISHED[data][kernel]
            show("    published, all images", (error / 100.0, loss), 50)


def measure(data: str, n: int, kernel: str, steps: int, state: Path | None) -> Figures:
    """Return what a kernel reaches that is learned by the bound, and its trace."""
    case = CASES[data, n]
    X, y, X_test, y_test = _images(data, n)
    bound = VariationalBound(steps, BATCH, cache_dir=state)
    classifier = PatchGPClassifier(
        kernel_of(kernel, case.patch_size, X.shape[-1]),
        n_inducing=case.n_inducing,
        inducing="learned",
        likelihood=case.likelihood,
        optimizer=bound,
        max_iter=10,
        random_state=0,
    )
    watch = Stopwatch()
    classifier.fit(X, y)
    fitted, found = watch.read("fit_"), classifier.optimizer_result_
    probabilities = classifier.predict_proba(X_test)
    labels = classifier.classes_[probabilities.argmax(1)]
    return {
        "data": data,
        "n_train": n,
        "kernel": kernel,
        "n_inducing": case.n_inducing,
        "likelihood": case.likelihood,
        "steps": steps,
        **fitted,
        "seconds": float(found.seconds[-1]),
        "error": 1.0 - float(np.mean(labels == y_test)),
        "log_loss": float(log_loss(y_test, probabilities, labels=classifier.classes_)),
        "bound": -classifier.elbo() / n,
        "learned": {name: round(value, 4) for name, value in found.values.items()},
        "trace": _trace(found),
    }


def kernel_of(name: str, patch_size: int, side: int) -> Kernel:
    """Return a kernel of the source, as learning begins with it."""
    weights = "learned" if "weighted" in name else None
    patches = PatchKernel(
        patch_size=side if name == "rbf" else patch_size,
        location_lengthscale=None,
        weights=weights,
    )
    return patches + 0.01 * rbf() if "+" in name else patches


def _trace(found: Any) -> list[list[float]]:
    """Return points of a search: steps, seconds, and minus the mean bound before."""
    ends = np.linspace(0, len(found.rho_trace), POINTS + 1).astype(int)
    return [
        [
            int(end),
            round(float(found.seconds[end - 1]), 1),
            round(float(found.rho_trace[first:end].mean()), 4),
        ]
        for first, end in pairwise(ends)
        if end > first
    ]


def _images(data: str, n: int) -> tuple[Array, Array, Array, Array]:
    """Return images (n, 1, h, w) and labels, for training and for the judgement."""
    if data == "rectangles":
        seen = make_rectangles(n, random_state=0)
        return *seen, *make_rectangles(N_TEST, random_state=1)
    samples = images(data, n, None)
    return samples.X, samples.y, samples.X_test, samples.y_test
