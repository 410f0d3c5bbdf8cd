"""What do fits and predictions of ImageClassifier take, by size and number of images?

    python -m benchmarks image_seconds

Images are generated cells, averaged or enlarged to a size, grey or in colour. Each fit
has a process of its own on one thread, which has made a small fit before. It is planned
first. Seconds are of the processor; memory is the peak of the process above its size
before the fit. Then 200 images are predicted at once, and the model is pickled: as it
is, and as `for_prediction` returns it.

Latency is that of a server: a process reads the model of a fit from a file and predicts
one image, a second time and many times more, and a thousand images at once, on one and
on two threads.

It takes half an hour. Rows that are there are not measured again.

    python -m benchmarks image_seconds --fits colour-64-100 --threads
    python -m benchmarks image_seconds --quick
"""

import pickle
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.image_sets import SETS
from benchmarks.measure import Record, apart, forget_peak, size, unwarned
from benchmarks.report import AGAIN, Figures, Target, show
from skconvgp import ImageClassifier

PARTS = {"fits": ("fit",), "latency": ("fit", "n_threads")}
NUMBERS = {  # of images, by colours and side
    ("grey", 28): (100, 500, 2000),
    ("grey", 64): (100, 500),
    ("colour", 32): (100, 500, 2000),
    ("colour", 64): (100, 500),
    ("colour", 96): (100, 500),
    ("colour", 224): (100,),
}
FITS = [
    f"{kind}-{side}-{n}" for (kind, side), numbers in NUMBERS.items() for n in numbers
]
SERVED = ("grey-28-500", "colour-32-500", "colour-64-500", "colour-96-500")
USUAL = {"fits": FITS, "threads": [1, 2]}
QUICK = {"fits": ["grey-28-100"], "threads": [1]}
WARM, N_NEW, N_CALLS, BATCH = 30, 200, 50, 1000
MOST_TIMES, MOST_MEMORY, LEAST_MEMORY = 2.0, 0.2, 2.0**26
TIMES = ("first_ms", "second_ms", "one_ms", "of_batch_ms")
SCORES = ("planned s", "s", "planned MiB", "MiB", "ms an image", "MB", "accuracy")


def options(add: Any) -> None:
    add("--fits", nargs="+", choices=FITS)
    add("--threads", nargs="*", type=int, choices=[1, 2])
    add("--again", **AGAIN)


def run(options: Any, record: Record) -> list[Target]:
    show("fit", SCORES)
    for fit in options.fits:
        if record.missing("fits", fit=fit):
            record.add("fits", {"fit": fit} | apart(measure, fit))
        (row,) = record.rows("fits", fit=fit)
        peak = row["bytes"] and row["bytes"] / 2**20
        cells = row["planned_seconds"], row["seconds"], row["planned_bytes"] / 2**20
        more = row["predict_ms"], row["model_bytes"] / 1e6, row["accuracy"]
        show(fit, (*cells, peak, *more))
    show("latency, ms", ("threads", "first", "second", "one", "of 1000"))
    for fit in (one for one in SERVED if one in options.fits):
        missing = [
            n_threads
            for n_threads in options.threads
            if record.missing("latency", fit=fit, n_threads=n_threads)
        ]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.pickle"
            if missing:
                apart(save, fit, path)
            for n_threads in missing:
                place = {"fit": fit, "n_threads": n_threads}
                record.add("latency", place | apart(serve, path, fit, n_threads))
        for row in record.rows("latency", fit=fit):
            times = [row[name] for name in TIMES]
            show(fit, (row["n_threads"], *times))
    rows = record.figures["fits"]
    ratios = [row["seconds"] / row["planned_seconds"] for row in rows]
    large = [row for row in rows if (row["bytes"] or 0) > LEAST_MEMORY]
    bytes_off = [abs(row["planned_bytes"] / row["bytes"] - 1.0) for row in large]
    off = max(max(ratio, 1.0 / ratio) for ratio in ratios)
    most_off = max(bytes_off, default=0.0)
    return [
        ("largest factor of seconds", off, "at most", MOST_TIMES),
        ("share of bytes that is off", most_off, "at most", MOST_MEMORY),
    ]


def measure(fit: str) -> Figures:
    """Plan a fit and make it; return what was planned, and what all took."""
    torch.set_num_threads(1)
    X, y, X_new, y_new = data(fit)
    gp = ImageClassifier(random_state=0)
    with unwarned():
        ImageClassifier(random_state=0).fit(X[:WARM], y[:WARM])
        plan = gp.plan(X, y)
        before = forget_peak()
        start, cpu_start = time.perf_counter(), time.process_time()
        gp.fit(X, y)
        seconds = time.process_time() - cpu_start
        wall = time.perf_counter() - start
    peak = None if before is None else size("VmHWM") - before
    gp.predict_proba(X_new[:2])
    cpu_start = time.process_time()
    found = gp.predict_proba(X_new)
    predict_ms = 1e3 * (time.process_time() - cpu_start) / len(X_new)
    return {
        "n_samples": len(X),
        "image_shape": list(X.shape[1:]),
        "planned_seconds": plan.seconds,
        "seconds": seconds,
        "wall_seconds": wall,
        "planned_bytes": plan.peak_bytes,
        "bytes": peak,
        "predict_ms": predict_ms,
        "model_bytes": len(pickle.dumps(gp)),
        "small_model_bytes": small_bytes(gp),
        "accuracy": float(np.mean(gp.classes_[found.argmax(1)] == y_new)),
        "part_names": gp.fit_report_.part_names,
        "part_weights": gp.fit_report_.part_weights,
    }


def small_bytes(gp: Any) -> int | None:
    """Return the bytes of a model that only predicts; None if it needs images."""
    try:
        return len(pickle.dumps(gp.for_prediction()))
    except ValueError:
        return None


def save(fit: str, path: Path) -> None:
    """Write a fitted model to a file."""
    torch.set_num_threads(1)
    X, y, *_ = data(fit)
    with unwarned():
        path.write_bytes(pickle.dumps(ImageClassifier(random_state=0).fit(X, y)))


def serve(path: Path, fit: str, n_threads: int) -> Figures:
    """Return the milliseconds of predictions by a model that is read from a file."""
    torch.set_num_threads(n_threads)
    _, _, X, _ = data(fit)
    gp: Any = pickle.loads(path.read_bytes())
    first, second, *others = (
        milliseconds(gp, X[i % len(X)][None]) for i in range(N_CALLS + 2)
    )
    many = np.concatenate([X] * (BATCH // len(X)))
    return {
        "first_ms": first,
        "second_ms": second,
        "one_ms": statistics.median(others),
        "of_batch_ms": milliseconds(gp, many) / len(many),
    }


def milliseconds(gp: Any, X: Any) -> float:
    """Return the time of a prediction on the clock."""
    start = time.perf_counter()
    gp.predict_proba(X)
    return 1e3 * (time.perf_counter() - start)


def data(fit: str) -> tuple[Any, Any, Any, Any]:
    """Return training and new images of a size, with labels."""
    kind, side, n = fit.split("-")
    found = SETS["cells"].make(int(n), N_NEW, 0)
    X, X_new = (sized(X, kind, int(side)) for X in (found.X, found.X_test))
    return X, found.y, X_new, found.y_test


def sized(images: Any, kind: str, side: int) -> Any:
    """Return images (n, c, h, w) of another size, grey or in colour."""
    if kind == "grey":
        images = images.mean(1, keepdims=True)
    whole, how = torch.from_numpy(images), {"mode": "bilinear", "antialias": True}
    return torch.nn.functional.interpolate(whole, (side, side), **how).numpy()
