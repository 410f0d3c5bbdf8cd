"""Which classifier for a few hundred or thousand images, and what does it cost?

    SKCONVGP_DATA=<folder with mnist.npz, cifar10.npz> python -m benchmarks small_data

Fits each model to three draws of 500 images with equally many of each class, of each
set of `benchmarks.image_sets`, and judges on test images: error, log loss, calibration
error, seconds of the fit and of 1000 predictions, by the clock and of the processor,
peak memory beside the images, and the bytes of the model in a file. 2000 images are
generated for tests. All 10 000 test images of MNIST and CIFAR-10 are predicted if that
takes at most half an hour, otherwise the first 2000; these, and those from 2000 on,
which no setting was chosen with, are judged apart, too.

Small networks are trained for the processor seconds of the fit of ImageClassifier, and
for ten times as long: a row of ImageClassifier comes first. Boosting is left out where
an image has more than 3072 numbers; histograms of gradients, and the set "pictures",
where scikit-image is not installed. Rows that are there are not measured again. At the
end stand differences between two models, in pairs over the draws. Whole, it takes days
on a core; rows can run alone:

    python -m benchmarks small_data --sizes 100 500 1000 2000 5000
    python -m benchmarks small_data --data cifar10 --models SVC --draws 0 --again
    python -m benchmarks small_data --quick --compare ImageClassifier SVC
"""

from itertools import product
from typing import Any

from benchmarks.data import DRAWS
from benchmarks.image_sets import SETS
from benchmarks.measure import Record, measure_images
from benchmarks.report import AGAIN, Figures, Target, show
from benchmarks.small_data import paired
from benchmarks.small_data.models import (
    BOOSTING,
    MEASURED,
    MODELS,
    MOST_NUMBERS,
    OURS,
    TRAINED,
)
from benchmarks.small_data.timed import TimedCNN

PART, KEYS = "few_images", ("data", "n_train", "draw", "model")
PARTS = {PART: KEYS}
NAMES = (*MODELS, *TRAINED)
USUAL = {
    "data": list(SETS),
    "sizes": [500],
    "draws": list(DRAWS),
    "models": [name for name in MEASURED if name in NAMES],
}
QUICK = {
    "data": ["digits", "sounds", "left and right"],
    "sizes": [100],
    "draws": [0, 1],
    "models": ["SVC", "scattering, network", OURS],
}
ALL = {"digits", "mnist", "cifar10"}  # sets of which all test images are taken
# Sets whose mirror images have the same labels.
MIRRORED = ["cifar10", "textures", "cells", "defects", "shapes", "heights", "pictures"]
MIRRORED += ["mirrored", "leaves"]
FIRST = 2000  # test images that settings were chosen with; the others are judged apart
HALF_AN_HOUR = 1800.0
MOST_LOST = 1  # sets of a size that another model may win
SHOWN = {
    "error": "error",
    "log_loss": "log loss",
    "calibration_error": "ECE",
    "fit_cpu_seconds": "fit CPU s",
    "predict_cpu_seconds_of_1000": "1000 CPU s",
    "peak_bytes": "peak B",
    "model_bytes": "model B",
}


def options(add: Any) -> None:
    add("--data", nargs="+", choices=SETS)
    add("--sizes", nargs="+", type=int)
    add("--draws", nargs="+", type=int)
    add("--models", nargs="+", choices=NAMES)
    add("--most-seconds", type=float, default=HALF_AN_HOUR)
    pair = [OURS, "scattering, network"]
    add("--compare", nargs=2, choices=NAMES, default=pair, metavar="MODEL")
    add("--again", **AGAIN)


def run(options: Any, record: Record) -> list[Target]:
    show("", SHOWN.values(), 52, 12)
    for data in options.data:
        sizes = [n for n in sorted(set(options.sizes)) if n <= SETS[data].largest]
        for place in product([data], sizes, options.draws):
            measure_models(record, place, options)
    show_paired(record.rows(PART), *options.compare)
    return targets(record.rows(PART))


def measure_models(record: Record, drawn: tuple[str, int, int], options: Any) -> None:
    """Measure the models that a draw has no rows of."""
    images = None
    for model in options.models:
        place = dict(zip(KEYS, (*drawn, model), strict=True))
        if not record.missing(PART, **place):
            continue
        name = f"{' '.join(map(str, drawn))}, {model}"
        classifier = make(record, place)
        if classifier is None:
            record.leave_out(name, "it needs the row of ImageClassifier")
            continue
        images = images or draw_images(*drawn)
        if len(images.y) < drawn[1]:
            record.leave_out(name, f"the file has only {len(images.y)} images")
            continue
        if model == BOOSTING and images.X[0].size > MOST_NUMBERS:
            continue
        row = place | measure_images(classifier, images, FIRST, options.most_seconds)
        if isinstance(classifier, TimedCNN):
            row["n_epochs"] = round(classifier.n_epochs, 1)
        record.add(PART, row)
        show(name, (row[score] for score in SHOWN), 52, 12)


def draw_images(data: str, n_train: int, seed: int) -> Any:
    """Return the images of a draw, and as many test images as a set has or FIRST."""
    n_test = 10_000 if data in ALL else FIRST
    return SETS[data].make(n_train, n_test, seed)


def make(record: Record, place: Figures) -> Any:
    """Return a model that is not fitted; None if the time to train it is not known."""
    if place["model"] in MODELS:
        return MODELS[place["model"]]()
    ours = record.rows(PART, **place | {"model": OURS})
    if not ours:
        return None
    seconds = TRAINED[place["model"]] * ours[0]["fit_cpu_seconds"]
    return TimedCNN(seconds, flips=place["data"] in MIRRORED)


def show_paired(rows: list[Figures], one: str, other: str) -> None:
    """Print the differences of two models, with their standard errors."""
    print(f"\n{one} less {other}, means over draws, and standard errors")
    show("", ("error", "+-", "log loss", "+-", "draws"), 30)
    losses = paired.paired(rows, one, other, "log_loss")
    for (data, n), error in paired.paired(rows, one, other, "error").items():
        loss = losses.get((data, n), (None, None, None))
        show(f"{data}, {n}", (*error[:2], *loss[:2], error.n_draws), 30)


def targets(rows: list[Figures]) -> list[Target]:
    """Return in how many sets another model has fewer errors, for each size."""
    others = sorted({row["model"] for row in rows} - {OURS})
    found: list[Target] = []
    for n in sorted({row["n_train"] for row in rows}):
        sets = paired.lost(rows, OURS, others, n)
        what = f"sets lost at {n} images: {', '.join(sets) or 'none'}"
        found.append((what, len(sets), "at most", MOST_LOST))
    return found
