"""How good are fifty photographs of each class, without copies among the test images?

    SKCONVGP_DATA=<folder with cifar10.npz> python -m benchmarks gem

The protocol of data-efficient classification: the first, second and third fifty images
of each class of the training set of CIFAR-10, in its order, are three training sets.
Test images that are nearly a copy of a training image are left out: those whose pixels
have a correlation above .9 with those of any training image of the file. Most of these
are copies of another size, cut or tone, some are two skies. Fits ImageClassifier to
each and judges on the test images that are left: accuracy, log loss, calibration error
and cost, with the mean and the standard error over the sets. Takes half an hour on a
core. Rows that are there are not measured again:

    python -m benchmarks gem --parts 0 --again
"""

from typing import Any

import numpy as np

from benchmarks.data import Array, Samples, images
from benchmarks.measure import Record, measure_images
from benchmarks.report import AGAIN, mean, show
from skconvgp import ImageClassifier

PART, KEYS = "gem", ("fifty", "n_test_asked", "model")
PARTS = {PART: KEYS}
USUAL = {"parts": [0, 1, 2], "n_test": 10_000}
QUICK = {"parts": [0], "n_test": 300}
MODEL = "ImageClassifier"
EACH = 50  # images of a class
NEAR = 0.9  # correlation of copies
BLOCK = 2000
MOST_SECONDS = 7200.0  # of predictions
SHOWN = {
    "error": "error",
    "log_loss": "log loss",
    "calibration_error": "ECE",
    "fit_cpu_seconds": "fit CPU s",
    "predict_cpu_seconds_of_1000": "1000 CPU s",
    "peak_bytes": "peak B",
    "n_copies": "copies",
}


def options(add: Any) -> None:
    add("--parts", nargs="+", type=int, choices=range(3))
    add("--n-test", type=int)
    add("--again", **AGAIN)


def run(options: Any, record: Record) -> None:
    show("", SHOWN.values(), 24, 12)
    whole, is_copy = None, np.empty(0, bool)
    for part in options.parts:
        place = {"fifty": part, "n_test_asked": options.n_test, "model": MODEL}
        if record.missing(PART, **place):
            if whole is None:
                whole = images("cifar10", None, options.n_test)
                is_copy = has_copy(whole.X_test, whole.X)
            some = fifty(whole, part, ~is_copy)
            row = place | measure_images(
                ImageClassifier(random_state=0), some, BLOCK, MOST_SECONDS
            )
            row |= {"n_copies": int(is_copy.sum()), "n_compared": len(whole.X)}
            record.add(PART, row)
    rows = record.rows(PART, n_test_asked=options.n_test, model=MODEL)
    for row in rows:
        show(f"images of part {row['fifty']}", (row[score] for score in SHOWN), 24, 12)
    if len(rows) > 1:
        scores = ("error", "log_loss", "calibration_error")
        show("mean", (mean(rows, score) for score in scores), 24, 12)
        values = np.array([[row[score] for score in scores] for row in rows])
        deviations = values.std(0, ddof=1) / np.sqrt(len(rows))
        show("standard error", deviations.tolist(), 24, 12)


def fifty(whole: Samples, part: int, keeps: Array) -> Samples:
    """Return some fifty training images of each class, and the test images to keep."""
    chosen = [
        np.flatnonzero(whole.y == label)[part * EACH : (part + 1) * EACH]
        for label in np.unique(whole.y)
    ]
    some = np.stack(chosen, 1).ravel()
    X, X_test = (
        np.ascontiguousarray(x, dtype=np.float32)
        for x in (whole.X[some], whole.X_test[keeps])
    )
    return Samples(X, whole.y[some], X_test, whole.y_test[keeps])


def has_copy(X: Array, others: Array, near: float = NEAR) -> Array:
    """Return which images have a correlation above a limit with any other image."""
    rows, other_rows = centred(X), centred(others)
    found = np.zeros(len(rows), bool)
    for start in range(0, len(other_rows), BLOCK):
        found |= (rows @ other_rows[start : start + BLOCK].T).max(1) > near
    return found


def centred(X: Array) -> Array:
    """Return images as rows of mean 0 and length 1; an image of one value is 0."""
    rows = X.reshape(len(X), -1).astype(np.float32)
    rows = rows - rows.mean(1, keepdims=True)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    found: Array = rows / np.where(lengths > 1e-6, lengths, 1.0)
    return found
