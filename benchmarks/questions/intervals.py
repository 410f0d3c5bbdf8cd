"""Prediction intervals: coverage, width and seconds."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.data import Samples, numbers
from benchmarks.measure import Stopwatch
from benchmarks.report import Figures
from skconvgp import ConvNetGPRegressor
from skconvgp.kernels import rbf
from skconvgp.questions import prediction_interval

KEYS = ("data", "draw", "method")
# Tables of UCI, and training samples; features are scaled.
DATA = {
    f"{name}, {n}": (name, n)
    for name in ("boston", "concrete", "energy", "wine_red")
    for n in (100, 300)
}
SPLIT, CROSS, PLUS = "MAPIE, split", "MAPIE, CV+", "MAPIE, jackknife+"
METHODS = (
    *("prediction_interval", "prediction_interval, no prior mean", "predict_interval"),
    *(SPLIT, CROSS, PLUS),
)
NEEDS = {SPLIT: "mapie", CROSS: "mapie", PLUS: "mapie"}
LEVELS = (0.9, 0.95)
HELD, FOLDS = 1 / 3, 5
ALL = -1  # folds, of the jackknife
SHOWN = (
    *("coverage_0.9", "width_0.9", "coverage_0.95", "width_0.95"),
    *("fit_cpu_seconds", "ask_cpu_seconds"),
)


def measure(data: str, draw: int, methods: list[str]) -> Iterator[Figures]:
    """Yield a row for each method."""
    some = _few(*DATA[data], draw)
    for method in methods:
        watch = Stopwatch()
        has_mean = not method.endswith("no prior mean")
        gp = ConvNetGPRegressor(rbf(), normalize_y=has_mean)
        asked: Any = (
            _peer(method, gp, some) if method in NEEDS else gp.fit(some.X, some.y)
        )
        row = {"method": method, **watch.read("fit_")}
        watch = Stopwatch()
        ends = _ends(method, asked, some.X_test)
        row |= watch.read("ask_") | {"n_test": len(some.y_test)}
        for level, (lower, upper) in zip(LEVELS, ends, strict=True):
            inside = (lower <= some.y_test) & (some.y_test <= upper)
            row[f"coverage_{level:g}"] = float(inside.mean())
            widths = (upper - lower) / some.y_test.std()
            row[f"width_{level:g}"] = float(np.median(widths))
        yield row


def _few(name: str, n: int, draw: int) -> Samples:
    """Return some samples of a table, and all others for tests."""
    whole = numbers(name, draw)
    X, y = np.concatenate([whole.X, whole.X_test]), np.append(whole.y, whole.y_test)
    order = np.random.default_rng(draw).permutation(len(y))
    some, other = order[:n], order[n:]
    return Samples(X[some], y[some], X[other], y[other])


def _ends(method: str, asked: Any, X: Any) -> Any:
    """Return the lower and upper ends at each level."""
    if method in NEEDS:
        return asked.predict_interval(X)[1].transpose(2, 1, 0)
    if method == "predict_interval":
        return [asked.predict_interval(X, level).T for level in LEVELS]
    return [prediction_interval(asked, X, level).T for level in LEVELS]


def _peer(method: str, gp: Any, some: Samples) -> Any:
    """Return a fitted wrapper of MAPIE around a regressor."""
    from mapie.regression import CrossConformalRegressor, SplitConformalRegressor

    if method == SPLIT:
        held = np.random.default_rng(0).random(len(some.y)) < HELD
        split = SplitConformalRegressor(gp, list(LEVELS), prefit=False)
        split.fit(some.X[~held], some.y[~held])
        return split.conformalize(some.X[held], some.y[held])
    folds = ALL if method == PLUS else FOLDS
    cross = CrossConformalRegressor(gp, list(LEVELS), cv=folds, random_state=0)
    return cross.fit_conformalize(some.X, some.y)
