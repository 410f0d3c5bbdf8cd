"""What flips and shifts are worth on few images, and what they cost.

    SKCONVGP_DATA=<folder with cifar10.npz and mnist.npz> python benchmarks/flips.py

Fits a network and a process of patches, each with `FlipAverage` and without, and the
network with flips as rows, to 50 and 100 images of each class of CIFAR-10, of three
draws, and the network to digits of MNIST, with shifts as rows and without. Judges on
the first 2000 test images. Takes about a quarter of an hour on a core. Prints means
over the draws and writes benchmarks/results/flips.json after each row; rows can run
alone:

    python benchmarks/flips.py --models digits --ways shifts --sizes 500
"""

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
from calibrating.report import judge, read
from calibrating.source import Figures
from completing.report import dated, put, save
from few_images.draws import DRAWS, balanced
from numpy.typing import NDArray
from peers.machine import machine, versions

from skconvgp import ConvNetGPClassifier, PatchGPClassifier
from skconvgp.augmentation import Flip, Shift
from skconvgp.datasets import fetch_cifar10, fetch_mnist
from skconvgp.kernels import FlipAverage, PatchKernel, PatchWhitening, convnet

RESULTS = Path(__file__).parent / "results" / "flips.json"
PART, KEYS = "flips", ("model", "way", "n_train", "draw")
ROWS = {"none": None, "average": None, "flips": Flip(), "shifts": Shift(1)}
WAYS = {
    "network": ("none", "average", "flips"),
    "patches": ("none", "average"),
    "digits": ("none", "shifts"),
}
N_TEST = 2000
SIZES = (500, 1000)
KERNELS = {
    "network": convnet(depth=3, kernel_size=3),
    "digits": convnet(depth=3, kernel_size=3),
    "patches": PatchKernel(
        location_lengthscale=6.0, normalization=PatchWhitening(flips=True)
    ),
}
SHOWN = ("error", "loo_error", "log_loss", "fit_cpu_seconds", "predict_cpu_seconds")


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", choices=KERNELS, default=list(KERNELS))
    parser.add_argument("--ways", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--draws", nargs="+", type=int, default=DRAWS)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    record = read(options.output, PART)
    record |= {"versions": versions(), "machine": machine()}
    print(f"{'':<34}" + "".join(f"{name:>21}" for name in SHOWN))
    for model in options.models:
        fetch = fetch_mnist if model == "digits" else fetch_cifar10
        X, y = fetch(subset="train", return_X_y=True)
        X_test, y_test = fetch(subset="test", return_X_y=True)
        test = X_test[:N_TEST], y_test[:N_TEST]
        for n_train in options.sizes:
            for way in sorted(set(options.ways) & set(WAYS[model])):
                for draw in options.draws:
                    chosen = balanced(y, n_train, draw)
                    row: Figures = dict(
                        zip(KEYS, (model, way, n_train, draw), strict=True)
                    )
                    row |= measure(classifier(model, way), X[chosen], y[chosen], *test)
                    put(record[PART], dated(row), *KEYS)
                    save(options.output, record)
                print_means(record[PART], model, way, n_train)


def classifier(model: str, way: str) -> Any:
    """Return a classifier that is not fitted."""
    kernel = FlipAverage(KERNELS[model]) if way == "average" else KERNELS[model]
    if model != "patches":
        return ConvNetGPClassifier(kernel, augment=ROWS[way])
    return PatchGPClassifier(
        kernel, n_inducing=256, n_locations=4, variance="sor", random_state=0
    )


def measure(
    gp: Any,
    X: NDArray[Any],
    y: NDArray[Any],
    X_test: NDArray[Any],
    y_test: NDArray[Any],
) -> Figures:
    """Return the scores of a classifier, and processor seconds."""
    start = time.process_time()
    gp.fit(X, y)
    fitted = time.process_time()
    probabilities = gp.predict_proba(X_test)
    done = time.process_time()
    return judge(y_test, probabilities) | {
        "loo_error": float(np.mean(gp.loo_predict() != y)),
        "fit_cpu_seconds": fitted - start,
        "predict_cpu_seconds": done - fitted,
    }


def print_means(rows: list[Figures], model: str, way: str, n_train: int) -> None:
    """Print means over the draws."""
    place = model, way, n_train
    own = [row for row in rows if tuple(row[key] for key in KEYS[:3]) == place]
    means = (statistics.fmean(row[score] for row in own) for score in SHOWN)
    name = f"{model}, {n_train}, {way}"
    print(f"{name:<34}" + "".join(f"{mean:>21.3f}" for mean in means), flush=True)


if __name__ == "__main__":
    main()
