"""A small convolutional network with a prior of functions, and the exact process.

Learning rate, number of steps and the noise of the prior of functions have the least
log loss on the last fifth of the training images, and then all of them are learned. The
prior of functions has the variance that the exact process finds most probable. All
probabilities are calibrated, those of networks as by default.
"""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from calibrating.report import judge
from calibrating.source import Figures
from numpy.typing import NDArray
from peers.pipe import Stopwatch
from sklearn.exceptions import ConvergenceWarning
from torch import nn

from drawing.place import ran_on
from skconvgp import BayesianNetworkClassifier, ConvNetGPClassifier, gram_diag
from skconvgp.completion import Nystrom
from skconvgp.datasets import fetch_mnist
from skconvgp.kernels import Kernel, convnet

EXACT = "exact process"
FUNCTIONS, WEIGHTS = "network, prior of functions", "network, prior of weights"
FLAT = "network, prior of functions of variance 1"
FUNCTION_ENSEMBLE = "network, prior of functions, ensemble"
ENSEMBLE = "network, ensemble"
NAMES = (EXACT, FUNCTIONS, FLAT, FUNCTION_ENSEMBLE, WEIGHTS, ENSEMBLE)
N_TEST, N_DRAWS = 1000, 8
DEPTH, WINDOW = 7, 3  # of the network whose prior the small one gets
RATES = (0.01, 0.03, 0.1)
FEW, MANY = 200, 900  # steps of the search for a rate, and of the training
LESS_NOISE = 1e-3  # of the prior of functions; 1e-2 is the default
MOST_AT_ONCE, BATCH, N_LANDMARKS = 1500, 500, 1000

Images = tuple[NDArray[Any], NDArray[Any]]


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
    n: int,
    side: int,
    effort: float,
    rates: list[float],
    device: str,
    methods: list[str],
) -> Iterator[tuple[str, Figures]]:
    """Yield name and scores of each method; no method named is all."""
    X, y, X_test, y_test = load(n, side)
    kernel = convnet(depth=DEPTH, kernel_size=WINDOW)
    exact = ConvNetGPClassifier(
        kernel, likelihood="dirichlet", device=device, random_state=0
    )
    row = _fitted(exact, (X, y)) | _judged(exact, (X_test, y_test))
    if EXACT in methods or not methods:
        yield EXACT, row
    variance = float(np.mean(exact.amplitude_)) / _target_variance(y)
    unit = 1.0 / float(np.mean(gram_diag(kernel, X)))  # functions of mean variance 1
    search = Search(X, y, side, effort, rates, device)
    models = {
        FUNCTIONS: {"prior": variance * unit * kernel},
        FLAT: {"prior": unit * kernel},
        FUNCTION_ENSEMBLE: {
            "prior": variance * unit * kernel,
            "inference": "ensemble",
        },
        WEIGHTS: {},
        ENSEMBLE: {"inference": "ensemble", "likelihood": "softmax"},
    }
    variances = {FUNCTIONS: variance, FUNCTION_ENSEMBLE: variance, FLAT: 1.0}
    for name, settings in models.items():
        if name in methods or not methods:
            chosen, loss = search.best(settings)
            model = search.model(settings | chosen, n)
            row = _fitted(model, (X, y)) | _judged(model, (X_test, y_test))
            told = {"chosen": chosen, "validation_log_loss": loss}
            told |= {"prior_variance": variances.get(name)}
            yield name, row | told | {"tried": search.tried}


class Search:
    """The settings of training with the least log loss on held-out images.

    With one rate there is no search.
    """

    def __init__(
        self,
        X: NDArray[Any],
        y: NDArray[Any],
        side: int,
        effort: float,
        rates: list[float],
        device: str,
    ) -> None:
        cut = 4 * len(y) // 5
        self._few, self._apart = (X[:cut], y[:cut]), (X[cut:], y[cut:])
        self._side, self._effort, self._device = side, effort, device
        self._rates = rates
        self.tried: list[Figures] = []

    def best(self, settings: dict[str, Any]) -> tuple[dict[str, Any], float | None]:
        """Return settings of the training, and their loss."""
        self.tried = []
        few, many = (max(4, round(one * self._effort)) for one in (FEW, MANY))
        if len(self._rates) == 1:
            return {"learning_rate": self._rates[0], "max_iter": many}, None
        for rate in self._rates:
            self._try(settings, {"learning_rate": rate, "max_iter": few})
        rate = self._least()["learning_rate"]
        for one in (rate, rate / 3.0):
            self._try(settings, {"learning_rate": one, "max_iter": many})
        if isinstance(settings.get("prior"), Kernel):
            self._try(settings, self._least() | {"function_noise": LESS_NOISE})
        chosen = self._least()
        return chosen, min(one["log_loss"] for one in self.tried)

    def _least(self) -> dict[str, Any]:
        """Return the settings with the least loss so far."""
        best = min(self.tried, key=lambda one: float(one["log_loss"]))
        return dict(best["chosen"])

    def _try(self, settings: dict[str, Any], chosen: dict[str, Any]) -> None:
        model = self.model(settings | chosen, len(self._few[1]))
        try:
            _fitted(model, self._few)
            X, y = self._apart
            right = model.predict_proba(X)[np.arange(len(y)), y]
            loss = float(-np.log(np.maximum(right, 1e-12)).mean())
        except FloatingPointError:  # all draws diverged
            loss = float("inf")
        self.tried.append({"chosen": chosen, "log_loss": loss})

    def model(self, settings: dict[str, Any], n: int) -> BayesianNetworkClassifier:
        """Return networks that learn n images; `max_iter` counts steps."""
        usual: dict[str, Any] = {"n_draws": N_DRAWS, "optimizer": None}
        usual |= {"batch_size": None}
        usual |= {"device": self._device, "random_state": 0}
        if n > MOST_AT_ONCE:
            is_function = isinstance(settings.get("prior"), Kernel)
            per_epoch = -(-round(n * (1.1 if is_function else 1.0)) // BATCH)
            epochs = max(4, settings["max_iter"] // per_epoch)
            settings = settings | {"max_iter": epochs, "batch_size": BATCH}
            if is_function:
                part = Nystrom(min(N_LANDMARKS, n // 2), check_fraction=0.0)
                settings |= {"features": part}
        side = self._side
        return BayesianNetworkClassifier(
            network=lambda: small(side), **usual | settings
        )


def _target_variance(y: NDArray[Any]) -> float:
    """Return the variance of the unit of the networks, that of their targets."""
    model = BayesianNetworkClassifier((), max_iter=4, n_draws=1, optimizer=None)
    return float(model.fit(np.zeros((len(y), 1)), y).latent_scale_) ** 2


def _fitted(model: Any, samples: Images) -> Figures:
    watch = Stopwatch()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(*samples)
    found = watch.read()
    return {
        "fit_seconds": found["seconds"],
        "fit_cpu_seconds": found["cpu_seconds"],
        "device": model.device_,
    } | ran_on(model.device_)


def _judged(model: Any, samples: Images) -> Figures:
    watch = Stopwatch()
    probabilities = model.predict_proba(samples[0])
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    found = watch.read()
    return {
        "predict_seconds": found["seconds"],
        "predict_cpu_seconds": found["cpu_seconds"],
    } | judge(samples[1], probabilities)
