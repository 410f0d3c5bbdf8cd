"""The networks, where learning begins, and the parameters that were published."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.data import Array, Labelled, Validated, images
from benchmarks.flows.published import DENSE, SEVEN, THREE
from skconvgp.kernels import convnet, dense, three_layer_convnet

NETWORKS: dict[str, Callable[[], Any]] = {
    THREE: three_layer_convnet,
    SEVEN: convnet,
    DENSE: partial(dense, depth=2),
}
VALIDATION = 10_000  # the first training image that is for validation
LOG_UNIFORM, UNIFORM = "log-uniform", "uniform"
# Of both variances, per location where the network is convolutional.
LOWEST, HIGHEST = 0.01, 100.0


def draw_starts(kind: str, n: int) -> Array:
    """Return logarithms of weight and bias variance (n, 2).

    "uniform" is between 0 and the highest, as the source drew them.
    """
    shares = np.random.default_rng(0).uniform(size=(n, 2))
    if kind == UNIFORM:
        return np.log(HIGHEST * shares)
    low, high = np.log([LOWEST, HIGHEST])
    return low + shares * (high - low)


def published_kernels(network: str) -> dict[str, Any]:
    """Return kernels with parameters that were published, by name.

    The source took the variance per location of hidden layers for that of the window:
    49 times too small.
    """
    if network != SEVEN:
        return {}
    ours = convnet()
    small = (ours.weight_variance,) * len(ours.fan_ins)
    return {
        "published": ours,
        "published, hidden / 49": ours.unshared().replace(weight_variance=small),
    }


def load(name: str, n_train: int, n_new: int) -> Validated:
    """Return images; n_new for validation and as many for tests."""
    whole = images(name, VALIDATION + n_new, n_new)
    X, y = whole.X, whole.y
    return Validated(
        Labelled(X, y).first(n_train),
        Labelled(X[VALIDATION:], y[VALIDATION:]),
        Labelled(whole.X_test, whole.y_test),
    )
