"""What are flips and shifts worth on few images, and what do they cost?

    SKCONVGP_DATA=<folder with cifar10.npz and mnist.npz> python -m benchmarks flips

Fits a network and a process of patches, each with `FlipAverage` and without, and the
network with flips as rows, to 50 and 100 images of each class of CIFAR-10, of three
draws, and the network to digits of MNIST, with shifts as rows and without. Judges on
the first 2000 test images. Takes about a quarter of an hour on a core. Prints means
over the draws. Rows that are there are not measured again, and can run alone:

    python -m benchmarks flips --models digits --ways shifts --sizes 500 --again
"""

from itertools import product
from typing import Any

import numpy as np

from benchmarks.data import DRAWS, Samples, balanced, images
from benchmarks.measure import Record, Stopwatch, judge
from benchmarks.report import AGAIN, Figures, mean, show
from skconvgp import ConvNetGPClassifier, PatchGPClassifier
from skconvgp.augmentation import Flip, Shift
from skconvgp.kernels import FlipAverage, PatchKernel, PatchWhitening, convnet

PART, KEYS = "flips", ("model", "way", "n_train", "draw")
PARTS = {PART: KEYS}
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


def options(add: Any) -> None:
    add("--models", nargs="+", choices=KERNELS, default=list(KERNELS))
    add("--ways", nargs="+", choices=ROWS, default=list(ROWS))
    add("--sizes", nargs="+", type=int, default=SIZES)
    add("--draws", nargs="+", type=int, default=DRAWS)
    add("--again", **AGAIN)


def run(options: Any, record: Record) -> None:
    show("", SHOWN, 34, 21)
    for model in options.models:
        whole = images("mnist" if model == "digits" else "cifar10", None, N_TEST)
        ways = sorted(set(options.ways) & set(WAYS[model]))
        for n_train, way in product(options.sizes, ways):
            for draw in options.draws:
                place = dict(zip(KEYS, (model, way, n_train, draw), strict=True))
                if record.missing(PART, **place):
                    chosen = balanced(whole.y, n_train, draw)
                    some = Samples(
                        whole.X[chosen], whole.y[chosen], whole.X_test, whole.y_test
                    )
                    record.add(PART, place | measure(classifier(model, way), some))
            rows = record.rows(PART, model=model, way=way, n_train=n_train)
            means = (mean(rows, score) for score in SHOWN)
            show(f"{model}, {n_train}, {way}", means, 34, 21)


def classifier(model: str, way: str) -> Any:
    """Return a classifier that is not fitted."""
    kernel = FlipAverage(KERNELS[model]) if way == "average" else KERNELS[model]
    if model != "patches":
        return ConvNetGPClassifier(kernel, augment=ROWS[way])
    return PatchGPClassifier(
        kernel, n_inducing=256, n_locations=4, variance="sor", random_state=0
    )


def measure(gp: Any, images: Samples) -> Figures:
    """Return the scores of a classifier, and processor seconds."""
    watch = Stopwatch()
    gp.fit(images.X, images.y)
    fitted, watch = watch.read("fit_"), Stopwatch()
    probabilities = gp.predict_proba(images.X_test)
    predicted = watch.read("predict_")
    return judge(images.y_test, probabilities) | {
        "loo_error": float(np.mean(gp.loo_predict() != images.y)),
        "fit_cpu_seconds": fitted["fit_cpu_seconds"],
        "predict_cpu_seconds": predicted["predict_cpu_seconds"],
    }
