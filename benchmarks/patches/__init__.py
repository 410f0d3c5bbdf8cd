"""How good are processes on patches, beside what a user would try first?

    SKCONVGP_DATA=<folder with mnist.npz, cifar10.npz> python -m benchmarks patches

Each row fits defaults (or the settings that its name states) to the first n training
images and judges on the official test images, or on 5000 other rectangles: error,
negative log probability of the true class, calibration error, seconds and peak memory.
Each row runs in a process of its own. Rows that are there are not measured again, and
can run alone:

    python -m benchmarks patches --data mnist --sizes 1000 --models patches svc --again

The published rows are those of van der Wilk, Rasmussen and Hensman (2017), section 4,
Table 1 and Figure 3: of all training images, by hours on a GPU.
"""

import resource
import sys
from itertools import product
from typing import Any

import numpy as np
from sklearn.metrics import log_loss

from benchmarks.data import FETCH, Array
from benchmarks.measure import Record, Stopwatch, apart
from benchmarks.patches.models import MODELS, SIZES
from benchmarks.report import AGAIN, Figures, show
from skconvgp import PatchGPClassifier
from skconvgp.datasets import fetch_mnist, make_rectangles
from skconvgp.metrics import expected_calibration_error

PART, KEYS = "patches", ("data", "n_train", "model")
PARTS = {PART: KEYS}
N_RECTANGLES = {"train": 1200, "test": 5000}
# Error in percent and negative log probability, of all training images.
PUBLISHED = {
    "mnist": [
        ("invariant", 2.08, 0.077),
        ("rbf", 1.90, 0.068),
        ("weighted", 1.22, 0.048),
        ("weighted + rbf", 1.17, 0.039),
    ],
    "cifar10": [("weighted, multi-channel", 35.4, None)],
    "rectangles": [
        ("invariant, 16 patches", 1.4, 0.055),
        ("weighted", 0.0, 0.005),
        ("rbf", 5.0, 0.258),
    ],
    "mnist 0-1": [("invariant, 50 patches", 0.3, None)],
}


SHOWN = {
    "error": "error",
    "log_loss": "NLPP",
    "calibration_error": "ECE",
    "fit_seconds": "fit s",
    "predict_seconds": "predict s",
    "peak_memory": "memory B",
}


def options(add: Any) -> None:
    add("--data", nargs="+", choices=SIZES, default=list(SIZES))
    add("--sizes", nargs="+", type=int)
    add("--models", nargs="+", choices=MODELS, default=list(MODELS))
    add("--again", **AGAIN)


def run(options: Any, record: Record) -> None:
    show("", SHOWN.values(), 62)
    for data in options.data:
        for place in product([data], options.sizes or SIZES[data], options.models):
            model = MODELS[place[2]]
            if place[1] > model.most or data not in model.data:
                continue
            wanted = dict(zip(KEYS, place, strict=True))
            if record.missing(PART, **wanted):
                record.add(PART, apart(measure, *place))
            (row,) = record.rows(PART, **wanted)
            name = f"{data} {place[1]}, {place[2]}"
            show(name, (row[score] for score in SHOWN), 62)
        for name, error, loss in PUBLISHED[data]:
            show(f"{data}, published, {name}", (error / 100.0, loss), 62)


def measure(data: str, n_train: int, model: str) -> Figures:
    """Return what a model achieves."""
    X, y = _images(data, "train", n_train)
    X_test, y_test = _images(data, "test", None)
    classifier = MODELS[model].make()
    watch = Stopwatch()
    classifier.fit(X, y)
    fitted, watch = watch.read("fit_"), Stopwatch()
    has_probabilities = hasattr(classifier, "predict_proba")
    ask = classifier.predict_proba if has_probabilities else classifier.predict
    answers = ask(X_test)
    predicted = watch.read("predict_")["predict_seconds"]
    row: Figures = {
        "data": data,
        "n_train": n_train,
        "model": model,
        **fitted,
        "predict_seconds": predicted,
        "peak_memory": _peak_memory(),
    }
    labels = answers.argmax(1) if has_probabilities else answers
    row["error"] = 1.0 - float(np.mean(labels == y_test))
    if not has_probabilities:
        return row | {"log_loss": None, "calibration_error": None}
    row["log_loss"] = float(log_loss(y_test, answers, labels=np.unique(y)))
    row["calibration_error"] = expected_calibration_error(y_test, answers)
    if isinstance(classifier, PatchGPClassifier):
        row["loo_log_loss"] = _loo_log_loss(classifier, y)
    return row


def _loo_log_loss(classifier: Any, y: Array) -> float:
    """Return that of the 2000 training images which a fit keeps.

    They depend on the seed and the number of images alone. `loo_predict_proba` computes
    the predictions of all images, which takes as long as the fit.
    """
    kept, *latents = classifier._left_out(is_subset_enough=True)
    probabilities = classifier._probabilities(*latents)
    return float(log_loss(y[kept], probabilities, labels=classifier.classes_))


def _images(data: str, subset: str, n: int | None) -> tuple[Array, Array]:
    """Return images (n, c, h, w) as float32, and labels."""
    if data == "rectangles":
        seed = list(N_RECTANGLES).index(subset)
        X, y = make_rectangles(n or N_RECTANGLES[subset], random_state=seed)
    elif data == "mnist 0-1":
        X, y = fetch_mnist(subset=subset, return_X_y=True)
        X, y = X[y < 2][:n], y[y < 2][:n]
    else:
        X, y = FETCH[data](subset=subset, n_samples=n, return_X_y=True)
    X = X if X.ndim == 4 else X[:, None]
    return np.ascontiguousarray(X, dtype=np.float32), y


def _peak_memory() -> int:
    """Return the largest resident size in bytes; the data are part of it."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else 1024 * peak)
