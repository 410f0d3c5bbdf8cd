"""NeighborSolver: finds neighbours of samples, and the posterior given them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from skconvgp._protocols import Localization, WeightedLocalization
from skconvgp._typing import FloatArray
from skconvgp.engine import (
    MatrixOracle,
    kernel_neighborhoods,
    matrix_neighborhoods,
    nearest,
    rows_to_tensor,
    slices,
    stream_rows,
)
from skconvgp.inference import (
    EqualInputs,
    LeaveOneOut,
    leave_one_unit_out,
    local_posterior,
    local_spectra,
    without_neighbors,
)
from skconvgp.processes._run import Run
from skconvgp.processes.basis._basis import NewRows
from skconvgp.processes.basis._plain import PlainBasis

BEYOND = 1.0001  # radius in units of the farthest neighbour, if no sample is beyond


@dataclass(frozen=True)
class Neighborhoods:
    """Neighbours of m samples among the training samples, and their covariances."""

    neighbors: Tensor  # (m, k), indices of the neighbours of each sample
    # Yields slices of the m samples, and for each sample of a slice the Gram matrix of
    # it and its neighbours (b, 1 + k, 1 + k).
    grams: Iterator[tuple[slice, Tensor]]
    # (m, k), weights of the neighbours in the prediction of each sample.
    weights: Tensor


@dataclass(frozen=True)
class LocalPosterior:
    """Posterior of samples, each given the neighbours of that sample."""

    mean: Tensor  # (m, c), means of scaled targets
    var: Tensor  # (m,) variances, or (m, c), in units of the prior
    clipped: float  # how far below zero rounding had taken a variance
    jitter: float  # largest jitter of a matrix


@dataclass(frozen=True)
class NeighborSolver:
    """Training samples, with their neighbourhoods and the posteriors given these."""

    basis: PlainBasis
    localization: Localization  # says which samples are near
    targets: FloatArray  # (n, c), scaled targets
    weights: FloatArray  # (n,), sample weights
    mean_diag: float  # mean prior variance, by which covariances are divided
    inputs: EqualInputs  # which samples have equal inputs
    run: Run
    label: str = "fit"  # name of the computation whose progress is shown
    # (n,), noise variances as shares of their mean; None for one noise.
    shares: FloatArray | None = None

    def of_new(self, samples: NewRows) -> Neighborhoods:
        """Return neighbours of new samples."""
        rows = samples.rows
        shape, k = (len(rows), len(self.targets)), self.n_neighbors
        budget = self.run.config.memory_budget
        basis = self.basis.kernel_basis
        if basis is not None:
            oracle = basis.oracle(self.run, self.label)
            new = rows_to_tensor(rows).__getitem__
            found = nearest(self._similarities(new), shape, self.n_searched, budget)
            near, weights = self._weighed(found, new)
            images = basis.images(rows)
            grams = kernel_neighborhoods(oracle, images.__getitem__, near)
            return Neighborhoods(near, grams, weights)
        matrix: Any = self.basis.oracle(self.run, self.label)
        columns = self.basis.indices

        def cross(part: slice) -> Tensor:
            return rows_to_tensor(rows[part][:, columns])

        near = nearest(_correlations(matrix, cross), shape, k, budget)
        diag = np.zeros(len(rows)) if samples.diag is None else samples.diag
        grams = matrix_neighborhoods(matrix, cross, rows_to_tensor(diag), near)
        return Neighborhoods(near, grams, self._equal_weights(near))

    def of_training(
        self, indices: Tensor, *, only_earlier: bool = False
    ) -> Neighborhoods:
        """Return neighbours of training samples, among all others or those before."""
        n = len(self.targets)
        find = partial(
            nearest,
            shape=(len(indices), n),
            n_neighbors=min(self.n_searched, n - 1),
            memory_budget=self.run.config.memory_budget,
            indices=indices,
            only_earlier=only_earlier,
        )
        basis = self.basis.kernel_basis
        if basis is not None:
            oracle = basis.oracle(self.run, "fit")
            points, images = rows_to_tensor(basis.rows), oracle.images

            def new(part: slice) -> Tensor:
                return points[indices[part]]

            near, weights = self._weighed(find(self._similarities(new)), new)
            grams = kernel_neighborhoods(
                oracle, lambda part: images[indices[part]], near
            )
            return Neighborhoods(near, grams, weights)
        matrix: Any = self.basis.oracle(self.run, "fit")

        def cross(part: slice) -> Tensor:
            block: Tensor = matrix.block(indices[part], None)
            return block

        near = find(_correlations(matrix, cross))
        diag = matrix.matrix.diagonal()[indices]
        grams = matrix_neighborhoods(matrix, cross, diag, near)
        return Neighborhoods(near, grams, self._equal_weights(near))

    def without_equal_inputs(self, indices: Tensor) -> Neighborhoods:
        """Return neighbours of training samples; equal inputs have no effect.

        Their covariances are replaced, so that all neighbourhoods keep their size.
        """
        around, of = self.of_training(indices), self.inputs.of

        def detached() -> Iterator[tuple[slice, Tensor]]:
            for part, gram in around.grams:
                near = around.neighbors[part].to(of.device)
                equal = of[near] == of[indices[part]][:, None]
                yield part, without_neighbors(gram, equal.to(gram.device))

        return Neighborhoods(around.neighbors, detached(), around.weights)

    def left_out(
        self, mean: Tensor, var: Tensor, indices: Tensor, noise: float
    ) -> LeaveOneOut:
        """Return leave-one-out predictions of targets (m, c), with their noise.

        Mean (m, c) and var (m,) are posteriors of the function `without_equal_inputs`.
        """
        y, w = self.observations()
        inputs, indices = self.inputs.to(y.device), indices.to(y.device)
        merged, input_of = inputs.merge(y, self.precisions()), inputs.of[indices]
        shares = None if self.shares is None else self.run.tensor(self.shares)
        totals, staying = merged.weights[input_of], inputs.staying(w, shares)[indices]
        loo = LeaveOneOut(mean, var + noise / totals.clamp(max=1.0))
        loo = leave_one_unit_out(
            loo, y[indices], merged.targets[input_of], noise, totals, staying
        )
        if shares is None:
            return loo
        units = shares / inputs.removed(w).clamp(max=1.0)
        mean_noise = noise / (totals - staying).clamp(max=1.0)
        return LeaveOneOut(loo.mean, loo.var - mean_noise + noise * units[indices])

    def solve(self, around: Neighborhoods, noise: float) -> LocalPosterior:
        """Return the posterior of samples, given their neighbours."""
        y, w = self.observations()[0], self.precisions()
        m = len(around.neighbors)
        mean, var = y.new_empty(m, y.shape[1]), y.new_empty(m)
        largest = 0.0
        for part, gram in around.grams:
            near = around.neighbors[part].to(y.device)
            mean[part], var[part], jitter = local_posterior(
                gram / self.mean_diag,
                y[near],
                noise / (w[near] * around.weights[part].to(w)),
            )
            largest = max(largest, jitter)
        clipped = float((-var).clamp(min=0.0).max())
        return LocalPosterior(mean, var.clamp_(min=0.0), clipped, largest)

    def solve_each(self, around: Neighborhoods, noise: Tensor) -> LocalPosterior:
        """Return the posterior of functions that each have a noise.

        The noise variances (n, c) are those of samples with their weights, and the
        variances (m, c) those of all functions.
        """
        y, m = self.observations()[0], len(around.neighbors)
        mean = y.new_empty(m, y.shape[1])
        var, largest = torch.empty_like(mean), 0.0
        for part, gram in around.grams:
            near = around.neighbors[part].to(y.device)
            scaled, weights = gram / self.mean_diag, around.weights[part].to(y)
            for c in range(y.shape[1]):
                own = noise[:, c][near] / weights
                found = local_posterior(scaled, y[near][:, :, c : c + 1], own)
                mean[part, c], var[part, c] = found[0][:, 0], found[1]
                largest = max(largest, found[2])
        clipped = float((-var).clamp(min=0.0).max())
        return LocalPosterior(mean, var.clamp_(min=0.0), clipped, largest)

    def solve_for_noises(
        self, around: Neighborhoods, noises: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return means (m, g, c) and variances (m, g) for each of the noises (g,)."""
        y, w = self.observations()[0], self.precisions()
        m = len(around.neighbors)
        mean = y.new_empty(m, len(noises), y.shape[1])
        var = y.new_empty(m, len(noises))
        for part, gram in around.grams:
            near = around.neighbors[part].to(y.device)
            mean[part], var[part] = local_spectra(
                gram / self.mean_diag,
                y[near],
                w[near] * around.weights[part].to(w),
                noises,
            )
        return mean, var

    def observations(self) -> tuple[Tensor, Tensor]:
        """Return scaled targets (n, c) and weights (n,) on the device."""
        return self.run.tensor(self.targets), self.run.tensor(self.weights)

    def precisions(self) -> Tensor:
        """Return how many observations of the mean noise each sample is worth (n,)."""
        weights = self.run.tensor(self.weights)
        return (
            weights if self.shares is None else weights / self.run.tensor(self.shares)
        )

    @property
    def n_neighbors(self) -> int:
        """Number of training samples from which each sample is predicted."""
        return self.localization.count(len(self.targets))

    @property
    def n_searched(self) -> int:
        """Number of samples to search: weights depend on the nearest one beyond."""
        beyond = 1 if self._is_weighted else 0
        return min(self.n_neighbors + beyond, len(self.targets))

    @property
    def _is_weighted(self) -> bool:
        return is_weighted(self.localization)

    @property
    def _points(self) -> Tensor:
        assert self.basis.rows is not None
        return rows_to_tensor(self.basis.rows)

    def _similarities(
        self, new: Callable[[slice], Tensor]
    ) -> Callable[[slice], Tensor]:
        """Return the function of a slice that gives similarities to training points."""
        points = self._points
        return lambda part: self.localization.similarities(new(part).to(points), points)

    def _weighed(
        self, found: Tensor, new: Callable[[slice], Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Return neighbours (m, k) among those found (m, k + 1), and their weights.

        If no more than k were found, all of them are neighbours.
        """
        if not self._is_weighted:
            return found, self._equal_weights(found)
        points = self._points
        localization: Any = self.localization
        m, k = len(found), min(self.n_neighbors, found.shape[1])
        neighbors, weights = found.new_empty(m, k), points.new_empty(m, k)
        n_values = found.shape[1] * points.shape[1]
        budget = self.run.config.memory_budget
        for part in slices(m, stream_rows(n_values, points.itemsize, budget)):
            near = found[part]
            far = localization.distances(new(part).to(points), points[near])
            neighbors[part], both = _apart(near, far, k)
            weights[part] = localization.weigh(both)
        return neighbors, weights

    def _equal_weights(self, neighbors: Tensor) -> Tensor:
        return torch.ones((), dtype=torch.float64, device="cpu").expand(neighbors.shape)


def is_weighted(localization: Localization) -> bool:
    """Say whether near neighbours count more than far ones."""
    if isinstance(localization, WeightedLocalization):
        return localization.is_weighted
    return False


def _apart(found: Tensor, distances: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k nearest samples (b, k), in order; their distances, that beyond."""
    if found.shape[1] == k:
        beyond = BEYOND * distances.amax(1, keepdim=True)
        return found, torch.cat([distances, beyond], 1)
    farthest = distances.argmax(1, keepdim=True)
    is_near = torch.ones_like(found, dtype=torch.bool).scatter_(1, farthest, False)
    near = distances[is_near].view(-1, k)
    return (
        found[is_near].view(-1, k),
        torch.cat([near, distances.gather(1, farthest)], 1),
    )


def _correlations(
    oracle: MatrixOracle, cross: Callable[[slice], Tensor]
) -> Callable[[slice], Tensor]:
    """Return the function of a slice that gives sizes of correlations.

    They lack a factor for each row, which does not change which samples are nearest.
    """
    diag = oracle.matrix.diagonal()
    roots = diag.clamp(min=torch.finfo(diag.dtype).tiny).sqrt()
    return lambda part: cross(part).to(roots).abs() / roots
