"""Training images that are drawn with equally many of each class, and test images."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skconvgp.datasets import fetch_cifar10, fetch_mnist, load_digits_images

N_CLASSES = 10
PHOTOGRAPHS = ("cifar10",)
# Of 1797 digits, those that are not drawn are test images.
SIZES = {"digits": (500, 1000), "mnist": (500, 1000, 5000)}
SIZES["cifar10"] = SIZES["mnist"]
DRAWS = range(3)


class Split(NamedTuple):
    """Images (n, c, h, w) as float32 and labels, for training and for tests."""

    X: NDArray[Any]
    y: NDArray[Any]
    X_test: NDArray[Any]
    y_test: NDArray[Any]


def balanced(y: NDArray[Any], n: int, draw: int) -> NDArray[Any]:
    """Return indices of equally many images of each class, which take turns."""
    order = np.random.RandomState(draw).permutation(len(y))
    each = [order[y[order] == label][: n // N_CLASSES] for label in np.unique(y)]
    return np.stack(each, 1).ravel()


def split(data: str, n_train: int, draw: int) -> Split:
    """Return a draw of training images, and all test images."""
    if data == "digits":
        X, y = load_digits_images(return_X_y=True)
        chosen = balanced(y, n_train, draw)
        left = np.delete(np.arange(len(y)), chosen)
        pairs = (X[chosen], y[chosen]), (X[left], y[left])
    else:
        fetch = {"mnist": fetch_mnist, "cifar10": fetch_cifar10}[data]
        X, y = fetch(subset="train", return_X_y=True)
        chosen = balanced(y, n_train, draw)
        pairs = (X[chosen], y[chosen]), fetch(subset="test", return_X_y=True)
    return Split(*(part for X, y in pairs for part in (_as_images(X), y)))


def _as_images(X: NDArray[Any]) -> NDArray[Any]:
    X = X if X.ndim == 4 else X[:, None]
    return np.ascontiguousarray(X, dtype=np.float32)
