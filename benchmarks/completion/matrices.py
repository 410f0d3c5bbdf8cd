"""Completions of a matrix that is there: the source's method, random entries."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from benchmarks.completion.strategies import NOISE
from benchmarks.data import Array, Validated
from benchmarks.measure import Stopwatch, accuracies, unwarned
from benchmarks.report import Figures
from skconvgp import ConvNetGPClassifier, gram_matrix

ROWS = 1000  # of the error of a matrix at a time


class StoredMatrix:
    """A symmetric matrix as completions see it; it knows what they have seen."""

    def __init__(self, matrix: Array) -> None:
        self._matrix = torch.from_numpy(matrix)
        self._is_seen = torch.eye(len(matrix), dtype=torch.bool)

    @property
    def n_samples(self) -> int:
        return len(self._matrix)

    def diag(self) -> Tensor:
        return self._matrix.diagonal().to(torch.float64)

    def block(self, rows: Tensor | None, cols: Tensor | None) -> Tensor:
        everything = torch.arange(self.n_samples)
        rows = everything if rows is None else rows
        cols = everything if cols is None else cols
        self._is_seen[rows[:, None], cols] = True
        self._is_seen[cols[:, None], rows] = True
        return self._matrix[rows[:, None], cols].to(torch.float64)

    def share(self) -> float:
        """Return the share of the distinct entries that was seen."""
        n = self.n_samples
        on_and_off = int(self._is_seen.sum()) + int(self._is_seen.diagonal().sum())
        return on_and_off / (n * (n + 1))

    def relative_rmse(self, factor: Tensor) -> float:
        """Return the error of all entries that were not seen."""
        total, count = 0.0, 0
        for rows in torch.arange(self.n_samples).split(ROWS):
            error = factor[rows] @ factor.mT - self._matrix[rows]
            rest = error[~self._is_seen[rows]]
            total, count = total + float(rest.square().sum()), count + len(rest)
        spread = float(self._matrix.max() - self._matrix.min())
        return math.sqrt(total / count) / spread


@dataclass(frozen=True)
class Covariances:
    """Of the training images with each other, and of new ones with them, by name."""

    gram: Array
    cross: dict[str, Array]

    @classmethod
    def of(cls, kernel: Any, split: Validated) -> Self:
        """Evaluate all of them."""
        X = split.train.X
        cross = split.both(lambda X_new: gram_matrix(kernel, X_new, X))
        return cls(gram_matrix(kernel, X, dtype="float32"), cross)

    def changed(self, change: Callable[[Array], Array]) -> Self:
        """Return what becomes of all rows."""
        cross = {name: change(rows) for name, rows in self.cross.items()}
        return type(self)(change(self.gram), cross)

    def weighted(self, weight: float, other: Self) -> Self:
        """Return a sum in which `other` has the rest of the mean variance."""
        mine = weight / self.gram.diagonal().mean()
        rest = (1.0 - weight) / other.gram.diagonal().mean()
        cross = {
            name: mine * rows + rest * other.cross[name]
            for name, rows in self.cross.items()
        }
        return type(self)(mine * self.gram + rest * other.gram, cross)


def judge_matrix(
    covariances: Covariances, split: Validated, solver: str = "cholesky"
) -> Figures:
    """Return the accuracies of a process of which the covariances are given."""
    gp = ConvNetGPClassifier("precomputed", noise_variance=NOISE, solver=solver)
    with unwarned():
        gp.fit(covariances.gram, split.train.y)
    values = {name: gp.predict_proba(rows) for name, rows in covariances.cross.items()}
    return accuracies(values, gp.classes_, split)


def measure_mixed(
    exact: Covariances, name: str, method: Any, fraction: float
) -> tuple[Covariances, Figures]:
    """Return the covariances of the source's method, and what they are.

    That is a dense completed matrix, and exact covariances of new images.
    """
    oracle = StoredMatrix(exact.gram)
    done = method.complete(oracle, fraction, torch.Generator().manual_seed(0))
    told = {"strategy": name, "fraction": fraction, "share": oracle.share()}
    told["relative_rmse"] = oracle.relative_rmse(done.factor)
    return replace(exact, gram=(done.factor @ done.factor.mT).numpy()), told


def complete_random(n: int, missing: float, name: str, method: Any) -> Figures:
    """Return error and minutes of a core for a matrix with entries from U(0, 1)."""
    rng = np.random.default_rng(0)
    upper = np.triu(rng.uniform(size=(n, n)))
    oracle = StoredMatrix(upper + np.triu(upper, 1).T)
    watch = Stopwatch()
    done = method.complete(oracle, 1.0 - missing, torch.Generator().manual_seed(0))
    seconds = watch.read()["cpu_seconds"]
    return {
        "strategy": name,
        "n": n,
        "missing": missing,
        "share": oracle.share(),
        "relative_rmse": oracle.relative_rmse(done.factor),
        "minutes": seconds / 60.0,
        "rank": done.factor.shape[1],
        "converged": done.converged,
    }
