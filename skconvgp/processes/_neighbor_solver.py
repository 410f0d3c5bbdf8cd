"""NeighborSolver: finds neighbours of samples, and the posterior given them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._protocols import Localization
from skconvgp._typing import FloatArray
from skconvgp.engine import (
    MatrixOracle,
    kernel_neighborhoods,
    matrix_neighborhoods,
    nearest,
    rows_to_tensor,
)
from skconvgp.inference import (
    EqualInputs,
    LeaveOneOut,
    leave_one_unit_out,
    local_posterior,
    local_spectra,
    without_neighbors,
)
from skconvgp.processes._prior import KernelPrior, PlainPrior
from skconvgp.processes._run import Run

__all__ = ["NeighborSolver"]


@dataclass(frozen=True)
class Neighborhoods:
    """Neighbours of m samples among the training samples, and their covariances.

    Parameters
    ----------
    neighbors : Tensor of shape (m, k)
        Indices of the neighbours of each sample.
    grams : iterator
        Yields slices of the m samples, and for each sample of a slice the Gram matrix
        of it and its neighbours (b, 1 + k, 1 + k).
    """

    neighbors: Tensor
    grams: Iterator[tuple[slice, Tensor]]


@dataclass(frozen=True)
class LocalPosterior:
    """Posterior of samples, each given the neighbours of that sample.

    Parameters
    ----------
    mean : Tensor of shape (m, c)
        Means of scaled targets.
    var : Tensor of shape (m,)
        Variances, in units of the prior.
    clipped : float
        How far below zero rounding had taken a variance.
    jitter : float
        Largest jitter of a matrix.
    """

    mean: Tensor
    var: Tensor
    clipped: float
    jitter: float


@dataclass(frozen=True)
class NeighborSolver:
    """Training samples, with their neighbourhoods and the posteriors given these.

    Parameters
    ----------
    prior : KernelPrior or MatrixPrior
        Covariances of the training samples.
    localization : Localization
        Says which samples are near.
    targets : ndarray of shape (n, c)
        Scaled targets.
    weights : ndarray of shape (n,)
        Sample weights.
    mean_diag : float
        Mean prior variance, by which covariances are divided.
    inputs : EqualInputs
        Which samples have equal inputs.
    run : Run
        How to compute.
    label : str
        Name of the computation whose progress is shown.
    """

    prior: PlainPrior
    localization: Localization
    targets: FloatArray
    weights: FloatArray
    mean_diag: float
    inputs: EqualInputs
    run: Run
    label: str = "fit"

    def of_new(self, rows: NDArray[Any], diag: FloatArray) -> Neighborhoods:
        """Return neighbours of new samples; only a given matrix reads `diag`."""
        shape, k = (len(rows), len(self.targets)), self.n_neighbors
        budget = self.run.config.memory_budget
        if isinstance(self.prior, KernelPrior):
            oracle, points = (
                self.prior.oracle(self.run, self.label),
                rows_to_tensor(rows),
            )
            near = nearest(self._similarities(points.__getitem__), shape, k, budget)
            images = self.prior.images(rows)
            grams = kernel_neighborhoods(oracle, images.__getitem__, near)
            return Neighborhoods(near, grams)
        matrix, columns = self.prior.oracle(self.run, self.label), self.prior.indices

        def cross(part: slice) -> Tensor:
            return rows_to_tensor(rows[part][:, columns])

        near = nearest(_correlations(matrix, cross), shape, k, budget)
        grams = matrix_neighborhoods(matrix, cross, rows_to_tensor(diag), near)
        return Neighborhoods(near, grams)

    def of_training(
        self, indices: Tensor, *, only_earlier: bool = False
    ) -> Neighborhoods:
        """Return neighbours of training samples, among all others or those before."""
        n = len(self.targets)
        find = partial(
            nearest,
            shape=(len(indices), n),
            n_neighbors=min(self.n_neighbors, n - 1),
            memory_budget=self.run.config.memory_budget,
            indices=indices,
            only_earlier=only_earlier,
        )
        if isinstance(self.prior, KernelPrior):
            oracle = self.prior.oracle(self.run, "fit")
            points, images = rows_to_tensor(self.prior.rows), oracle.images
            near = find(self._similarities(lambda part: points[indices[part]]))
            grams = kernel_neighborhoods(
                oracle, lambda part: images[indices[part]], near
            )
            return Neighborhoods(near, grams)
        matrix = self.prior.oracle(self.run, "fit")

        def cross(part: slice) -> Tensor:
            return matrix.block(indices[part], None)

        near = find(_correlations(matrix, cross))
        diag = matrix.matrix.diagonal()[indices]
        return Neighborhoods(near, matrix_neighborhoods(matrix, cross, diag, near))

    def without_equal_inputs(self, indices: Tensor) -> Neighborhoods:
        """Return neighbours of training samples; those of equal inputs have no effect.

        Their covariances are replaced, so that all neighbourhoods keep their size.
        """
        around, of = self.of_training(indices), self.inputs.of

        def detached() -> Iterator[tuple[slice, Tensor]]:
            for part, gram in around.grams:
                near = around.neighbors[part].to(of.device)
                equal = of[near] == of[indices[part]][:, None]
                yield part, without_neighbors(gram, equal.to(gram.device))

        return Neighborhoods(around.neighbors, detached())

    def left_out(
        self, mean: Tensor, var: Tensor, indices: Tensor, noise: float
    ) -> LeaveOneOut:
        """Return leave-one-out predictions of targets (m, c), with their noise.

        Mean (m, c) and var (m,) are posteriors of the function `without_equal_inputs`.
        """
        y, w = self.observations()
        inputs, indices = self.inputs.to(y.device), indices.to(y.device)
        merged, input_of = inputs.merge(y, w), inputs.of[indices]
        totals, staying = merged.weights[input_of], inputs.staying(w)[indices]
        loo = LeaveOneOut(mean, var + noise / totals.clamp(max=1.0))
        return leave_one_unit_out(
            loo, y[indices], merged.targets[input_of], noise, totals, staying
        )

    def solve(self, around: Neighborhoods, noise: float) -> LocalPosterior:
        """Return the posterior of samples, given their neighbours."""
        y, w = self.observations()
        m = len(around.neighbors)
        mean, var = y.new_empty(m, y.shape[1]), y.new_empty(m)
        largest = 0.0
        for part, gram in around.grams:
            near = around.neighbors[part].to(y.device)
            mean[part], var[part], jitter = local_posterior(
                gram / self.mean_diag, y[near], noise / w[near]
            )
            largest = max(largest, jitter)
        clipped = float((-var).clamp(min=0.0).max())
        return LocalPosterior(mean, var.clamp_(min=0.0), clipped, largest)

    def solve_for_noises(
        self, around: Neighborhoods, noises: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return means (m, g, c) and variances (m, g) for each of the noises (g,)."""
        y, w = self.observations()
        m = len(around.neighbors)
        mean = y.new_empty(m, len(noises), y.shape[1])
        var = y.new_empty(m, len(noises))
        for part, gram in around.grams:
            near = around.neighbors[part].to(y.device)
            mean[part], var[part] = local_spectra(
                gram / self.mean_diag, y[near], w[near], noises
            )
        return mean, var

    def observations(self) -> tuple[Tensor, Tensor]:
        """Return scaled targets (n, c) and weights (n,) on the device."""
        return self.run.tensor(self.targets), self.run.tensor(self.weights)

    @property
    def n_neighbors(self) -> int:
        """Number of training samples from which each sample is predicted."""
        return self.localization.count(len(self.targets))

    def _similarities(
        self, new: Callable[[slice], Tensor]
    ) -> Callable[[slice], Tensor]:
        """Return the function of a slice that gives similarities to training points."""
        assert self.prior.rows is not None
        points = rows_to_tensor(self.prior.rows)
        return lambda part: self.localization.similarities(new(part).to(points), points)


def _correlations(
    oracle: MatrixOracle, cross: Callable[[slice], Tensor]
) -> Callable[[slice], Tensor]:
    """Return the function of a slice that gives sizes of correlations.

    They lack a factor for each row, which does not change which samples are nearest.
    """
    diag = oracle.matrix.diagonal()
    roots = diag.clamp(min=torch.finfo(diag.dtype).tiny).sqrt()
    return lambda part: cross(part).to(roots).abs() / roots
