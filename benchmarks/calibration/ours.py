"""Gaussian processes of the package: kernels by evidence, then every likelihood."""

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.metrics import log_loss

from benchmarks.data import Samples
from benchmarks.measure import Stopwatch
from benchmarks.report import Figures
from skconvgp import ConvNetGPClassifier, KernelEnsembleClassifier
from skconvgp.kernels import convnet, dense, rbf
from skconvgp.likelihoods import Beta, Dirichlet, Gaussian

DEFAULT, STACKED = "default", "stacked"
GAUSSIAN, LAPLACE = "gaussian", "laplace"
NAMES = (
    GAUSSIAN,
    "gaussian, offsets",
    "gaussian, no spread",
    "dirichlet",
    LAPLACE,
    "beta",
)
TABLE_KERNELS = {"rbf": rbf(1.0), "dense": dense(2)}
LITTLE = 1e-6  # noise beside that of the labels


@dataclass(frozen=True)
class Learned:
    """A kernel, its noise variance, and the seconds that both took."""

    kernel: Any
    noise: float
    seconds: float = 0.0

    def classifier(self, likelihood: Any) -> ConvNetGPClassifier:
        """Return a classifier with them."""
        return ConvNetGPClassifier(
            self.kernel, noise_variance=self.noise, likelihood=likelihood
        )


def likelihoods(task: Samples, names: Collection[str]) -> dict[str, Any]:
    """Return those that are asked for and that the task allows, by name."""
    found: dict[str, Any] = {
        GAUSSIAN: "gaussian",
        "gaussian, offsets": Gaussian(offsets=True),
        "gaussian, no spread": Gaussian(spread=False),
        "dirichlet": Dirichlet("loo"),
        LAPLACE: "laplace",
    }
    if len(np.unique(task.y)) == 2:
        found["beta"] = Beta("loo")
    return {name: each for name, each in found.items() if name in names}


def measure(
    task: Samples, names: Collection[str] = NAMES
) -> Iterator[tuple[str, Figures, Any]]:
    """Yield name, cost and choices, and probabilities of the test samples."""
    chosen = likelihoods(task, names)
    if task.X.ndim == 4:
        yield from _judge(task, chosen, {"convnet": Learned(convnet(), 1e-4)})
        return
    # Laplace has the evidence of labels as labels, the others that of label regression.
    of_labels = {LAPLACE: chosen.pop(LAPLACE)} if LAPLACE in chosen else {}
    if chosen:
        learned = {name: _learn(task, one) for name, one in TABLE_KERNELS.items()}
        yield from _judge(task, chosen, learned)
    if GAUSSIAN in chosen:
        yield _stacked(task, learned)
    for name, kernel in TABLE_KERNELS.items() if of_labels else ():
        own = _learn(task, kernel, likelihood="laplace", noise_variance=LITTLE)
        yield from _judge(task, of_labels, {name: own})


def _learn(task: Samples, kernel: Any, **settings: Any) -> Learned:
    """Return what maximises the evidence; settings are those of the likelihood."""
    usual = {"noise_variance": "evidence", "random_state": 0}
    gp = ConvNetGPClassifier(kernel, optimizer="evidence", **usual | settings)
    watch = Stopwatch()
    gp.fit(task.X, task.y)
    return Learned(gp.kernel_, gp.noise_variance_, watch.read()["seconds"])


def _stacked(task: Samples, learned: dict[str, Learned]) -> tuple[str, Figures, Any]:
    """Return what label regression with all kernels says together."""
    members = [(name, one.classifier("gaussian")) for name, one in learned.items()]
    watch = Stopwatch()
    ensemble = KernelEnsembleClassifier(members, weights="stacking")
    ensemble.fit(task.X, task.y)
    seconds = watch.read()["seconds"] + sum(one.seconds for one in learned.values())
    row = {"fit_seconds": seconds, "weights": list(ensemble.weights_)}
    return STACKED, row, ensemble.predict_proba(task.X_test)


def _judge(
    task: Samples, chosen: dict[str, Any], learned: dict[str, Learned]
) -> Iterator[tuple[str, Figures, Any]]:
    """Yield each likelihood with each kernel; last the default, by leave-one-out.

    The default has taken as long as the fits of all kernels that it was chosen from.
    """
    best, least, total = None, math.inf, 0.0
    for kernel_name, one in learned.items():
        for name, likelihood in chosen.items():
            # But for label regression, the labels fix the noise.
            is_ours = name.startswith(GAUSSIAN)
            gp = (one if is_ours else replace(one, noise=LITTLE)).classifier(likelihood)
            watch = Stopwatch()
            gp.fit(task.X, task.y)
            fit_seconds = one.seconds + watch.read()["seconds"]
            left_out = float(
                log_loss(task.y, gp.loo_predict_proba(), labels=gp.classes_)
            )
            row = {
                "fit_seconds": fit_seconds,
                "kernel": repr(one.kernel),
                "noise_variance": float(gp.noise_variance_),
                "amplitude": float(np.max(gp.amplitude_)),
                "likelihood": repr(gp.likelihood_),
                "loo_log_loss": left_out,
            }
            probabilities = gp.predict_proba(task.X_test)
            yield f"{kernel_name}, {name}", row, probabilities
            if name != GAUSSIAN:
                continue
            total += fit_seconds
            if left_out < least:
                best = row | {"kernel_name": kernel_name}, probabilities
                least = left_out
    if best is not None:
        yield DEFAULT, best[0] | {"fit_seconds": total}, best[1]
