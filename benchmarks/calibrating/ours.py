"""Gaussian processes of the package: kernels by evidence, then every likelihood."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from peers.pipe import Stopwatch
from sklearn.metrics import log_loss

from calibrating.source import Figures
from calibrating.tasks import Task
from skconvgp import ConvNetGPClassifier, KernelEnsembleClassifier
from skconvgp.kernels import convnet, dense, rbf
from skconvgp.likelihoods import Beta, Dirichlet, Gaussian

DEFAULT, STACKED = "default", "stacked"
TABLE_KERNELS = {"rbf": rbf(), "dense": dense(2)}


def likelihoods(task: Task) -> dict[str, Any]:
    """Return those that the task allows, by name."""
    found: dict[str, Any] = {
        "gaussian": "gaussian",
        "gaussian, offsets": Gaussian(offsets=True),
        "gaussian, temperature alone": Gaussian(spread=False),
        "dirichlet": Dirichlet("loo"),
        "laplace": "laplace",
    }
    if task.n_classes == 2:
        found["beta"] = Beta("loo")
    return found


def measure(task: Task) -> Iterator[tuple[str, Figures, Any]]:
    """Yield name, cost and choices, and probabilities of the test samples."""
    if task.has_images:
        yield from _judge(task, {"convnet": (convnet(), 1e-4, 0.0)})
        return
    learned, members = {}, []
    for name, kernel in TABLE_KERNELS.items():
        watch = Stopwatch()
        gp = ConvNetGPClassifier(
            kernel, optimizer="evidence", noise_variance="evidence", random_state=0
        )
        gp.fit(task.X, task.y)
        seconds = watch.read()["seconds"]
        learned[name] = gp.kernel_, gp.noise_variance_, seconds
        members.append((name, _fixed(gp.kernel_, gp.noise_variance_, "gaussian")))
    yield from _judge(task, learned)
    watch = Stopwatch()
    ensemble = KernelEnsembleClassifier(members, weights="stacking")
    ensemble.fit(task.X, task.y)
    seconds = watch.read()["seconds"] + sum(each[2] for each in learned.values())
    row = {"fit_seconds": seconds, "weights": list(ensemble.weights_)}
    yield STACKED, row, ensemble.predict_proba(task.X_test)


def _judge(
    task: Task, learned: dict[str, tuple[Any, float, float]]
) -> Iterator[tuple[str, Figures, Any]]:
    """Yield each likelihood with each kernel; last the default, by leave-one-out.

    The default has taken as long as the fits of all kernels that it was chosen from.
    """
    best, least, total = None, math.inf, 0.0
    for kernel_name, (kernel, noise, seconds) in learned.items():
        for name, likelihood in likelihoods(task).items():
            # But for label regression, the labels fix the noise.
            is_ours = name.startswith("gaussian")
            gp = _fixed(kernel, noise if is_ours else 1e-6, likelihood)
            watch = Stopwatch()
            gp.fit(task.X, task.y)
            fit_seconds = seconds + watch.read()["seconds"]
            left_out = float(
                log_loss(task.y, gp.loo_predict_proba(), labels=gp.classes_)
            )
            row = {
                "fit_seconds": fit_seconds,
                "kernel": repr(kernel),
                "noise_variance": float(gp.noise_variance_),
                "amplitude": float(np.max(gp.amplitude_)),
                "likelihood": repr(gp.likelihood_),
                "loo_log_loss": left_out,
            }
            probabilities = gp.predict_proba(task.X_test)
            yield f"{kernel_name}, {name}", row, probabilities
            if name != "gaussian":
                continue
            total += fit_seconds
            if left_out < least:
                best = row | {"kernel_name": kernel_name}, probabilities
                least = left_out
    assert best is not None
    yield DEFAULT, best[0] | {"fit_seconds": total}, best[1]


def _fixed(kernel: Any, noise: float, likelihood: Any) -> ConvNetGPClassifier:
    return ConvNetGPClassifier(kernel, noise_variance=noise, likelihood=likelihood)
