"""How near do features come to a kernel, how right are they, and in what seconds?

    SKCONVGP_DATA=<folder with mnist.npz> python -m benchmarks features

Fits a ridge classifier to features of images of MNIST: random features and landmarks of
this package and those of scikit-learn, for a kernel of the distance, a network with one
hidden layer and a deep convolutional network. The last one sees means of 2 x 2 pixels.
The penalty is chosen on a fifth of the training images. All models judge the first 1000
test images. The error of the kernel is the root mean square error of its covariances of
500 of these, in units of the prior deviations, as a share of the standard deviation of
the correlations. Rows that are there are not measured again. A few minutes on a core:

    python -m benchmarks features --kernels rbf --again
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import RidgeClassifier

from benchmarks.data import Samples, images
from benchmarks.measure import Record, Stopwatch
from benchmarks.report import AGAIN, Figures
from skconvgp import KernelFeatures, gram_matrix
from skconvgp.completion import Nystrom, RandomFeatures
from skconvgp.kernels import Kernel, convnet, dense, rbf

PART = "features"
PARTS = {PART: ("kernel", "draw", "model", "n_features")}
N_TEST, N_COMPARED = 1000, 500
PENALTIES = (1e-5, 1e-4, 1e-3, 1e-2)  # of the sum of squares of a feature
# Images, numbers of random features, numbers of landmarks.
SIZES = {
    "rbf": (5000, (512, 1024), (250, 500)),
    "dense": (5000, (512, 1024), (250, 500)),
    "convnet": (1000, (512, 1024), (125, 250)),
}
WIDTHS = (16, 32)
SIDE = 14


KERNELS = {"rbf": rbf(), "dense": dense(1), "convnet": convnet()}


def options(add: Any) -> None:
    add("--kernels", nargs="+", choices=SIZES, default=list(SIZES))
    add("--draws", nargs="+", type=int, default=[0])
    add("--again", **AGAIN)


def run(options: Any, record: Record) -> None:
    for name in options.kernels:
        n_train = SIZES[name][0]
        digits = load(name, n_train)
        kernel = KERNELS[name].resolve(digits.X)
        shape = (SIDE, SIDE) if name == "convnet" else None
        exact = gram_matrix(kernel, digits.X_test[:N_COMPARED], image_shape=shape)
        for draw in options.draws:
            for named, phi in models(name, kernel, draw):
                row = {"kernel": name, "n_train": n_train, "draw": draw} | named
                if record.missing(PART, **row):
                    print(record.add(PART, row | measure(phi, digits, exact)))


def load(name: str, n_train: int) -> Samples:
    """Return rows of images in [0, 1], smaller ones for a deep network."""
    digits = images("mnist", n_train, N_TEST)
    if name != "convnet":
        return digits.flat()
    X, X_test = (
        one.reshape(-1, SIDE, 2, SIDE, 2).mean((2, 4))
        for one in (digits.X, digits.X_test)
    )
    return Samples(X, digits.y, X_test, digits.y_test).flat()


def models(name: str, kernel: Kernel, draw: int) -> Iterator[tuple[Figures, Any]]:
    """Yield what names a row, and the transformer."""
    _, counts, landmarks = SIZES[name]
    settings = {"random_state": draw, "image_shape": None}
    if name == "convnet":
        settings["image_shape"] = (SIDE, SIDE)
    for count in counts:
        parts = {"random": RandomFeatures(count)}
        if name == "rbf":
            parts["random, independent"] = RandomFeatures(count, orthogonal=False)
        if name == "convnet":
            parts = {
                f"random, width {width}": RandomFeatures(count, width=width)
                for width in WIDTHS
            }
        for title, part in parts.items():
            row = {"model": title, "n_features": count}
            yield row, KernelFeatures(kernel, part, **settings)
    for count in landmarks:
        row = {"model": "landmarks", "n_features": count}
        part = Nystrom(count, check_fraction=0.0)
        yield row, KernelFeatures(kernel, part, **settings)
    if name != "rbf":
        return
    gamma = 0.5 / kernel.lengthscale**2
    for count in counts:
        row = {"model": "RBFSampler", "n_features": count}
        yield row, RBFSampler(gamma=gamma, n_components=count, random_state=draw)
    for count in landmarks:
        row = {"model": "Nystroem", "n_features": count}
        sampler = Nystroem(gamma=gamma, n_components=count, random_state=draw)
        yield row, sampler


def correlations(gram: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the covariances of different samples in units of deviations."""
    return (gram / np.outer(lengths, lengths))[np.triu_indices(len(gram), 1)]


def measure(phi: Any, digits: Samples, exact: np.ndarray) -> Figures:
    """Return the figures of a transformer."""
    watch = Stopwatch()
    features = phi.fit(digits.X).transform(digits.X)
    seconds = watch.read("feature_")
    new = phi.transform(digits.X_test)
    watch = Stopwatch()
    model = chosen_ridge(features.astype(np.float64), digits.y)
    few = new[:N_COMPARED].astype(np.float64)
    lengths = np.sqrt(np.diag(exact))
    right = correlations(exact, lengths)
    error = correlations(few @ few.T, lengths) - right
    return {
        "accuracy": float(model.score(new, digits.y_test)),
        "kernel_error": float(np.sqrt(np.mean(error**2)) / right.std()),
        **seconds,
        "ridge_cpu_seconds": watch.read()["cpu_seconds"],
    }


def chosen_ridge(features: np.ndarray, y: np.ndarray) -> RidgeClassifier:
    """Return a classifier with the penalty that is best on the last fifth."""
    cut = 4 * len(y) // 5
    unit = float((features**2).sum() / features.shape[1])
    models = [RidgeClassifier(share * unit, solver="cholesky") for share in PENALTIES]
    for model in models:
        model.fit(features[:cut], y[:cut])
    scores = [model.score(features[cut:], y[cut:]) for model in models]
    return models[int(np.argmax(scores))].fit(features, y)
