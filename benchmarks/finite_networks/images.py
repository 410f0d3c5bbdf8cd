"""A small convolutional network with a prior of functions, and the exact process.

Networks are trained as by default, but for batches with a prior of functions. That has
the variance that the exact process finds most probable, and of some noises the one with
the least log loss on the last fifth of the training images, before all of them are
learned. All probabilities are calibrated.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.data import Array
from benchmarks.measure import Stopwatch, judge, ran_on, unwarned
from benchmarks.report import Figures
from skconvgp import BayesianNetworkClassifier, ConvNetGPClassifier, gram_diag
from skconvgp.completion import Nystrom
from skconvgp.datasets import fetch_mnist
from skconvgp.kernels import convnet

EXACT, DEFAULT = "exact process", "exact process of the default network"
FUNCTIONS, WEIGHTS = "network, prior of functions", "network, prior of weights"
FLAT = "network, prior of functions of variance 1"
ENSEMBLE = "network, ensemble"
NAMES = (EXACT, DEFAULT, FUNCTIONS, FLAT, WEIGHTS, ENSEMBLE)
N_TEST, N_DRAWS = 1000, 8
DEPTH, WINDOW = 7, 3  # of the network whose prior the small one gets
NOISES = (1e-2, 1e-1)  # of the prior of functions; 1e-2 is the default
EPOCHS = 1500  # with a prior of functions, times the effort if that is not 1
# Steps with it read all of few images, and some of many, by features of its kernel.
MOST_AT_ONCE, BATCH, N_LANDMARKS = 2000, 512, 1000
# What the variance of the prior does is measured on few small images.
MOST_FLAT, SIDE_FLAT = 1000, 14

Images = tuple[Array, Array]


def load(n: int, side: int) -> tuple[Array, ...]:
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
    noises: list[float],
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
    if DEFAULT in methods or not methods:
        usual = ConvNetGPClassifier(device=device, random_state=0)
        yield DEFAULT, _fitted(usual, (X, y)) | _judged(usual, (X_test, y_test))
    variance = float(np.mean(exact.amplitude_)) / _target_variance(y)
    unit = 1.0 / float(np.mean(gram_diag(kernel, X)))  # functions of mean variance 1
    models: dict[str, dict[str, Any]] = {
        FUNCTIONS: {"prior": variance * unit * kernel},
        FLAT: {"prior": unit * kernel},
        WEIGHTS: {},
        ENSEMBLE: {"inference": "ensemble", "likelihood": "softmax"},
    }
    if n > MOST_FLAT or side > SIDE_FLAT:
        del models[FLAT]
    variances = {FUNCTIONS: variance, FLAT: 1.0}
    batch_size = None if n <= MOST_AT_ONCE else BATCH
    for name, settings in models.items():
        if name in methods or not methods:
            maker = Maker(side, effort, device, batch_size, settings)
            losses = maker.losses(X, y, noises) if "prior" in settings else {}
            noise = min(losses, key=lambda one: losses[one], default=None)
            model = maker.make(n, noise)
            row = _fitted(model, (X, y)) | _judged(model, (X_test, y_test))
            told = {"function_noise": noise, "held_out_log_losses": losses}
            yield name, row | told | {"prior_variance": variances.get(name)}


@dataclass(frozen=True)
class Maker:
    """Makes networks with some settings."""

    side: int  # of the images
    effort: float  # multiplies the steps of networks with a prior of functions
    device: str  # where they are trained
    batch_size: int | None  # images of their steps, if they have a prior of functions
    settings: dict[str, Any]  # those of the method

    def losses(
        self, X: Array, y: Array, noises: list[float]
    ) -> dict[float, float | None]:
        """Return log losses of noises on held-out images; one noise is not judged."""
        if len(noises) == 1:
            return {noises[0]: None}
        cut = 4 * len(y) // 5
        found: dict[float, float | None] = {}
        for noise in noises:
            model = self.make(cut, noise)
            try:
                _fitted(model, (X[:cut], y[:cut]))
            except FloatingPointError:  # all networks diverged
                found[noise] = math.inf
                continue
            right = model.predict_proba(X[cut:])[np.arange(len(y) - cut), y[cut:]]
            found[noise] = float(-np.log(np.maximum(right, 1e-12)).mean())
        return found

    def make(self, n: int, noise: float | None) -> BayesianNetworkClassifier:
        """Return networks that learn n images."""
        side, usual = self.side, {"n_draws": N_DRAWS, "optimizer": None}
        usual |= {"device": self.device, "random_state": 0}
        if noise is not None:
            part = Nystrom(min(N_LANDMARKS, n // 2), check_fraction=0.0)
            usual |= {"function_noise": noise, "features": part}
            usual |= {"batch_size": self.batch_size}
        model = BayesianNetworkClassifier(
            network=lambda: small(side), **usual, **self.settings
        )
        if noise is not None and self.effort != 1.0:
            model.set_params(max_iter=max(4, round(EPOCHS * self.effort)))
        return model


def _target_variance(y: Array) -> float:
    """Return the variance of the unit of the networks, that of their targets."""
    model = BayesianNetworkClassifier((), max_iter=4, n_draws=1, optimizer=None)
    return float(model.fit(np.zeros((len(y), 1)), y).latent_scale_) ** 2


def _fitted(model: Any, samples: Images) -> Figures:
    watch = Stopwatch()
    with unwarned():
        model.fit(*samples)
    row = watch.read("fit_") | {"device": model.device_}
    return row | ran_on(model.device_)


def _judged(model: Any, samples: Images) -> Figures:
    watch = Stopwatch()
    probabilities = model.predict_proba(samples[0])
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return watch.read("predict_") | judge(samples[1], probabilities)
