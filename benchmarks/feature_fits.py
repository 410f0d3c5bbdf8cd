"""Classifiers by features, on up to all images of MNIST: what is right, and seconds.

    SKCONVGP_DATA=<folder with mnist.npz> python benchmarks/feature_fits.py

Gaussian processes of random features and of landmarks, with labels that share a noise
("gaussian") and labels that determine it ("dirichlet"), beside scikit-learn's features
with logistic regression, whose penalty is chosen on the last sixth. The kernel is that
of the distance of pixels. All test images judge. Seconds are those of the processor,
with the choice of noise, penalty and calibration. Rows are written to
benchmarks/results/feature_fits.json at once; old ones are skipped. Half an hour on a
core:

    python benchmarks/feature_fits.py --sizes 5000 60000
"""

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from calibrating.source import Figures
from completing.report import dated, put, read, save
from peers.machine import machine, versions
from peers.report import find
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline

from skconvgp import ConvNetGPClassifier, NystromCompletedGP
from skconvgp.completion import RandomFeatures
from skconvgp.datasets import fetch_mnist
from skconvgp.kernels import rbf
from skconvgp.metrics import expected_calibration_error

RESULTS = Path(__file__).parent / "results" / "feature_fits.json"
N_RANDOM, N_LANDMARKS = 2000, 1000
PENALTIES = (1.0, 10.0, 100.0, 1000.0)  # C of logistic regression
N_ITERATIONS = 300
RANDOM, LANDMARKS = "random features", "landmarks"

Data = tuple[np.ndarray, np.ndarray]


def random_features(likelihood: str) -> Callable[[Any, Data], Any]:
    """Return a function that fits a process of random features."""

    def fit(kernel: Any, data: Data) -> Any:
        part = RandomFeatures(N_RANDOM)
        settings = {"likelihood": likelihood, "random_state": 0}
        return ConvNetGPClassifier(kernel, completion=part, **settings).fit(*data)

    return fit


def landmarks(likelihood: str) -> Callable[[Any, Data], Any]:
    """Return a function that fits a process of landmarks."""

    def fit(kernel: Any, data: Data) -> Any:
        settings = {"likelihood": likelihood, "random_state": 0}
        return NystromCompletedGP(kernel, n_landmarks=N_LANDMARKS, **settings).fit(
            *data
        )

    return fit


def regression(make: Callable[[float], Any]) -> Callable[[Any, Data], Any]:
    """Return a function that fits logistic regression of scikit-learn's features."""

    def fit(kernel: Any, data: Data) -> Any:
        X, y = data
        sampler = make(0.5 / kernel.lengthscale**2).fit(X)
        features = sampler.transform(X)
        cut = 5 * len(y) // 6
        models = [LogisticRegression(C=c, max_iter=N_ITERATIONS) for c in PENALTIES]
        losses = [
            log_loss(y[cut:], model.fit(features[:cut], y[:cut]).predict_proba(rest))
            for model in models
            for rest in [features[cut:]]
        ]
        best = models[int(np.argmin(losses))].fit(features, y)
        return make_pipeline(sampler, best)

    return fit


MODELS: dict[str, Callable[[Any, Data], Any]] = {
    f"{RANDOM}, gaussian": random_features("gaussian"),
    f"{RANDOM}, dirichlet": random_features("dirichlet"),
    f"{LANDMARKS}, gaussian": landmarks("gaussian"),
    f"{LANDMARKS}, dirichlet": landmarks("dirichlet"),
    "RBFSampler, logistic regression": regression(
        lambda gamma: RBFSampler(gamma=gamma, n_components=N_RANDOM, random_state=0)
    ),
    "Nystroem, logistic regression": regression(
        lambda gamma: Nystroem(gamma=gamma, n_components=N_LANDMARKS, random_state=0)
    ),
}


def measure(fit: Callable[[Any, Data], Any], train: Data, test: Data) -> Figures:
    """Return the figures of a model."""
    kernel = rbf().resolve(train[0])
    start, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of weak penalties
        model = fit(kernel, train)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
    start = time.process_time()
    probabilities = model.predict_proba(test[0])
    return {
        "fit_seconds": seconds,
        "fit_cpu_seconds": cpu_seconds,
        "predict_cpu_seconds": time.process_time() - start,
        "error": float(np.mean(probabilities.argmax(1) != test[1])),
        "log_loss": float(log_loss(test[1], probabilities)),
        "calibration_error": float(expected_calibration_error(test[1], probabilities)),
    }


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", nargs="+", type=int, default=[5000])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--again", action="store_true", help="measure old rows anew")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    record = {"fits": []} | read(options.output)
    record = {"fits": record["fits"], "versions": versions(), "machine": machine()}
    test = images("test", 10_000)
    for size in options.sizes:
        train = images("train", size)
        for name in options.models:
            row = {"n_train": size, "model": name}
            if not options.again and find(record["fits"], **row):
                continue
            row |= measure(MODELS[name], train, test)
            put(record["fits"], dated(row), "n_train", "model")
            save(options.output, record)
            print(row, flush=True)


def images(subset: str, count: int) -> Data:
    """Return rows of images in [0, 1] and their labels."""
    X, y = fetch_mnist(subset=subset, n_samples=count, return_X_y=True)
    return X.reshape(count, -1), y


if __name__ == "__main__":
    main()
