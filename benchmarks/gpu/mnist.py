"""All of MNIST, exactly: seconds, memory and errors on the test images."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from scipy.special import softmax

from benchmarks.gpu.card import seconds_of
from benchmarks.models import NETWORKS
from benchmarks.report import Figures
from skconvgp import ConvNetGPClassifier, gram_diag
from skconvgp.datasets import fetch_mnist
from skconvgp.inference import stacking_weights

SUM = "sum"  # of the three networks, each with a mean variance of 1
MIXTURES = ("mixture by evidence", "mixture by stacking")  # of the three networks
N_TRAIN, N_TEST = 60_000, 10_000
PUBLISHED_TRAIN = slice(5000, 55_000)  # the others are its validation set
N_SCALED = 500  # images for the mean variance


def load(options: Any) -> dict[str, tuple[Any, Any]]:
    """Return images and labels of each part: train, test, and maybe validation."""
    X, y = fetch_mnist(return_X_y=True)
    n_test = options.n_test
    parts = {"test": fetch_mnist(subset="test", n_samples=n_test, return_X_y=True)}
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
) -> tuple[Figures, ConvNetGPClassifier]:
    """Fit, predict and count; return the figures and the classifier."""
    X, y = parts["train"]
    device = options.device
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    gp = ConvNetGPClassifier(
        build(name, X),
        noise_variance=1e-4,
        device=str(device),
        backend=options.backend,
        dtype="float32",
        verbose=1,
    )
    fit_seconds = seconds_of(lambda: gp.fit(X, y), device)
    report = gp.fit_report_
    row = place_of(name, parts, options) | {
        "backend": report.backend,
        "backend_reason": report.backend_reason,
        "solver": report.solver,
        "solver_reason": report.solver_reason,
        "jitter": report.jitter,
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
    return row, gp


def place_of(name: str, parts: dict[str, tuple[Any, Any]], options: Any) -> Figures:
    """Return what tells a row from others."""
    return {
        "kernel": name,
        "split": "published" if options.published_split else "all",
        "n_train": len(parts["train"][0]),
        "n_test": len(parts["test"][0]),
    }


@dataclass(frozen=True)
class Member:
    """What is left of a fit for a mixture: the factor of another one needs the room."""

    name: str
    evidence: float
    own: Any  # probabilities of the training labels, each sample left out
    y_prob: Any  # of the test images
    classes: Any

    @classmethod
    def of(cls, name: str, gp: Any, parts: dict[str, tuple[Any, Any]]) -> Self:
        """Ask a fitted classifier."""
        codes = np.searchsorted(gp.classes_, parts["train"][1])
        left_out = gp.loo_predict_proba()[np.arange(len(codes)), codes]
        y_prob = gp.predict_proba(parts["test"][0])
        return cls(name, gp.log_marginal_likelihood(), left_out, y_prob, gp.classes_)


def measure_mixtures(
    members: list[Member], parts: dict[str, tuple[Any, Any]], options: Any
) -> list[Figures]:
    """Return the test errors of mixtures, as `KernelEnsembleClassifier` mixes."""
    y_test = parts["test"][1]
    # Of k columns of a label code that add up to zero, k - 1 count.
    share = 1.0 - 1.0 / members[0].y_prob.shape[1]
    own = torch.from_numpy(np.column_stack([member.own for member in members]))
    weights = (
        softmax([share * member.evidence for member in members]),
        stacking_weights(own, torch.ones(len(own), dtype=own.dtype)).numpy(),
    )
    rows = []
    for name, shares in zip(MIXTURES, weights, strict=True):
        y_prob = sum(w * one.y_prob for w, one in zip(shares, members, strict=True))
        error = float(np.mean(members[0].classes[y_prob.argmax(1)] != y_test))
        told = dict(zip([one.name for one in members], shares.tolist(), strict=True))
        rows.append(
            place_of(name, parts, options) | {"weights": told, "test_error": error}
        )
    return rows


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
        return NETWORKS[name]()
    parts = []
    for network in NETWORKS.values():
        diag = gram_diag(network(), X[:N_SCALED], device="cpu", dtype="float64")
        parts.append(float(1.0 / diag.mean()) * network())
    return parts[0] + parts[1] + parts[2]
