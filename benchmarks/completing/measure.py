"""One strategy on the images of a setting: cost, error and accuracy."""

import math
import warnings
from typing import Any

from peers.pipe import Stopwatch
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, log_loss

from completing.images import Split
from completing.source import Figures

WARM = 64  # images


def start_up(gp: Any, split: Split) -> None:
    """Load libraries and start threads, before any clock."""
    few = split.train.first(WARM)
    gp.fit(few.X, few.y).predict_proba(few.X)


def measure(gp: Any, split: Split) -> Figures:
    """Fit and predict, through the kernel: all seconds are those of a user."""
    watch = Stopwatch()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        gp.fit(split.train.X, split.train.y)
    fit = watch.read()
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
        "fit_seconds": fit["seconds"],
        "fit_cpu_seconds": fit["cpu_seconds"],
        "predict_seconds": watch.read()["seconds"],
        "relative_rmse": number(report.relative_rmse),
        "noise_variance": float(gp.noise_variance_),
        "converged": not any(w.category is ConvergenceWarning for w in caught),
        "peak_memory": report.peak_memory,
    }
    return row | judge(probabilities, gp.classes_, split)


def judge(probabilities: dict[str, Any], classes: Any, split: Split) -> Figures:
    """Return accuracies, and the log loss of the test images."""
    accuracy = {
        f"{name}_accuracy": accuracy_score(
            getattr(split, name).y, classes[values.argmax(axis=1)]
        )
        for name, values in probabilities.items()
    }
    loss = log_loss(split.test.y, probabilities["test"], labels=classes)
    return accuracy | {"test_log_loss": float(loss)}


def number(value: float) -> float | None:
    """Return a number, None where it is not one: the file is plain JSON."""
    return None if math.isnan(value) else float(value)
