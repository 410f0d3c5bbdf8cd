"""Sets on which the defaults are calibrated: tables that are generated, photographs."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.datasets import make_classification
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler

from calibrating.source import Figures
from calibrating.tasks import Task
from skconvgp import ConvNetGPClassifier
from skconvgp.datasets import fetch_cifar10
from skconvgp.kernels import rbf
from skconvgp.metrics import expected_calibration_error

# Classes, share of random labels, training samples; 16 features each.
TABLES = {
    "26 classes": (26, 0.01, 2000),
    "15 classes": (15, 0.01, 2000),
    "5 classes, a tenth random": (5, 0.1, 1000),
}
PHOTOGRAPHS = {"CIFAR-10": rbf(), "CIFAR-10, rbf(5)": rbf(5.0)}
SETS = (*TABLES, *PHOTOGRAPHS)
LIKELIHOODS = ("gaussian", "dirichlet")
FEW = 2000  # test samples that a small estimate has
DRAWS = 10


def load(name: str, seed: int, n_test: int) -> Task:
    """Return a set; the seed is that of a table."""
    if name in PHOTOGRAPHS:
        X, y = fetch_cifar10(n_samples=2000, return_X_y=True)
        test = fetch_cifar10(subset="test", n_samples=n_test, return_X_y=True)
        return Task(name, seed, X, y, *test)
    n_classes, flipped, n = TABLES[name]
    X, y = make_classification(
        n + n_test,
        n_features=16,
        n_informative=10,
        n_classes=n_classes,
        n_clusters_per_class=1,
        flip_y=flipped,
        random_state=seed,
    )
    X = StandardScaler().fit(X[:n]).transform(X)
    return Task(name, seed, X[:n], y[:n], X[n:], y[n:])


def measure(task: Task) -> Iterator[Figures]:
    """Yield what each likelihood says with the defaults, and what chance adds to it."""
    for likelihood in LIKELIHOODS:
        kernel = PHOTOGRAPHS.get(task.name, rbf())
        gp = ConvNetGPClassifier(kernel, likelihood=likelihood).fit(task.X, task.y)
        p, y = gp.predict_proba(task.X_test), task.y_test
        yield {
            "set": task.name,
            "seed": task.split,
            "likelihood": likelihood,
            "n_train": len(task.y),
            "n_test": len(y),
            "kernel": repr(gp.kernel_),
            "noise_variance": float(gp.noise_variance_),
            "error": float(np.mean(p.argmax(1) != y)),
            "log_loss": float(log_loss(y, p, labels=gp.classes_)),
            "calibration_error": _error(y, p),
            "by_chance": _by_chance(p),
            "calibration_error_of_few": _of_few(y, p),
            "by_chance_of_few": _by_chance(p[:FEW]),
        }


def _error(y: Any, p: Any) -> float:
    return float(expected_calibration_error(y, p, labels=np.arange(p.shape[1])))


def _by_chance(p: Any) -> float:
    """Return the error that these probabilities have of labels drawn from them."""
    rng, tops = np.random.default_rng(0), p.cumsum(1)
    drawn = [
        (rng.random((len(p), 1)) * tops[:, -1:] > tops).sum(1) for _ in range(DRAWS)
    ]
    return float(np.mean([_error(y, p) for y in drawn]))


def _of_few(y: Any, p: Any) -> float:
    starts = range(0, len(y) - FEW + 1, FEW)
    return float(np.mean([_error(y[i : i + FEW], p[i : i + FEW]) for i in starts]))
