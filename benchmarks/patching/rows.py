"""Rows of the benchmark: each is measured in a process of its own."""

import multiprocessing
import resource
import sys
import time
from typing import Any

import numpy as np
from calibrating.source import Figures
from numpy.typing import NDArray
from sklearn.metrics import log_loss

from patching.models import MODELS
from skconvgp import PatchGPClassifier
from skconvgp.datasets import fetch_cifar10, fetch_mnist, make_rectangles
from skconvgp.metrics import expected_calibration_error

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


def measure(data: str, n_train: int, model: str) -> Figures:
    """Return what a model achieves, from a fresh process."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(_measure, (data, n_train, model))


def _measure(data: str, n_train: int, model: str) -> Figures:
    X, y = _images(data, "train", n_train)
    X_test, y_test = _images(data, "test", None)
    classifier = MODELS[model].make()
    start, worked = time.perf_counter(), time.process_time()
    classifier.fit(X, y)
    fitted, worked = time.perf_counter(), time.process_time() - worked
    has_probabilities = hasattr(classifier, "predict_proba")
    ask = classifier.predict_proba if has_probabilities else classifier.predict
    answers = ask(X_test)
    done = time.perf_counter()
    row: Figures = {
        "data": data,
        "n_train": n_train,
        "model": model,
        "fit_seconds": fitted - start,
        "fit_cpu_seconds": worked,
        "predict_seconds": done - fitted,
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


def _loo_log_loss(classifier: Any, y: NDArray[Any]) -> float:
    """Return that of the 2000 training images which a fit keeps.

    They depend on the seed and the number of images alone. `loo_predict_proba` computes
    the predictions of all images, which takes as long as the fit.
    """
    kept, *latents = classifier._left_out(is_subset_enough=True)
    probabilities = classifier._probabilities(*latents)
    return float(log_loss(y[kept], probabilities, labels=classifier.classes_))


def _images(data: str, subset: str, n: int | None) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return images (n, c, h, w) as float32, and labels."""
    if data == "rectangles":
        seed = list(N_RECTANGLES).index(subset)
        X, y = make_rectangles(n or N_RECTANGLES[subset], random_state=seed)
    elif data == "mnist 0-1":
        X, y = fetch_mnist(subset=subset, return_X_y=True)
        X, y = X[y < 2][:n], y[y < 2][:n]
    else:
        fetch = {"mnist": fetch_mnist, "cifar10": fetch_cifar10}[data]
        X, y = fetch(subset=subset, n_samples=n, return_X_y=True)
    X = X if X.ndim == 4 else X[:, None]
    return np.ascontiguousarray(X, dtype=np.float32), y


def _peak_memory() -> int:
    """Return the largest resident size in bytes; the data are part of it."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else 1024 * peak)
