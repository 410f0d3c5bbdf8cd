"""What the figures say: a table for each set, and whether the aims are reached."""

import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np
from peers.report import Target
from sklearn.metrics import brier_score_loss, log_loss

from calibrating.others import OTHERS
from calibrating.ours import DEFAULT
from calibrating.source import REPORTED, Figures
from calibrating.tasks import TABLES
from skconvgp.metrics import expected_calibration_error

KEYS = ("task", "split", "method")
JUDGED = ("mnist 5000", *TABLES)
LARGEST_ERROR = 0.02  # of calibration
MOST_BEST = 3  # of the sets that are judged
SCORES = ("error", "log_loss", "calibration_error")


def read(path: Path | None, part: str) -> Figures:
    """Return the figures so far, of one part at least."""
    empty: Figures = {part: []}
    return empty | (json.loads(path.read_text()) if path and path.exists() else {})


def judge(y: Any, probabilities: Any) -> Figures:
    """Return the scores of probabilities; classes are numbered from 0."""
    right = probabilities.argmax(1) == y
    return {
        "error": float(1.0 - right.mean()),
        "log_loss": float(log_loss(y, probabilities)),
        "calibration_error": float(expected_calibration_error(y, probabilities)),
        "brier": float(
            brier_score_loss(y, probabilities, labels=np.arange(probabilities.shape[1]))
            if probabilities.shape[1] > 2
            else brier_score_loss(y, probabilities[:, 1])
        ),
        "n_test": len(y),
    }


def mean(rows: list[Figures], method: str, score: str) -> float:
    """Return the mean of a score over the splits."""
    values = [row[score] for row in rows if row["method"] == method]
    return statistics.fmean(values) if values else float("nan")


def print_task(rows: list[Figures], task: str) -> None:
    """Print means over the splits, with what was reported below."""
    own = [row for row in rows if row["task"] == task]
    n_splits = len({row["split"] for row in own})
    print(f"\n{task}: means over {n_splits} split{'s' if n_splits > 1 else ''}")
    print(f"{'':<42}{'error':>9}{'log loss':>10}{'ECE':>9}{'seconds':>10}")
    for method in dict.fromkeys(row["method"] for row in own):
        error, loss, calibration = (mean(own, method, score) for score in SCORES)
        seconds = mean(own, method, "fit_seconds")
        print(
            f"{method:<42}{error:>9.4f}{loss:>10.4f}{calibration:>9.4f}{seconds:>10.1f}"
        )
    for name, figures in REPORTED.get(task, {}).items():
        told = "".join(
            f"{value:>{width}}"
            for value, width in zip(figures, (9, 10, 9), strict=False)
        )
        print(f"{name:<42}{told}")


def targets(rows: list[Figures]) -> list[Target]:
    """Return what is required of the default and what was measured, of sets it has.

    Peers are judged on the splits of the default, and only if they have all of them.
    """
    found: list[Target] = []
    n_best = n_judged = 0
    for task in JUDGED:
        own = [row for row in rows if row["task"] == task]
        splits = splits_of(own, DEFAULT)
        peers = [name for name in OTHERS if splits and splits_of(own, name) >= splits]
        if not peers:
            continue
        n_judged += 1
        own = [row for row in own if row["split"] in splits]
        best = min(mean(own, name, "log_loss") for name in peers)
        n_best += mean(own, DEFAULT, "log_loss") < best
        error = mean(own, DEFAULT, "calibration_error")
        found.append((f"{task}: calibration error", error, "at most", LARGEST_ERROR))
    if n_judged == len(JUDGED):
        found.append(("sets with the least log loss", n_best, "at least", MOST_BEST))
    return found


def splits_of(rows: list[Figures], method: str) -> set[int]:
    """Return the splits that a method has been measured on."""
    return {row["split"] for row in rows if row["method"] == method}
