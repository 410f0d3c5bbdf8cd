"""Prediction sets: coverage, size and seconds."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.data import Array, Samples
from benchmarks.data import draw as drawn
from benchmarks.measure import Stopwatch
from benchmarks.report import Figures
from skconvgp import ImageClassifier
from skconvgp.questions import prediction_set

KEYS = ("data", "draw", "method")
# Names of sets, training images, and the share of their labels that are changed. Labels
# of test images are changed as well, as the guarantee is for those of one source.
DATA = {
    "digits, 150": ("digits", 150, 0.0),
    "digits, 150, a tenth of the labels wrong": ("digits", 150, 0.1),
    "digits, 400, a tenth of the labels wrong": ("digits", 400, 0.1),
    "mnist, 500": ("mnist", 500, 0.0),
    "cifar10, 500": ("cifar10", 500, 0.0),
}
SPLIT, CROSS = "MAPIE, split", "MAPIE, cross-conformal"
METHODS = ("prediction_set", "prediction_set, by class", SPLIT, CROSS)
NEEDS = {SPLIT: "mapie", CROSS: "mapie"}
LEVELS = (0.9, 0.95)
N_TEST = 1000
HELD = 1 / 3  # of the training images, for split conformal prediction
FOLDS = 5
SHOWN = (
    *("coverage_0.9", "size_0.9", "coverage_0.95", "size_0.95", "least_of_class"),
    *("fit_cpu_seconds", "ask_cpu_seconds_of_1000"),
)


def measure(data: str, draw: int, methods: list[str]) -> Iterator[Figures]:
    """Yield a row for each method."""
    some = _noisy(*DATA[data], draw)
    for method in methods:
        watch = Stopwatch()
        gp = ImageClassifier(image_shape=some.X.shape[1:], random_state=0)
        rows = some.flat()
        if method in NEEDS:
            asked: Any = _peer(method, gp, rows)
        else:
            asked = gp.fit(rows.X, rows.y)
        row = {"method": method, **watch.read("fit_")}
        watch = Stopwatch()
        if method in NEEDS:
            sets = np.moveaxis(asked.predict_set(rows.X_test)[1], -1, 0)
        else:
            by_class = method.endswith("by class")
            sets = [
                prediction_set(asked, rows.X_test, level, by_class=by_class)
                for level in LEVELS
            ]
        seconds = watch.read("ask_")
        yield (
            row
            | judged(sets, rows.y_test)
            | {
                f"{name}_of_1000": 1000.0 * value / len(rows.y_test)
                for name, value in seconds.items()
            }
        )


def _noisy(name: str, n: int, share: float, draw: int) -> Samples:
    """Return samples of a set, of whose labels a share is another one."""
    whole = drawn(name, n, draw)
    rng = np.random.default_rng(draw)
    order = rng.permutation(len(whole.y_test))[:N_TEST]
    k = int(whole.y.max()) + 1

    def changed(y: Array) -> Array:
        other = (y + rng.integers(1, k, len(y))) % k
        return np.where(rng.random(len(y)) < share, other, y)

    X_test, y_test = whole.X_test[order], whole.y_test[order]
    return Samples(whole.X, changed(whole.y), X_test, changed(y_test))


def _peer(method: str, gp: Any, some: Samples) -> Any:
    """Return a fitted wrapper of MAPIE around a classifier."""
    from mapie.classification import CrossConformalClassifier, SplitConformalClassifier

    if method == CROSS:
        cross = CrossConformalClassifier(gp, list(LEVELS), cv=FOLDS, random_state=0)
        return cross.fit_conformalize(some.X, some.y)
    held = np.random.default_rng(0).random(len(some.y)) < HELD
    split = SplitConformalClassifier(gp, list(LEVELS), prefit=False, random_state=0)
    split.fit(some.X[~held], some.y[~held])
    return split.conformalize(some.X[held], some.y[held])


def judged(sets: Any, y: Array) -> Figures:
    """Return coverage and mean size at each level, and the least of a class."""
    found: Figures = {"n_test": len(y)}
    for level, chosen in zip(LEVELS, sets, strict=True):
        inside = chosen[np.arange(len(y)), y]
        found[f"coverage_{level:g}"] = float(inside.mean())
        found[f"size_{level:g}"] = float(chosen.sum(1).mean())
    found["least_of_class"] = min(
        float(inside[y == label].mean()) for label in np.unique(y)
    )
    return found
