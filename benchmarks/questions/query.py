"""Query: how accurate is a classifier of images that a strategy has chosen?

Labels of a pool are asked for in batches. After each batch a process is fitted to all
labels so far, with a noise of its own. Its covariances are those of an ImageClassifier
that was fitted once to other images, at most 200: that makes several draws affordable,
and all strategies see the same kernel. "Fitted again" fits an ImageClassifier after
each batch.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.data import Array, Samples
from benchmarks.image_sets import SETS
from benchmarks.measure import Stopwatch
from benchmarks.report import Figures
from skconvgp import ConvNetGPClassifier, ImageClassifier
from skconvgp.kernels import dot_product
from skconvgp.questions import query

KEYS = ("data", "draw", "method")
AGAIN = ", fitted again"
# Images of the pool, by the name of a set.
DATA = {
    "digits": 1000,
    "mnist": 2000,
    "cifar10": 2000,
    "digits" + AGAIN: 1000,
}
RANDOM, MARGIN = "random", "margin"
VARIANCE, UNCERTAIN = "variance", "uncertain variance"
AT_ONCE = UNCERTAIN + ", 100 at once"
METHODS = (RANDOM, MARGIN, VARIANCE, UNCERTAIN, AT_ONCE)
NEEDS: dict[str, str] = {}
# Labels at the start, labels of a batch, and numbers of labels that are judged.
START, BATCH, LARGE_BATCH, SIZES = 25, 25, 100, (50, 100, 200, 400)
N_KERNEL, N_TEST = 200, 700  # images that the kernel is fitted to, and test images
ROUNDING = 1e-6  # of tiles, as a share of the mean variance
SHOWN = (*(f"accuracy_{n}" for n in SIZES), "ask_cpu_seconds")


def measure(data: str, draw: int, methods: list[str]) -> Iterator[Figures]:
    """Yield a row for each method."""
    name, n_pool = data.removesuffix(AGAIN), DATA[data]
    found = SETS[name].make(n_pool, N_TEST + N_KERNEL, draw)
    order = np.random.default_rng(draw).permutation(n_pool)
    make = again
    if name == data:
        make, found = of_rows, with_one_kernel(found, draw)
    found = replace(found, X_test=found.X_test[:N_TEST], y_test=found.y_test[:N_TEST])
    for method in methods:
        batch, strategy = BATCH, method
        if method == AT_ONCE:
            batch, strategy = LARGE_BATCH, UNCERTAIN
        yield {"method": method} | curve(found, make, order, strategy, batch)


def again() -> Any:
    return ImageClassifier(random_state=0)


def of_rows() -> Any:
    """Return a process whose covariances are products of rows."""
    return ConvNetGPClassifier(dot_product())


def with_one_kernel(found: Samples, draw: int) -> Samples:
    """Return rows instead of images, whose products are covariances of images."""
    X, y = found.X_test[N_TEST:], found.y_test[N_TEST:]
    fitted = ImageClassifier(random_state=draw).fit(X, y)
    images = np.concatenate([found.X, found.X_test[:N_TEST]])
    gram = fitted._gram_of(images.reshape(len(images), -1))
    gram += ROUNDING * gram.trace() / len(gram) * np.eye(len(gram))
    rows = np.linalg.cholesky(gram)
    n = len(found.X)
    return replace(found, X=rows[:n], X_test=rows[n:])


def curve(
    found: Samples, make: Callable[[], Any], order: Array, strategy: str, batch: int
) -> Figures:
    """Return accuracies by numbers of labels, the first of which are given."""
    chosen, asked = order[:START], 0.0
    row: Figures = {}
    while True:
        is_judged = len(chosen) in SIZES
        if strategy != RANDOM or is_judged:
            model = make().fit(found.X[chosen], found.y[chosen])
        if is_judged:
            score = model.score(found.X_test, found.y_test)
            row[f"accuracy_{len(chosen)}"] = float(score)
        if len(chosen) == SIZES[-1]:
            return row | {"ask_cpu_seconds": asked, "n_pool": len(order)}
        # A batch may be shorter, so that all sizes are judged.
        next_size = min(n for n in SIZES if n > len(chosen))
        n = min(batch, next_size - len(chosen))
        left = order[~np.isin(order, chosen)]
        further = left[:n]
        if strategy != RANDOM:
            watch = Stopwatch()
            further = left[query(model, found.X[left], n, strategy)]
            asked += watch.read("")["cpu_seconds"]
        chosen = np.concatenate([chosen, further])
