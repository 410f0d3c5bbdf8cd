"""Which network should `ConvNetGPClassifier` take by default, by left-out images?

    SKCONVGP_DATA=<folder with mnist.npz, cifar10.npz> \\
        python -m benchmarks default_network

Fits classifiers to draws of digits, MNIST and CIFAR-10 with equally many images of each
class, and judges them by their leave-one-out predictions: no test image is seen.
Candidates flatten the last map (the default), divide covariances by the deviations of
both images, or average the last map locally, with windows of 7x7 or of 3x3 pixels.
500 and 1000 images take two minutes of a core. Local averages of 5000 images take a
quarter of an hour:

    python -m benchmarks default_network --sizes 500 1000 5000

Rows that are there are not measured again.
"""

from typing import Any

import torch

from benchmarks.data import SIZES, draw
from benchmarks.measure import Record, Stopwatch, judge
from benchmarks.models import SMALL_WINDOWS
from benchmarks.report import AGAIN, Figures, show
from skconvgp import ConvNetGPClassifier
from skconvgp.kernels import MaxNormalization, convnet

PART, KEYS = "networks", ("data", "n_train", "draw", "kernel")
PARTS = {PART: KEYS}
KERNELS = {
    "convnet()": convnet(),
    "MaxNormalization(convnet())": MaxNormalization(convnet()),
    "convnet(), local average": convnet(pooling="local", radius=1),
    "windows of 3x3": convnet(**SMALL_WINDOWS),
    "windows of 3x3, local average": convnet(
        **SMALL_WINDOWS, pooling="local", radius=1
    ),
}
SHOWN = ("loo_error", "loo_log_loss", "fit_cpu_seconds")


def options(add: Any) -> None:
    add("--data", nargs="+", choices=SIZES, default=list(SIZES))
    add("--sizes", nargs="+", type=int, default=[500, 1000])
    add("--kernels", nargs="+", choices=KERNELS, default=list(KERNELS))
    add("--again", **AGAIN)


def run(options: Any, record: Record) -> None:
    torch.set_num_threads(1)
    show("", SHOWN, 58, 17)
    for data in options.data:
        for n_train in sorted(set(options.sizes) & set(SIZES[data])):
            for kernel in options.kernels:
                place = dict(zip(KEYS, (data, n_train, 0, kernel), strict=True))
                if record.missing(PART, **place):
                    record.add(PART, place | measured(place))
                (row,) = record.rows(PART, **place)
                name = f"{data} {n_train}, {kernel}"
                show(name, (row[score] for score in SHOWN), 58, 17)


def measured(place: Figures) -> Figures:
    """Return the scores of left-out images, and the seconds of the fit."""
    images = draw(place["data"], place["n_train"], place["draw"])
    watch = Stopwatch()
    gp = ConvNetGPClassifier(KERNELS[place["kernel"]]).fit(images.X, images.y)
    seconds = watch.read("fit_")["fit_cpu_seconds"]
    scores = judge(images.y, gp.loo_predict_proba())
    return {
        "loo_error": scores["error"],
        "loo_log_loss": scores["log_loss"],
        "noise_variance": float(gp.noise_variance_),
        "fit_cpu_seconds": seconds,
    }
