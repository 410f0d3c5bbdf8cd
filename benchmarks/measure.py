"""Rows of results, time, memory, scores, and the machine that they are measured on."""

import base64
import ctypes
import gc
import math
import multiprocessing
import os
import pickle
import platform
import re
import time
import warnings
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss
from sklearn.utils.validation import has_fit_parameter

import skconvgp
from benchmarks.peers.pipe import Stopwatch
from benchmarks.report import Figures, dated, find, put, read, select, write
from skconvgp.metrics import (
    expected_calibration_error,
    interval_coverage,
    negative_log_predictive_density,
)

__all__ = ["Stopwatch"]

STATUS = Path("/proc/self/status")
LEVEL = 0.95  # of intervals


class Record:
    """The figures of a question, which are written after each row.

    Its lists of rows are named with the keys that tell their rows apart. A list without
    keys is begun anew.
    """

    def __init__(self, options: Namespace, parts: dict[str, tuple[str, ...]]) -> None:
        self._options, self._parts = options, parts
        self.left_out: list[str] = []
        self._name = ""
        self.begin()
        merged = getattr(options, "merge", None) or []
        for path in merged:
            other = read(path)
            for part, keys in parts.items():
                for row in other.get(part, []):
                    put(self.figures[part], row, *keys)
        if merged:
            self.write()

    def begin(self, name: str = "") -> None:
        """Go on from the file, or from what it has under a name, as of a machine."""
        whole, self._name = read(self._options.output), name
        old = whole.get(name, {}) if name else whole
        self.figures = old | {
            part: old.get(part, []) if keys else []
            for part, keys in self._parts.items()
        }
        self.figures["versions"] = versions()
        if not name:
            self.figures["machine"] = machine()

    def rows(self, part: str, **wanted: Any) -> list[Figures]:
        """Return the rows that have these settings."""
        return select(self.figures[part], **wanted)

    def missing(self, part: str, **place: Any) -> bool:
        """Whether a row is still to be measured."""
        is_asked = getattr(self._options, "again", False)
        return is_asked or find(self.figures[part], **place) is None

    def add(self, part: str, row: Figures) -> Figures:
        """Add a row in the place of one that it repeats, write the file, return it."""
        put(self.figures[part], dated(row), *self._parts[part])
        self.write()
        return row

    def write(self, **facts: Any) -> None:
        """Write the file, with more than rows if there is more."""
        self.figures |= facts
        path, whole = self._options.output, self.figures
        if self._name:
            whole = read(path) | {self._name: self.figures}
        write(path, whole)

    def leave_out(self, what: str, reason: object) -> None:
        """Say why there is no figure."""
        print(f"{what} is left out: {reason}", flush=True)
        self.left_out.append(what)


def machine() -> Figures:
    """Return the processor's name and how many cores may be used."""
    found = {"processor": platform.processor(), "cores": n_cores()}
    table = Path("/proc/cpuinfo")
    lines = table.read_text().splitlines() if table.exists() else []
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            found["processor"] = value.strip()
    return found | {"system": f"{platform.system()} {platform.machine()}"}


def n_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def versions() -> dict[str, str]:
    """Return the versions that our figures may depend on."""
    return {
        "python": platform.python_version(),
        "skconvgp": skconvgp.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
    }


def ran_on(device: str) -> Figures:
    """Return the names of the processor and of the card, for a row."""
    is_card = device != "cpu" and torch.cuda.is_available()
    card = torch.cuda.get_device_name() if is_card else None
    return {"processor": machine()["processor"], "card": card}


def runs_of(call: Callable[[], object], repeat: int) -> list[float]:
    """Return the seconds of the processor that each of some calls takes."""
    seconds = []
    for _ in range(repeat):
        start = time.process_time()
        call()
        seconds.append(time.process_time() - start)
    return seconds


def apart(call: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function returns in a fresh process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(call, arguments)


def size(name: str) -> int:
    """Return one of the sizes that the system tells about this process, bytes."""
    found = re.search(name + r":\s+(\d+)", STATUS.read_text())
    assert found
    return int(found[1]) * 1024


def forget_peak() -> int | None:
    """Forget the peak size so far; return the size now, None where it is not told."""
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    except (AttributeError, OSError):
        return None
    return size("VmRSS")


@contextmanager
def unwarned() -> Iterator[None]:
    """Fit without warnings of what has not converged."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def number(value: float) -> float | None:
    """Return a number, None where it is not one: the file is plain JSON."""
    return None if math.isnan(value) else float(value)


def difference(K: Any, exact: Any) -> float:
    """Return the largest error relative to sqrt(K_ii K_jj)."""
    scale = np.sqrt(np.diag(exact))
    return float(np.max(np.abs(K - exact) / np.outer(scale, scale)))


def judge(y: Any, probabilities: Any) -> Figures:
    """Return the scores of probabilities; classes are numbered from 0."""
    right = probabilities.argmax(1) == y
    is_binary = probabilities.shape[1] == 2
    labels = None if is_binary else np.arange(probabilities.shape[1])
    shown = probabilities[:, 1] if is_binary else probabilities
    return {
        "error": float(1.0 - right.mean()),
        "log_loss": float(log_loss(y, probabilities)),
        "calibration_error": float(expected_calibration_error(y, probabilities)),
        "brier": float(brier_score_loss(y, shown, labels=labels)),
        "n_test": len(y),
    }


def judge_numbers(y: Any, mean: Any, std: Any) -> Figures:
    """Return the scores of means and deviations, in the units of y."""
    return {
        "rmse": float(np.sqrt(np.mean((y - mean) ** 2))),
        "nlpd": float(negative_log_predictive_density(y, mean, std)),
        "coverage": float(interval_coverage(y, mean, std, level=LEVEL)),
        "n_test": len(y),
    }


def accuracies(probabilities: dict[str, Any], classes: Any, split: Any) -> Figures:
    """Return accuracies, and the log loss of the test images."""
    accuracy = {
        f"{name}_accuracy": accuracy_score(
            getattr(split, name).y, classes[values.argmax(axis=1)]
        )
        for name, values in probabilities.items()
    }
    loss = log_loss(split.test.y, probabilities["test"], labels=classes)
    return accuracy | {"test_log_loss": float(loss)}


class _Counter:
    """A file that only counts the bytes that are written to it."""

    n_bytes = 0

    def write(self, data: Any) -> None:
        """Count some bytes."""
        self.n_bytes += memoryview(data).nbytes


def pickled_bytes(model: Any) -> int:
    """Return the size of a model in a file, without a copy of it in memory."""
    counter = _Counter()
    pickle.dump(model, counter, pickle.HIGHEST_PROTOCOL)
    return counter.n_bytes


def packed(is_right: Any) -> str:
    """Return truth values as text, for a row; `unpacked` reads it."""
    return base64.b64encode(np.packbits(is_right).tobytes()).decode()


def unpacked(text: str, n: int) -> Any:
    """Return the first n truth values of a text."""
    return np.unpackbits(np.frombuffer(base64.b64decode(text), np.uint8))[:n] > 0


def measure_images(
    classifier: Any, images: Any, n_first: int, most: float, *, keeps: bool = False
) -> Figures:
    """Fit and predict; return scores, seconds, bytes and the processor.

    The first test images are judged apart from the others, which are predicted if that
    takes at most so many seconds. A file may have rows of several machines. Peak memory
    is what fit and prediction of the first images take beside the images. A row keeps
    which test images are right if that is asked for.
    """
    groups = {}
    if images.groups is not None and has_fit_parameter(classifier, "groups"):
        groups = {"groups": images.groups}
    before = forget_peak()
    watch = Stopwatch()
    classifier.fit(images.X, images.y, **groups)
    fitted = watch.read("fit_")
    watch, n = Stopwatch(), min(n_first, len(images.y_test))
    parts = [classifier.predict_proba(images.X_test[:n])]
    predicted = watch.read("predict_")
    peak = None if before is None else size("VmHWM") - before
    n_left = len(images.y_test) - n
    if n_left and predicted["predict_seconds"] * n_left / n <= most:
        parts.append(classifier.predict_proba(images.X_test[n:]))
    probabilities = np.concatenate(parts)
    row = judge(images.y_test[: len(probabilities)], probabilities)
    if keeps:
        right = probabilities.argmax(1) == images.y_test[: len(probabilities)]
        row["right"] = packed(right)
    row |= {"peak_bytes": peak, "model_bytes": pickled_bytes(classifier)}
    row["has_groups"] = bool(groups)
    row["standard_error"] = math.sqrt(row["error"] * (1 - row["error"]) / row["n_test"])
    if len(parts) > 1:
        row["first"] = judge(images.y_test[:n], parts[0])
        row["error_of_others"] = judge(images.y_test[n:], parts[1])["error"]
    row |= fitted
    row |= {f"{name}_of_1000": 1000 * each / n for name, each in predicted.items()}
    place = {"processor": machine()["processor"]}
    return row | place | {"n_threads": torch.get_num_threads()}
