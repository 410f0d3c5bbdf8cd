"""Which classifier for a few hundred or thousand images, and what does it cost?

    SKCONVGP_DATA=<folder with mnist.npz, cifar10.npz> python -m benchmarks small_data

Fits each model to three draws of 500 images with equally many of each class and judges
on test images: error, log loss, calibration error, and seconds of the fit and of 1000
predictions, by the clock and of the processor. All 10 000 test images of MNIST and
CIFAR-10 are predicted if that takes at most half an hour, otherwise the first 2000;
these, and those from 2000 on, which no setting was chosen with, are judged apart, too.

Small networks are trained for the processor seconds of the fit of ImageClassifier, and
for ten times as long: a row of ImageClassifier comes first. Rows that are there are not
measured again. Whole, with 5000 images, it takes a day on a core; rows can run alone:

    python -m benchmarks small_data --sizes 500 1000 5000
    python -m benchmarks small_data --data cifar10 --models SVC --draws 0 --again
"""

from itertools import product
from typing import Any

from benchmarks.data import DRAWS, SIZES, draw
from benchmarks.measure import Record, measure_images
from benchmarks.report import AGAIN, Figures, show
from benchmarks.small_data.models import MODELS, OURS, TRAINED
from benchmarks.small_data.timed import TimedCNN

PART, KEYS = "few_images", ("data", "n_train", "draw", "model")
PARTS = {PART: KEYS}
NAMES = (*MODELS, *TRAINED)
PHOTOGRAPHS = ("cifar10",)
FIRST = 2000  # test images that settings were chosen with; the others are judged apart
HALF_AN_HOUR = 1800.0
SHOWN = {
    "error": "error",
    "log_loss": "log loss",
    "calibration_error": "ECE",
    "fit_cpu_seconds": "fit CPU s",
    "predict_cpu_seconds_of_1000": "1000 CPU s",
}


def options(add: Any) -> None:
    add("--data", nargs="+", choices=SIZES, default=list(SIZES))
    add("--sizes", nargs="+", type=int, default=[500])
    add("--draws", nargs="+", type=int, default=DRAWS)
    add("--models", nargs="+", choices=NAMES, default=NAMES)
    add("--most-seconds", type=float, default=HALF_AN_HOUR)
    add("--again", **AGAIN)


def run(options: Any, record: Record) -> None:
    show("", SHOWN.values(), 52, 12)
    for data in options.data:
        sizes = sorted(set(options.sizes) & set(SIZES[data]))
        for place in product([data], sizes, options.draws):
            measure_models(record, place, options)


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
            print(f"{name:<52} needs the row of ImageClassifier", flush=True)
            continue
        images = images or draw(*drawn)
        row = place | measure_images(classifier, images, FIRST, options.most_seconds)
        if isinstance(classifier, TimedCNN):
            row["n_epochs"] = round(classifier.n_epochs, 1)
        record.add(PART, row)
        show(name, (row[score] for score in SHOWN), 52, 12)


def make(record: Record, place: Figures) -> Any:
    """Return a model that is not fitted; None if the time to train it is not known."""
    if place["model"] in MODELS:
        return MODELS[place["model"]]()
    ours = record.rows(PART, **place | {"model": OURS})
    if not ours:
        return None
    seconds = TRAINED[place["model"]] * ours[0]["fit_cpu_seconds"]
    return TimedCNN(seconds, flips=place["data"] in PHOTOGRAPHS)
