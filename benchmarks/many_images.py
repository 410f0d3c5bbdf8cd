"""Does a classifier of images gain from more of them, and what do they cost?

    SKCONVGP_DATA=<folder with mnist.npz, cifar10.npz> python -m benchmarks many_images

Fits ImageClassifier, PatchGPClassifier and a network on scattering coefficients to 5000
to 60 000 images of MNIST, of CIFAR-10 and of generated sounds, as far as the files
reach, and judges on the same 10 000 test images: accuracy, log loss, seconds of the fit
and of 1000 predictions, peak memory beside the images, and the bytes of the model in a
file. More images contain the fewer, so that two sizes differ by test images that one of
them has right and the other has not: the worst fall of ImageClassifier from one size to
the next, in standard errors of that difference, is required to be small. Rows tell by
`right` which test images are right. Rows that are there are not measured again. Whole,
it takes a day on a core; rows can run alone:

    python -m benchmarks many_images --data mnist --sizes 5000 60000
    python -m benchmarks many_images --quick
"""

import math
from collections.abc import Callable
from itertools import pairwise, product
from typing import Any

import numpy as np

from benchmarks.image_sets import SETS
from benchmarks.measure import Record, measure_images, unpacked
from benchmarks.models import scattering_network
from benchmarks.report import AGAIN, Figures, Target, select, show
from skconvgp import ImageClassifier, PatchGPClassifier

PART, KEYS = "many_images", ("data", "n_train", "draw", "model")
PARTS = {PART: KEYS}
OURS = "ImageClassifier"
MODELS: dict[str, Callable[[], Any]] = {
    OURS: lambda: ImageClassifier(random_state=0),
    "PatchGPClassifier": lambda: PatchGPClassifier(random_state=0),
    "scattering, network": scattering_network,
}
# Its matrix of all pairs of images has 3 GB of 20 000.
LARGEST = {"scattering, network": 20_000}
USUAL = {
    "data": ["mnist", "cifar10", "sounds"],
    "sizes": [5000, 10_000, 20_000, 50_000, 60_000],
    "draws": [0],
    "n_test": 10_000,
    "models": list(MODELS),
}
QUICK = USUAL | {"data": ["mnist", "sounds"], "sizes": [250, 500], "n_test": 1000}
MOST_SECONDS = 7200.0  # of predictions
MOST_ERRORS = 2.0  # standard errors
SHOWN = {
    "error": "error",
    "log_loss": "log loss",
    "fit_seconds": "fit s",
    "fit_cpu_seconds": "fit CPU s",
    "predict_cpu_seconds_of_1000": "1000 CPU s",
    "peak_bytes": "peak B",
    "model_bytes": "model B",
}


def options(add: Any) -> None:
    add("--data", nargs="+", choices=SETS)
    add("--sizes", nargs="+", type=int)
    add("--draws", nargs="+", type=int)
    add("--n-test", type=int)
    add("--models", nargs="+", choices=MODELS)
    add("--again", **AGAIN)


def run(options: Any, record: Record) -> list[Target]:
    show("", SHOWN.values(), 48, 12)
    for data, n_train, draw in product(options.data, options.sizes, options.draws):
        if n_train <= SETS[data].largest:
            measure_models(record, (data, n_train, draw), options)
    return targets(record.rows(PART))


def measure_models(record: Record, drawn: tuple[str, int, int], options: Any) -> None:
    """Measure the models that a draw has no rows of."""
    images = None
    for model in options.models:
        place = dict(zip(KEYS, (*drawn, model), strict=True))
        name = f"{' '.join(map(str, drawn))}, {model}"
        if drawn[1] > LARGEST.get(model, drawn[1]) or not record.missing(PART, **place):
            continue
        data, n_train, draw = drawn
        images = images or SETS[data].make(n_train, options.n_test, draw)
        if len(images.y) < n_train:
            record.leave_out(name, f"the file has only {len(images.y)} images")
            continue
        n_first = min(1000, options.n_test)
        found = measure_images(
            MODELS[model](), images, n_first, MOST_SECONDS, keeps=True
        )
        row = record.add(PART, place | found)
        show(name, (row[score] for score in SHOWN), 48, 12)


def targets(rows: list[Figures]) -> list[Target]:
    """Return the worst fall of ImageClassifier from one size to the next, by set."""
    found: list[Target] = []
    for data in dict.fromkeys(row["data"] for row in rows):
        own = select(rows, data=data, model=OURS)
        worst = worst_fall(own) if own else math.nan
        if not math.isnan(worst):
            name = f"{data}: worst fall, standard errors"
            found.append((name, worst, "at most", MOST_ERRORS))
    return found


def worst_fall(rows: list[Figures]) -> float:
    """Return the largest fall in accuracy from one size to the next.

    In standard errors of the mean over test images of the differences between the
    larger and the smaller size, each the mean over draws that have both. Negative where
    each size gains; NaN of a single size.
    """
    n_test = min(row["n_test"] for row in rows)
    sizes = {
        row["n_train"]: right_by_draw(select(rows, n_train=row["n_train"]), n_test)
        for row in rows
    }
    falls = [math.nan]
    for fewer, more in pairwise(sorted(sizes)):
        draws = sizes[fewer].keys() & sizes[more].keys()
        if draws:
            pairs = [sizes[fewer][draw] - sizes[more][draw] for draw in draws]
            falls.append(in_standard_errors(np.mean(pairs, axis=0)))
    return float(np.nanmax(falls)) if len(falls) > 1 else math.nan


def right_by_draw(rows: list[Figures], n_test: int) -> dict[int, Any]:
    """Return 1 for each first test image that is right, and 0 for others, by draw."""
    return {row["draw"]: unpacked(row["right"], n_test).astype(float) for row in rows}


def in_standard_errors(differences: Any) -> float:
    """Return the mean of numbers in units of its standard error, 0 if all are 0."""
    error = differences.std(ddof=1) / math.sqrt(len(differences))
    return float(differences.mean() / error) if error else 0.0
