"""Rows of the benchmark: a model on a draw, its scores and its seconds."""

import math
import time
from typing import Any

import numpy as np
import torch
from calibrating.report import judge
from calibrating.source import Figures
from peers.machine import machine
from peers.report import find

from few_images.draws import PHOTOGRAPHS, Split
from few_images.models import MODELS, OURS, TRAINED
from few_images.network import TimedCNN

FIRST = 2000  # test images that settings were chosen with; the others are judged apart
Seconds = tuple[float, float]


def make(rows: list[Figures], place: Figures, model: str) -> Any:
    """Return a model that is not fitted; None if the time to train it is not known."""
    if model in MODELS:
        return MODELS[model]()
    ours = find(rows, **place, model=OURS)
    if ours is None:
        return None
    return TimedCNN(
        TRAINED[model] * ours["fit_cpu_seconds"], flips=place["data"] in PHOTOGRAPHS
    )


def measure(classifier: Any, images: Split, most_seconds: float) -> Figures:
    """Return scores and seconds; all test images, if they take at most so long.

    Names the processor, as a file may have rows of several machines.
    """
    start = _now()
    classifier.fit(images.X, images.y)
    fitted = _since(start)
    start, n = _now(), min(FIRST, len(images.y_test))
    parts = [classifier.predict_proba(images.X_test[:n])]
    predicted = _since(start)
    n_left = len(images.y_test) - n
    if n_left and predicted[0] * n_left / n <= most_seconds:
        parts.append(classifier.predict_proba(images.X_test[n:]))
    probabilities = np.concatenate(parts)
    row = judge(images.y_test[: len(probabilities)], probabilities)
    row["standard_error"] = math.sqrt(row["error"] * (1 - row["error"]) / row["n_test"])
    if len(parts) > 1:
        row["first"] = judge(images.y_test[:n], parts[0])
        row["error_of_others"] = judge(images.y_test[n:], parts[1])["error"]
    names = ("fit_seconds", "fit_cpu_seconds")
    row |= zip(names, fitted, strict=True)
    of_1000 = ("predict_seconds_of_1000", "predict_cpu_seconds_of_1000")
    row |= zip(of_1000, (1000 * each / n for each in predicted), strict=True)
    if isinstance(classifier, TimedCNN):
        row["n_epochs"] = round(classifier.n_epochs, 1)
    place = {"processor": machine()["processor"]}
    return row | place | {"n_threads": torch.get_num_threads()}


def _now() -> Seconds:
    return time.perf_counter(), time.process_time()


def _since(start: Seconds) -> Seconds:
    wall, worked = _now()
    return wall - start[0], worked - start[1]
