"""A small convolutional network with a prior of functions, and the exact process."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from calibrating.report import judge
from calibrating.source import Figures
from numpy.typing import NDArray
from peers.pipe import Stopwatch
from sklearn.exceptions import ConvergenceWarning
from torch import nn

from skconvgp import BayesianNetworkClassifier, ConvNetGPClassifier, gram_diag
from skconvgp.datasets import fetch_mnist
from skconvgp.kernels import convnet

EXACT = "exact process"
FUNCTIONS, WEIGHTS = "network, prior of functions", "network, prior of weights"
ENSEMBLE = "network, ensemble"
N_TEST, N_DRAWS = 1000, 8
DEPTH, WINDOW = 7, 3  # of the network whose prior the small one gets


def load(n: int, side: int) -> tuple[NDArray[Any], ...]:
    """Return images to learn from and to judge, and their labels.

    Images of 14 x 14 pixels are means of 2 x 2.
    """
    X, y = fetch_mnist(return_X_y=True)
    X_test, y_test = fetch_mnist(subset="test", return_X_y=True)
    both = [np.asarray(one, dtype=np.float64) for one in (X[:n], X_test[:N_TEST])]
    step = 28 // side
    images = [one.reshape(-1, side, step, side, step).mean((2, 4)) for one in both]
    top = images[0].max()
    return images[0] / top, y[:n], images[1] / top, y_test[:N_TEST]


def small(side: int) -> nn.Module:
    """Return a network of two convolutions and a linear layer."""
    after = (side - 3) // 2 + 1
    after = (after - 3) // 2 + 1
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2),
        nn.Tanh(),
        nn.Conv2d(8, 16, 3, stride=2),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(16 * after**2, 10),
    )


def measure(
    n: int, side: int, max_iter: int, learning_rate: float
) -> Iterator[tuple[str, Figures]]:
    """Yield name and scores of each method."""
    X, y, X_test, y_test = load(n, side)
    kernel = convnet(depth=DEPTH, kernel_size=WINDOW)
    exact = ConvNetGPClassifier(kernel, likelihood="dirichlet", random_state=0)
    yield EXACT, _judged(exact, X, y, X_test, y_test)
    unit = 1.0 / float(np.mean(gram_diag(kernel, X)))  # functions of mean variance 1
    usual = {
        "network": lambda: small(side),
        "n_draws": N_DRAWS,
        "max_iter": max_iter,
        "learning_rate": learning_rate,
        "optimizer": None,
        "random_state": 0,
    }
    models = {
        FUNCTIONS: {"prior": unit * kernel},
        WEIGHTS: {},
        ENSEMBLE: {"inference": "ensemble", "likelihood": "softmax"},
    }
    for name, settings in models.items():
        model = BayesianNetworkClassifier(**usual | settings)
        yield name, _judged(model, X, y, X_test, y_test)


def _judged(
    model: Any,
    X: NDArray[Any],
    y: NDArray[Any],
    X_test: NDArray[Any],
    y_test: NDArray[Any],
) -> Figures:
    watch = Stopwatch()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    fitted = watch.read()["cpu_seconds"]
    watch = Stopwatch()
    probabilities = model.predict_proba(X_test)
    seconds = watch.read()["cpu_seconds"]
    return {"fit_cpu_seconds": fitted, "predict_cpu_seconds": seconds} | judge(
        y_test, probabilities
    )
