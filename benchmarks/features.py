"""Features instead of a Gram matrix: error of the kernel and accuracy against seconds.

    SKCONVGP_DATA=<folder with mnist.npz> python benchmarks/features.py

Fits a ridge classifier to features of images of MNIST: random features and landmarks of
this package and those of scikit-learn, for a kernel of the distance, a network with one
hidden layer and a deep convolutional network. The last one sees means of 2 x 2 pixels.
The penalty is chosen on a fifth of the training images. All models judge the first 1000
test images. The error of the kernel is the root mean square error of its covariances of
500 of these, in units of the prior deviations, as a share of the standard deviation of
the correlations. Rows are written to benchmarks/results/features.json at once; old ones
are skipped. A few minutes on a core:

    python benchmarks/features.py --kernels rbf --again
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from calibrating.source import Figures
from completing.report import dated, put, read, save
from peers.machine import machine, versions
from peers.report import find
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import RidgeClassifier

from skconvgp import KernelFeatures, gram_matrix
from skconvgp.completion import Nystrom, RandomFeatures
from skconvgp.datasets import fetch_mnist
from skconvgp.kernels import Kernel, convnet, dense, rbf

RESULTS = Path(__file__).parent / "results" / "features.json"
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


def kernel_of(name: str, X: np.ndarray) -> Kernel:
    """Return a kernel with all settings."""
    kernels = {"rbf": rbf(), "dense": dense(1), "convnet": convnet()}
    return kernels[name].resolve(X)


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


def measure(phi: Any, train: tuple, test: tuple, exact: np.ndarray) -> Figures:
    """Return the figures of a transformer."""
    start, cpu = time.perf_counter(), time.process_time()
    features = phi.fit(train[0]).transform(train[0])
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
    new = phi.transform(test[0])
    start = time.process_time()
    model = chosen_ridge(features.astype(np.float64), train[1])
    few = new[:N_COMPARED].astype(np.float64)
    lengths = np.sqrt(np.diag(exact))
    right = correlations(exact, lengths)
    error = correlations(few @ few.T, lengths) - right
    return {
        "accuracy": float(model.score(new, test[1])),
        "kernel_error": float(np.sqrt(np.mean(error**2)) / right.std()),
        "feature_seconds": seconds,
        "feature_cpu_seconds": cpu_seconds,
        "ridge_cpu_seconds": time.process_time() - start,
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


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kernels", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--draws", nargs="+", type=int, default=[0])
    parser.add_argument("--again", action="store_true", help="measure old rows anew")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    record = {"features": []} | read(options.output)
    record = {"features": record["features"]}
    record |= {"versions": versions(), "machine": machine()}
    rows = record["features"]
    for name in options.kernels:
        n_train = SIZES[name][0]
        (X, y), test = images(name, "train", n_train), images(name, "test", N_TEST)
        kernel = kernel_of(name, X)
        compared = test[0][:N_COMPARED]
        shape = (SIDE, SIDE) if name == "convnet" else None
        exact = gram_matrix(kernel, compared, image_shape=shape)
        for draw in options.draws:
            for named, phi in models(name, kernel, draw):
                row = {"kernel": name, "n_train": n_train, "draw": draw} | named
                if not options.again and find(rows, **row):
                    continue
                row |= measure(phi, (X, y), test, exact)
                put(rows, dated(row), "kernel", "draw", "model", "n_features")
                save(options.output, record)
                print(row, flush=True)


def images(name: str, subset: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of images in [0, 1] and their labels."""
    X, y = fetch_mnist(subset=subset, n_samples=count, return_X_y=True)
    if name == "convnet":
        X = X.reshape(count, SIDE, 2, SIDE, 2).mean((2, 4))
    return X.reshape(count, -1), y


if __name__ == "__main__":
    main()
