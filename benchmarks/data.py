"""Images, tables and draws of them that more than one question reads.

Files lie in the folder that the variable SKCONVGP_DATA names: mnist.npz, cifar10.npz,
uci_classification and uci_regression.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import RobustScaler, StandardScaler

from skconvgp.datasets import fetch_cifar10, fetch_mnist, load_digits_images, load_uci

Array = NDArray[Any]
FETCH = {"mnist": fetch_mnist, "cifar10": fetch_cifar10}
SHAPES = {"mnist": (1, 28, 28), "cifar10": (3, 32, 32)}
DRAWS = range(3)
# Some values of eeg_eye_state are a hundred times the others: quartiles scale, and
# what is left is cut.
FARTHEST = 10.0
# Splits of a table of UCI that are stored.
N_SPLITS = {"protein": 5}
MOST_SPLITS = 20

# Tables 6.1 and 6.2 of Kozyrskiy (2023): root mean squared error, and mean negative log
# density, by functional chains, a Wasserstein prior and deep ensembles.
REPORTED_NUMBERS: dict[str, tuple[tuple[float, float], ...]] = {
    "boston": ((2.73, 2.45), (2.83, 2.48), (3.69, 3.19)),
    "concrete": ((4.06, 2.74), (4.80, 3.03), (3.07, 3.07)),
    "energy": ((0.48, 0.80), (0.34, 0.35), (1.37, 2.07)),
    "kin8nm": ((0.04, -1.46), (0.06, -1.23), (0.06, -1.32)),
    "power_plant": ((3.24, 2.73), (3.72, 2.74), (3.86, 2.74)),
    "protein": ((3.61, 2.73), (3.65, 2.75), (4.45, 2.80)),
    "wine_red": ((0.60, 0.76), (0.60, 0.92), (0.62, 1.08)),
}

# Of other tables there: error, and mean negative log likelihood.
REPORTED_CLASSES: dict[str, dict[str, tuple[float, float]]] = {
    "Table 4.2, bootstrap on random features": {
        "magic": (0.13, 0.33),
        "htru2": (0.02, 0.07),
    },
    "Table 4.2, sparse GP": {"magic": (0.13, 0.35), "htru2": (0.02, 0.07)},
    "Table 4.3, bootstrap of a network": {"magic": (0.12, 0.31), "htru2": (0.02, 0.08)},
    "Table 4.3, MCMC of a network": {"magic": (0.12, 0.29), "htru2": (0.02, 0.07)},
    "Table 6.3-6.4, Wasserstein prior": {
        "eeg_eye_state": (0.0587, 0.18),
        "htru2": (0.0197, 0.06),
        "magic": (0.1163, 0.29),
    },
}


@dataclass(frozen=True)
class Samples:
    """Samples to learn from, and samples to be judged on."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array
    groups: Array | None = None  # of training samples that belong together

    def first(self, n: int | None) -> Self:
        """Return one with the first n training samples."""
        groups = None if self.groups is None else self.groups[:n]
        return replace(self, X=self.X[:n], y=self.y[:n], groups=groups)

    def flat(self) -> Self:
        """Return one whose samples are rows."""
        rows, test_rows = (one.reshape(len(one), -1) for one in (self.X, self.X_test))
        return replace(self, X=rows, X_test=test_rows)


@dataclass(frozen=True)
class Labelled:
    """Images and labels."""

    X: Array
    y: Array

    def first(self, n: int | None) -> Self:
        """Return the first n of them."""
        return type(self)(self.X[:n], self.y[:n])


@dataclass(frozen=True)
class Validated:
    """Images to learn from, to choose by, and to be judged on."""

    train: Labelled
    validation: Labelled
    test: Labelled

    def both(self, predict: Callable[[Array], Any]) -> dict[str, Any]:
        """Return what is predicted for those that are not for training, by name."""
        return {name: predict(getattr(self, name).X) for name in ("validation", "test")}


def images(name: str, n_train: int | None, n_test: int | None) -> Samples:
    """Return the first training and test images of a set, and their labels."""
    train = FETCH[name](n_samples=n_train, return_X_y=True)
    return Samples(
        *train, *FETCH[name](subset="test", n_samples=n_test, return_X_y=True)
    )


def draw(data: str, n_train: int, seed: int) -> Samples:
    """Return training images with equally many of each class, and all test images."""
    if data == "digits":
        X, y = load_digits_images(return_X_y=True)
        chosen = balanced(y, n_train, seed)
        left = np.delete(np.arange(len(y)), chosen)
        return Samples(_images(X[chosen]), y[chosen], _images(X[left]), y[left])
    whole = images(data, None, None)
    chosen = balanced(whole.y, n_train, seed)
    X, X_test = _images(whole.X[chosen]), _images(whole.X_test)
    return Samples(X, whole.y[chosen], X_test, whole.y_test)


def balanced(y: Array, n: int, seed: int) -> Array:
    """Return indices of n images: those of the classes take turns.

    So each class has equally many, within one, until there are none left of some.
    """
    order = np.random.RandomState(seed).permutation(len(y))
    turn = np.empty(len(y), int)
    for label in np.unique(y):
        own = y[order] == label
        turn[own] = np.arange(own.sum())
    found: Array = order[np.lexsort((y[order], turn))[:n]]
    return found


def _images(X: Array) -> Array:
    X = X if X.ndim == 4 else X[:, None]
    return np.ascontiguousarray(X, dtype=np.float32)


def numbers(name: str, split: int) -> Samples:
    """Return a table; features have mean 0 and deviation 1 among training samples."""
    table = _uci(name, split)
    scaler = StandardScaler().fit(table.X)
    X, X_test = scaler.transform(table.X), scaler.transform(table.X_test)
    return replace(table, X=X, X_test=X_test)


def splits(name: str, asked: Any) -> list[int]:
    """Return those splits of a table that are asked for and stored."""
    return [split for split in asked if split < N_SPLITS.get(name, MOST_SPLITS)]


def classes(name: str, split: int, n_train: int | None, n_test: int | None) -> Samples:
    """Return the first samples of a table, scaled by quartiles of training samples."""
    table = _uci(name, split).first(n_train)
    scaler = RobustScaler().fit(table.X)
    X, X_test = (
        np.clip(scaler.transform(part), -FARTHEST, FARTHEST)
        for part in (table.X, table.X_test)
    )
    return Samples(X, table.y, X_test[:n_test], table.y_test[:n_test])


def _uci(name: str, split: int) -> Samples:
    train = load_uci(name, split, return_X_y=True)
    return Samples(*train, *load_uci(name, split, subset="test", return_X_y=True))


def load_images(name: str, n_images: int) -> tuple[NDArray[np.float32], str]:
    """Return float32 images (n, c, h, w) in [0, 1] and where they are from."""
    source = Path(os.environ.get("SKCONVGP_DATA", "")) / f"{name}.npz"
    if source.is_file():
        with np.load(source) as file:
            found = file["x_train"][:n_images].reshape(-1, *SHAPES[name])
        return (found / np.float32(255)).astype(np.float32), source.name
    return generated(n_images, SHAPES[name]), "generated"


def generated(n_images: int, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Return smooth random images: the speed depends on the size only."""
    rng = np.random.default_rng(0)
    channels, height, width = shape
    rows = np.arange(height)[:, None] / height
    columns = np.arange(width) / width
    waves = rng.uniform(0, 9, size=(2, n_images, channels, 1, 1))
    phase = rng.uniform(0, 6, size=(n_images, channels, 1, 1))
    found = 0.5 + 0.5 * np.sin(waves[0] * rows + waves[1] * columns + phase)
    return found.astype(np.float32)
