"""All of MNIST, exactly: seconds, memory and errors on the test images."""

from typing import Any

import numpy as np
import torch
from peers.ours import KERNELS

from on_gpu.card import seconds_of
from skconvgp import ConvNetGPClassifier, gram_diag
from skconvgp.datasets import fetch_mnist

Figures = dict[str, Any]

SUM = "sum"  # of the three networks, each with a mean variance of 1
N_TRAIN, N_TEST = 60_000, 10_000
PUBLISHED_TRAIN = slice(5000, 55_000)  # the others are its validation set
N_SCALED = 500  # images for the mean variance


def load(options: Any) -> dict[str, tuple[Any, Any]]:
    """Return images and labels of each part: train, test, and maybe validation."""
    X, y, X_test, y_test = fetch_mnist(n_test=options.n_test)
    parts = {"test": (X_test, y_test)}
    if options.published_split:
        is_training = np.zeros(len(X), dtype=bool)
        is_training[PUBLISHED_TRAIN] = True
        parts["validation"] = X[~is_training], y[~is_training]
        X, y = X[is_training], y[is_training]
    return parts | {"train": (X[: options.n_train], y[: options.n_train])}


def is_complete(row: Figures) -> bool:
    """Say whether a row is of all images, as targets are."""
    n_train = PUBLISHED_TRAIN.stop - PUBLISHED_TRAIN.start
    return row["n_train"] >= n_train and row["n_test"] == N_TEST


def measure_mnist(
    name: str, parts: dict[str, tuple[Any, Any]], options: Any
) -> Figures:
    """Fit, predict and count."""
    X, y = parts["train"]
    device = options.device
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    gp = ConvNetGPClassifier(
        build(name, X),
        device=str(device),
        backend=options.backend,
        dtype="float32",
        verbose=1,
    )
    fit_seconds = seconds_of(lambda: gp.fit(X, y), device)
    report = gp.fit_report_
    row = {
        "kernel": name,
        "split": "published" if options.published_split else "all",
        "n_train": len(X),
        "n_test": len(parts["test"][0]),
        "backend": report.backend,
        "backend_reason": report.backend_reason,
        "gram_seconds": report.gram_seconds,
        "solve_seconds": report.solve_seconds,
        "fit_seconds": fit_seconds,
    }
    for part in parts.keys() - {"train"}:
        predict = Prediction(gp, *parts[part])
        row[f"{part}_seconds"] = seconds_of(predict, device)
        row[f"{part}_error"] = predict.error
    row["seconds"] = fit_seconds + row["test_seconds"]
    row["peak_bytes"] = report.peak_memory
    if device.type == "cuda":
        row["peak_bytes"] = torch.cuda.max_memory_allocated(device)
    return row


class Prediction:
    """Predicts when it is called, and keeps the share of wrong labels."""

    def __init__(self, gp: Any, X: Any, y: Any) -> None:
        self._gp, self._X, self._y = gp, X, y
        self.error = 1.0

    def __call__(self) -> None:
        self.error = float(np.mean(self._gp.predict(self._X) != self._y))


def build(name: str, X: Any) -> Any:
    """Return a network, or the sum of all of them."""
    if name != SUM:
        return KERNELS[name]()
    parts = []
    for network in KERNELS.values():
        diag = gram_diag(network(), X[:N_SCALED], device="cpu", dtype="float64")
        parts.append(float(1.0 / diag.mean()) * network())
    return parts[0] + parts[1] + parts[2]
