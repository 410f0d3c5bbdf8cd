"""How far are the defaults from calibrated, and how much of that is chance?

    SKCONVGP_DATA=<folder with cifar10.npz> python -m benchmarks calibration_defaults

Takes five minutes on one core. Tables are generated, photographs are those of CIFAR-10.
An estimate from n test samples in 15 bins is above zero for a perfect model too: "by
chance" is its mean for labels that are drawn from the probabilities themselves. Each
set can run alone:

    python -m benchmarks calibration_defaults --sets "26 classes" --seeds 12
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.datasets import make_classification
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler

from benchmarks.data import Samples, images
from benchmarks.measure import Record
from benchmarks.report import Figures, show
from skconvgp import ConvNetGPClassifier
from skconvgp.kernels import rbf
from skconvgp.metrics import expected_calibration_error

PARTS = {"defaults": ("set", "seed", "likelihood")}
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


def options(add: Any) -> None:
    add("--sets", nargs="+", choices=SETS, default=list(SETS))
    add("--seeds", nargs="+", type=int, default=[11, 12])
    add("--n-test", type=int, default=10_000)


def run(options: Any, record: Record) -> None:
    errors = ("calibration_error", "by_chance")
    shown = (*errors, *(f"{name}_of_few" for name in errors))
    show("", shown, 40, 26)
    for name in options.sets:
        for seed in options.seeds[:1] if name in PHOTOGRAPHS else options.seeds:
            for row in measure(name, seed, load(name, seed, options.n_test)):
                record.add("defaults", row)
                told = f"{name}, {row['likelihood']}, {seed}"
                show(told, (row[score] for score in shown), 40, 26)


def load(name: str, seed: int, n_test: int) -> Samples:
    """Return a set; the seed is that of a table."""
    if name in PHOTOGRAPHS:
        return images("cifar10", 2000, n_test)
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
    return Samples(X[:n], y[:n], X[n:], y[n:])


def measure(name: str, seed: int, table: Samples) -> Iterator[Figures]:
    """Yield what each likelihood says with the defaults, and what chance adds to it."""
    for likelihood in LIKELIHOODS:
        kernel = PHOTOGRAPHS.get(name, rbf())
        gp = ConvNetGPClassifier(kernel, likelihood=likelihood).fit(table.X, table.y)
        p, y = gp.predict_proba(table.X_test), table.y_test
        yield {
            "set": name,
            "seed": seed,
            "likelihood": likelihood,
            "n_train": len(table.y),
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
