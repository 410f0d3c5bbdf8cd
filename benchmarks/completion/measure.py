"""One strategy on the images of a setting: cost, error and accuracy."""

import warnings
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from benchmarks.data import Validated
from benchmarks.measure import Stopwatch, accuracies, number
from benchmarks.report import Figures

WARM = 64  # images


def start_up(gp: Any, split: Validated) -> None:
    """Load libraries and start threads, before any clock."""
    few = split.train.first(WARM)
    gp.fit(few.X, few.y).predict_proba(few.X)


def measure(gp: Any, split: Validated) -> Figures:
    """Fit and predict, through the kernel: all seconds are those of a user."""
    watch = Stopwatch()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        gp.fit(split.train.X, split.train.y)
    fitted = watch.read("fit_")
    report = gp.fit_report_
    n_pairs = len(split.train.y) * (len(split.train.y) + 1) // 2
    watch = Stopwatch()
    probabilities = split.both(gp.predict_proba)
    row = {
        "estimator": repr(gp),
        "entries": report.n_pairs,
        "share": report.n_pairs / n_pairs,
        "gram_seconds": report.gram_seconds,
        "solve_seconds": report.solve_seconds,
        **fitted,
        "predict_seconds": watch.read()["seconds"],
        "relative_rmse": number(report.relative_rmse),
        "noise_variance": float(gp.noise_variance_),
        "converged": not any(w.category is ConvergenceWarning for w in caught),
        "peak_memory": report.peak_memory,
    }
    return row | accuracies(probabilities, gp.classes_, split)
