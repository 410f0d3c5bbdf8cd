"""Completions of a matrix that is there: the source's method, random entries."""

import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from peers.pipe import Stopwatch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from completing.images import Split
from completing.measure import judge
from completing.source import Figures
from completing.strategies import NOISE
from skconvgp import ConvNetGPClassifier, gram_matrix
from skconvgp.kernels import convnet

SOLVERS = ("lsqr", "cholesky")  # as the source stopped it, and to the end


class StoredMatrix:
    """A symmetric matrix as completions see it; it knows what they have seen."""

    def __init__(self, matrix: NDArray[Any]) -> None:
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
        return float(self._is_seen.triu().sum()) / (n * (n + 1) / 2)

    def relative_rmse(self, factor: Tensor) -> float:
        """Return the error of all entries that were not seen."""
        rest = (factor @ factor.mT - self._matrix)[~self._is_seen]
        spread = self._matrix.max() - self._matrix.min()
        return float(rest.square().mean().sqrt() / spread)


class Mixed:
    """The source's method: a dense completed matrix, exact covariances in predict."""

    def __init__(self, split: Split) -> None:
        self._split = split
        X = split.train.X
        self._gram = gram_matrix(convnet(), X, dtype="float32")
        self._cross = split.both(lambda X_new: gram_matrix(convnet(), X_new, X))

    def measure(self, name: str, method: Any, fraction: float) -> list[Figures]:
        """Return a row for each solver."""
        oracle = StoredMatrix(self._gram)
        done = method.complete(oracle, fraction, torch.Generator().manual_seed(0))
        told = {"strategy": name, "fraction": fraction, "share": oracle.share()}
        told["relative_rmse"] = oracle.relative_rmse(done.factor)
        dense = (done.factor @ done.factor.mT).numpy()
        return [told | self._solve(dense, solver) for solver in SOLVERS]

    def _solve(self, gram: NDArray[Any], solver: str) -> Figures:
        """Return the accuracies of the completed matrix with exact covariances."""
        gp = ConvNetGPClassifier("precomputed", noise_variance=NOISE, solver=solver)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            gp.fit(gram, self._split.train.y)
        values = {name: gp.predict_proba(K) for name, K in self._cross.items()}
        return {"solver": solver} | judge(values, gp.classes_, self._split)


def complete_random(n: int, missing: float, name: str, method: Any) -> Figures:
    """Return error and minutes for a matrix with entries from U(0, 1)."""
    rng = np.random.default_rng(0)
    upper = np.triu(rng.uniform(size=(n, n)))
    oracle = StoredMatrix(upper + np.triu(upper, 1).T)
    watch = Stopwatch()
    done = method.complete(oracle, 1.0 - missing, torch.Generator().manual_seed(0))
    seconds = watch.read()["seconds"]
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
