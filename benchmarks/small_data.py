"""Which classifier for a few hundred or thousand images, and what it costs.

    SKCONVGP_DATA=<folder with mnist.npz, cifar10.npz> python benchmarks/small_data.py

Fits each model to three draws of 500 images with equally many of each class and judges
on test images: error, log loss, calibration error, and seconds of the fit and of 1000
predictions, by the clock and of the processor. All 10 000 test images of MNIST and
CIFAR-10 are predicted if that takes at most half an hour, otherwise the first 2000;
these, and those from 2000 on, which no setting was chosen with, are judged apart, too.

Small networks are trained for the processor seconds of the fit of ImageClassifier, and
for ten times as long: a row of ImageClassifier comes first. Each row is written to
benchmarks/results/small_data.json at once and is skipped the next time. Whole, with
5000 images, it takes a day on a core; rows can run alone:

    python benchmarks/small_data.py --sizes 500 1000 5000
    python benchmarks/small_data.py --data cifar10 --models SVC --draws 0 --again
"""

import argparse
from pathlib import Path

from calibrating.report import read
from calibrating.source import Figures
from completing.report import dated, put, save
from few_images.draws import DRAWS, SIZES, split
from few_images.models import MODELS, TRAINED
from few_images.rows import make, measure
from peers.machine import machine, versions
from peers.report import find

RESULTS = Path(__file__).parent / "results" / "small_data.json"
PART = "few_images"
NAMES = (*MODELS, *TRAINED)
HALF_AN_HOUR = 1800.0
SHOWN = {
    "error": "error",
    "log_loss": "log loss",
    "calibration_error": "ECE",
    "fit_cpu_seconds": "fit CPU s",
    "predict_cpu_seconds_of_1000": "1000 CPU s",
}


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--sizes", nargs="+", type=int, default=[500])
    parser.add_argument("--draws", nargs="+", type=int, default=DRAWS)
    parser.add_argument("--models", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--again", action="store_true", help="measure old rows anew")
    parser.add_argument("--most-seconds", type=float, default=HALF_AN_HOUR)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    record = read(options.output, PART)
    record |= {"versions": versions(), "machine": machine()}
    print(f"{'':<52}" + "".join(f"{name:>12}" for name in SHOWN.values()))
    for data in options.data:
        for n_train in sorted(set(options.sizes) & set(SIZES[data])):
            for draw in options.draws:
                place = {"data": data, "n_train": n_train, "draw": draw}
                measure_models(record, place, options)


def measure_models(
    record: Figures, place: Figures, options: argparse.Namespace
) -> None:
    """Measure the models that a draw has no rows of."""
    rows = record[PART]
    missing = [
        model
        for model in options.models
        if options.again or find(rows, **place, model=model) is None
    ]
    if not missing:
        return
    images = split(**place)
    for model in missing:
        name = f"{' '.join(map(str, place.values()))}, {model}"
        classifier = make(rows, place, model)
        if classifier is None:
            print(f"{name:<52} needs the row of ImageClassifier", flush=True)
            continue
        row = place | {"model": model}
        row |= measure(classifier, images, options.most_seconds)
        put(rows, dated(row), *place, "model")
        save(options.output, record)
        scores = "".join(f"{row[score]:>12.4f}" for score in SHOWN)
        print(f"{name:<52}{scores}", flush=True)


if __name__ == "__main__":
    main()
