"""The data that probabilities are judged on."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import RobustScaler

from skconvgp.datasets import fetch_mnist, load_uci

TABLES = ("magic", "htru2", "eeg_eye_state")
IMAGES = {"mnist 1000": 1000, "mnist 5000": 5000}
TASKS = (*IMAGES, *TABLES)
# Some values of eeg_eye_state are a hundred times the others: quartiles scale, and
# what is left is cut.
FARTHEST = 10.0


@dataclass(frozen=True)
class Task:
    """Samples to learn from, and samples to be judged on."""

    name: str
    split: int
    X: NDArray[Any]
    y: NDArray[Any]
    X_test: NDArray[Any]
    y_test: NDArray[Any]

    @property
    def has_images(self) -> bool:
        """Whether samples are images."""
        return self.X.ndim == 4

    @property
    def rows(self) -> NDArray[Any]:
        """Training samples as rows."""
        return self.X.reshape(len(self.X), -1)

    @property
    def test_rows(self) -> NDArray[Any]:
        """Test samples as rows."""
        return self.X_test.reshape(len(self.X_test), -1)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(np.unique(self.y))


def load(name: str, split: int, n_train: int, n_test: int | None) -> Task:
    """Return a task; `n_train` is for tables."""
    if name in IMAGES:
        n_images = min(IMAGES[name], n_train) if n_test else IMAGES[name]
        X, y = fetch_mnist(n_samples=n_images, return_X_y=True)
        test = fetch_mnist(subset="test", n_samples=n_test, return_X_y=True)
        return Task(name, split, X, y, *test)
    X, y = load_uci(name, split, return_X_y=True)
    X_test, y_test = load_uci(name, split, subset="test", return_X_y=True)
    X, y = X[:n_train], y[:n_train]
    scaler = RobustScaler().fit(X)
    X, X_test = (
        np.clip(scaler.transform(part), -FARTHEST, FARTHEST) for part in (X, X_test)
    )
    return Task(name, split, X, y, X_test[:n_test], y_test[:n_test])
