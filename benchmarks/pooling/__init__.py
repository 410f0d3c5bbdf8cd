"""What do averages over positions buy on few images, and what do they cost?

    SKCONVGP_DATA=<folder with mnist.npz, cifar10.npz> python -m benchmarks pooling

Fits networks that flatten their last map, average it or have pools between their layers
to draws of MNIST, and of CIFAR-10 as it is and of means of 2 x 2 pixels: exactly, with
a fifth of the images as landmarks, and on that many images alone, or on so many that
they have as many pairs. All but `convnet()` have no biases and convolutions of 3 x 3.
The first 1000 test images judge: error, log loss, calibration error; so do training
images that are left out. Seconds are those of the processor, or of the clock where a
GPU computes; microseconds of a pair are those of predictions, tables included.

Rows that are there are not measured again. The usual rows need 15 to 20 minutes of a
core, all of them more than a day. Parts can run in several processes, with an --output
each, whose rows --merge adds:

    python -m benchmarks pooling --whole
    python -m benchmarks pooling --data mnist --sizes 1000 --models "local 4"
    python -m benchmarks pooling --data "cifar10 16x16" --sizes 5000 --ways landmarks
        --models "myrtle 7, ZCA"
    python -m benchmarks pooling --merge one.json two.json

A run that is ended in a row goes on from the covariances in a folder, --cache-dir, but
then counts fewer seconds.
"""

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import torch
from sklearn.pipeline import make_pipeline

from benchmarks.data import Samples, draw
from benchmarks.measure import Record, judge, measure_images
from benchmarks.models import SMALL_WINDOWS
from benchmarks.pooling.sums import PooledSum
from benchmarks.report import AGAIN, MERGE, Figures, show
from skconvgp import ConvNetGPClassifier, ImageClassifier, NystromCompletedGP
from skconvgp.completion import SubsetOfData
from skconvgp.kernels import (
    AvgPool2d,
    Conv2d,
    Dense,
    Flatten,
    FlipAverage,
    Kernel,
    ReLU,
    Sequential,
    convnet,
    convnet_gap,
    myrtle,
)
from skconvgp.transforms import Downsample, ZCAWhitening

PART, KEYS = "pooling", ("data", "n_train", "draw", "model", "way")
PARTS = {PART: KEYS}
N_TEST = 1000
SHARE = 5  # images for each landmark
# Of the images: as many pairs as those of all images with the landmarks.
LARGER = 0.6
HALF = "cifar10 16x16"
SIZES = {"mnist": (1000, 2000, 5000), HALF: (500, 1000), "cifar10 32x32": (500, 1000)}
FEW = {
    "mnist": ("convnet()", "flatten", "local 1", "local 2"),
    HALF: ("convnet()", "flatten", "local 2, step 2", "myrtle", "myrtle, ZCA, flips"),
}
WAYS = ("exact", "landmarks", "subset", "larger subset")
SUBSETS = ("subset", "larger subset")
# Landmarks that the columns so far explain least, not drawn uniformly.
PIVOTED = "pivoted landmarks"
SHOWN = ("error", "log_loss", "calibration_error", "loo_log_loss", "fit_cpu_seconds")


def options(add: Any) -> None:
    add("--data", nargs="+", choices=SIZES, default=list(SIZES))
    add("--sizes", nargs="+", type=int, help="training images")
    add("--draws", nargs="+", type=int, default=[0])
    add("--models", nargs="+", choices=ALL)
    add("--ways", nargs="+", choices=(*WAYS, PIVOTED), default=WAYS)
    add("--whole", action="store_true", help="all sizes and all models")
    add("--again", **AGAIN)
    add("--merge", **MERGE)
    add("--cache-dir", type=Path, help="where covariances stay if a run is ended")


def run(options: Any, record: Record) -> None:
    show("", SHOWN, 52, 18)
    for data in options.data:
        sizes = options.sizes or (SIZES[data] if options.whole else SIZES[data][:1])
        for drawn in product([data], sizes, options.draws):
            measure_draw(record, drawn, options)


def measure_draw(record: Record, drawn: tuple[str, int, int], options: Any) -> None:
    """Measure the models that a draw has no rows of."""
    whole = tuple(KERNELS) if drawn[0] == "mnist" else MODELS
    models = options.models or (whole if options.whole else FEW.get(drawn[0], ()))
    images = None
    for model in models:
        for way in ("exact",) if model in SUMS else options.ways:
            place = dict(zip(KEYS, (*drawn, model, way), strict=True))
            if not record.missing(PART, **place):
                continue
            images = images or first_tests(*drawn)
            row = record.add(PART, row_of(place, images, options.cache_dir))
            name = ", ".join(map(str, place.values()))
            show(name, (row[score] for score in SHOWN), 52, 18)


def first_tests(data: str, n_train: int, seed: int) -> Samples:
    """Return a draw of training images, and the first test images."""
    whole = draw(data.split()[0], n_train, seed)
    X_test, y_test = whole.X_test[:N_TEST], whole.y_test[:N_TEST]
    return replace(whole, X_test=X_test, y_test=y_test)


def local(radius: int, step: int = 1, **settings: Any) -> Kernel:
    """Return a network that averages its last map within windows."""
    settings |= {"pooling": "local", "radius": radius, "step": step}
    return convnet(**SMALL_WINDOWS, **settings)


def myrtle_local() -> Kernel:
    """Return `myrtle()` with a local average in place of the global one."""
    layers = [Conv2d(3, weight_variance=2.0), ReLU()]
    pooled = [AvgPool2d(2), *layers]
    blur = AvgPool2d(5, stride=1, padding="same")
    dense = Dense(weight_variance=2.0)
    return Sequential(*layers, *layers, *pooled, *pooled, blur, Flatten(), dense)


KERNELS = {
    "convnet()": convnet(),
    "flatten": convnet(**SMALL_WINDOWS),
    "local 1": local(1),
    "local 2": local(2),
    "local 4": local(4),
    "local 1, step 2": local(1, 2),
    "local 2, step 2": local(2, 2),
    "lattice 2": convnet_gap(depth=5, lattice=2),
    "myrtle": myrtle(),
    "myrtle, local 2": myrtle_local(),
    "flatten, NTK": convnet(**SMALL_WINDOWS, kind="ntk"),
    "local 2, step 2, NTK": local(2, 2, kind="ntk"),
    "myrtle, NTK": myrtle(kind="ntk"),
}
EDGES = ("flatten", "local 2, step 2", "myrtle", "myrtle, local 2", "myrtle, NTK")
WHITENED = tuple(f"{name}, ZCA" for name in EDGES)
FLIPS = ", flips"
FLIPPED = tuple(f"{name}{FLIPS}" for name in WHITENED)
MODELS = (*KERNELS, *WHITENED, *FLIPPED)  # digits are neither whitened nor mirrored
# The same with more than the usual 0.1 mean eigenvalues added to each: few images tell
# little of the small ones.
EPS = (0.3, 1.0)
DAMPED = tuple(
    name.replace("ZCA", f"ZCA {eps:g}") for eps in EPS for name in (*WHITENED, *FLIPPED)
)
# For more images, with landmarks.
DEEP = {"myrtle 7": myrtle(7)}
# The sum of parts of ImageClassifier; the same of parts that are given, whose inducing
# patches are others; and with one of these networks more.
SUM, LONGER_SUM = "ImageClassifier", "ImageClassifier and an average"
GIVEN_SUM = "ImageClassifier, parts given"
SUMS = (SUM, GIVEN_SUM, LONGER_SUM)
IN_SUM = {
    "mnist": KERNELS["local 2"],
    HALF: (ZCAWhitening(), myrtle()),
    "cifar10 32x32": (make_pipeline(Downsample(2), ZCAWhitening()), myrtle()),
}
ALL = (*MODELS, *DAMPED, "myrtle 7", "myrtle 7, ZCA", "myrtle 7, ZCA, flips", *SUMS)


def make(place: Figures, cache_dir: Path | None) -> Any:
    """Return a classifier that is not fitted, and keeps its covariances in a folder."""
    if place["model"] == SUM:
        return make_pipeline(ImageClassifier(random_state=0))
    if place["model"] in (GIVEN_SUM, LONGER_SUM):
        is_longer = place["model"] == LONGER_SUM
        return make_pipeline(PooledSum(IN_SUM[place["data"]] if is_longer else None))
    name, *words = place["model"].removesuffix(FLIPS).split(", ZCA")
    kernel = (KERNELS | DEEP)[name]
    if place["model"].endswith(FLIPS):
        kernel = FlipAverage(kernel)
    n_few = place["n_train"] // SHARE
    gp: Any = ConvNetGPClassifier(kernel, cache_dir=cache_dir)
    if place["way"] in ("landmarks", PIVOTED):
        settings = {"n_landmarks": n_few, "cache_dir": cache_dir, "random_state": 0}
        if place["way"] == PIVOTED:
            settings["landmarks"] = "random_pivoted"
        gp = NystromCompletedGP(kernel, **settings)
    if place["way"] in SUBSETS:
        n_kept = round(LARGER * place["n_train"])
        part = SubsetOfData(n_few if place["way"] == "subset" else n_kept)
        gp.set_params(completion=part, random_state=0)
    steps: list[Any] = [Downsample(2)] if place["data"] == HALF else []
    steps += [ZCAWhitening(float(word or 0.1)) for word in words]
    return make_pipeline(*steps, gp)


def row_of(place: Figures, images: Samples, cache_dir: Path | None) -> Figures:
    """Return scores and seconds of a classifier."""
    classifier = make(place, cache_dir)
    row = measure_images(classifier, images, N_TEST, 0.0)
    gp = classifier[-1]
    known = gp.landmark_indices_ if place["way"] in SUBSETS else slice(None)
    left_out = judge(images.y[known], gp.loo_predict_proba())
    row |= {f"loo_{score}": left_out[score] for score in ("error", "log_loss")}
    if isinstance(gp, PooledSum):
        row["part_weights"] = gp.model_.fit_report_.part_weights
        row["fit_seconds"] -= gp.usual_seconds_["seconds"]
        row["fit_cpu_seconds"] -= gp.usual_seconds_["cpu_seconds"]
    share = {"exact": 1.0, "larger subset": LARGER}.get(place["way"], 1.0 / SHARE)
    n_columns = share * place["n_train"]
    seconds = row["predict_cpu_seconds_of_1000"]
    if getattr(gp, "device_", "").startswith("cuda"):
        row["card"] = torch.cuda.get_device_name(gp.device_)
        seconds = row["predict_seconds_of_1000"]
    return place | row | {"pair_us": 1e6 * seconds / (1000 * n_columns)}
