"""BaseNeighborhoods: posteriors from a few training samples each."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._protocols import Localization
from skconvgp._typing import FloatArray
from skconvgp.engine import (
    KernelOracle,
    MatrixOracle,
    kernel_neighborhoods,
    matrix_neighborhoods,
    nearest,
)
from skconvgp.estimators._input_gradient import BaseDifferentiable
from skconvgp.estimators._inputs import Work
from skconvgp.estimators._series import warn_of_series
from skconvgp.estimators._validation import rows_to_tensor, to_tensor
from skconvgp.inference import (
    EqualInputs,
    LeaveOneOut,
    leave_one_unit_out,
    local_posterior,
    log_marginal_likelihood,
    without_neighbors,
)
from skconvgp.kernels import Kernel
from skconvgp.linalg import DenseGram
from skconvgp.solvers import Cholesky

__all__ = ["BaseNeighborhoods", "LocalPosterior", "Neighborhoods"]


@dataclass(frozen=True)
class Neighborhoods:
    """Samples with the training samples that are near them.

    Parameters
    ----------
    neighbors : Tensor of shape (m, k)
        Numbers of training samples.
    grams : iterator
        Gives slices of the m samples and their Gram matrices (b, 1 + k, 1 + k).
    """

    neighbors: Tensor
    grams: Iterator[tuple[slice, Tensor]]


@dataclass(frozen=True)
class LocalPosterior:
    """Posterior of samples, each from its own neighbours.

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


class BaseNeighborhoods(BaseDifferentiable):
    """Neighbours, and what follows from them; used where `_localization` is set."""

    # What says which samples are near; None for models that have no neighbours.
    _localization: Localization | None = None

    noise_variance_: float
    X_train_: NDArray[Any] | None
    _columns: NDArray[np.intp]
    _mean_diag: float
    # In units of `_scale` (k,).
    _targets: FloatArray
    _weights: FloatArray
    _left: FloatArray
    # Number of the input of each training sample.
    _inputs: NDArray[np.intp]
    _scale: FloatArray

    def _new_neighborhoods(
        self, rows: NDArray[Any], prior: FloatArray, work: Work
    ) -> Neighborhoods:
        """Return new samples with their neighbours; `prior` is for a given matrix."""
        oracle = self._local_oracle(work, "predict")
        shape = len(rows), oracle.n_samples
        k, budget = self._n_neighbors(), work.config.memory_budget
        if isinstance(oracle, KernelOracle):
            points = rows_to_tensor(rows)
            near = nearest(self._similarities(points.__getitem__), shape, k, budget)
            images = self._images(rows, self._network())
            warn_of_series(self._network(), images)
            grams = kernel_neighborhoods(oracle, images.__getitem__, near)
            return Neighborhoods(near, grams)

        def cross(part: slice) -> Tensor:
            return rows_to_tensor(rows[part][:, self._columns])

        near = nearest(_correlations(oracle, cross), shape, k, budget)
        grams = matrix_neighborhoods(oracle, cross, rows_to_tensor(prior), near)
        return Neighborhoods(near, grams)

    def _own_neighborhoods(
        self, numbers: Tensor, work: Work, *, only_earlier: bool = False
    ) -> Neighborhoods:
        """Return training samples with others, or with those before them."""
        oracle = self._local_oracle(work, "fit")
        n = oracle.n_samples
        find = partial(
            nearest,
            shape=(len(numbers), n),
            n_neighbors=min(self._n_neighbors(), n - 1),
            memory_budget=work.config.memory_budget,
            numbers=numbers,
            only_earlier=only_earlier,
        )
        if isinstance(oracle, KernelOracle):
            points, images = self._points(), oracle.images
            near = find(self._similarities(lambda part: points[numbers[part]]))
            grams = kernel_neighborhoods(
                oracle, lambda part: images[numbers[part]], near
            )
            return Neighborhoods(near, grams)

        def cross(part: slice) -> Tensor:
            return oracle.block(numbers[part], None)

        near = find(_correlations(oracle, cross))
        diag = oracle.matrix.diagonal()[numbers]
        return Neighborhoods(near, matrix_neighborhoods(oracle, cross, diag, near))

    def _other_neighborhoods(self, numbers: Tensor, work: Work) -> Neighborhoods:
        """Return training samples with neighbours, of which only other inputs tell."""
        around, of = (
            self._own_neighborhoods(numbers, work),
            rows_to_tensor(self._inputs),
        )

        def detached() -> Iterator[tuple[slice, Tensor]]:
            for part, gram in around.grams:
                near = around.neighbors[part].to(of.device)
                equal = of[near] == of[numbers[part]][:, None]
                yield part, without_neighbors(gram, equal.to(gram.device))

        return Neighborhoods(around.neighbors, detached())

    def _observed(
        self, mean: Tensor, var: Tensor, numbers: Tensor, noise: float, work: Work
    ) -> LeaveOneOut:
        """Return predictions of targets (m, c) from posteriors by other inputs."""
        y, w = self._observations(work)
        inputs, some = EqualInputs(rows_to_tensor(self._inputs)), numbers.to(y.device)
        inputs = inputs.to(y.device)
        whole, own = inputs.merge(y, w), inputs.of[some]
        totals, staying = whole.weights[own], inputs.staying(w)[some]
        loo = LeaveOneOut(mean, var + noise / totals.clamp(max=1.0))
        return leave_one_unit_out(
            loo, y[some], whole.targets[own], noise, totals, staying
        )

    def _solve_locally(
        self, around: Neighborhoods, noise: float, work: Work
    ) -> LocalPosterior:
        """Return the posterior of the samples that are surrounded."""
        y, w = self._observations(work)
        m = len(around.neighbors)
        mean, var = y.new_empty(m, y.shape[1]), y.new_empty(m)
        largest = 0.0
        for part, gram in around.grams:
            near = around.neighbors[part].to(y.device)
            mean[part], var[part], jitter = local_posterior(
                gram / self._mean_diag, y[near], noise / w[near]
            )
            largest = max(largest, jitter)
        clipped = float((-var).clamp(min=0.0).max())
        return LocalPosterior(mean, var.clamp_(min=0.0), clipped, largest)

    def _local_leave_one_out(self, noise: float, work: Work) -> LeaveOneOut:
        """Return the predictions of all training samples from their neighbours."""
        everyone = torch.arange(len(self._targets))
        around = self._other_neighborhoods(everyone, work)
        posterior = self._solve_locally(around, noise, work)
        return self._observed(posterior.mean, posterior.var, everyone, noise, work)

    def _local_evidence(self, noise: float, amplitude: Tensor, work: Work) -> Tensor:
        """Return the log evidence (c,) of samples that follow from earlier ones."""
        y, w = self._observations(work)
        first = torch.arange(self._n_neighbors())
        gram = self._local_oracle(work, "fit").block(first, first) / self._mean_diag
        state = Cholesky().init(DenseGram(gram), noise / w[first])
        quadratic = Cholesky().half_solve(state, y[first]).square().sum(0)
        logdet = Cholesky().logdet(state)
        rest = torch.arange(len(first), len(y))
        if len(rest):
            around = self._own_neighborhoods(rest, work, only_earlier=True)
            posterior = self._solve_locally(around, noise, work)
            var = posterior.var + noise / w[rest]
            errors = (y[rest] - posterior.mean).square()
            quadratic += (errors / var[:, None]).sum(0)
            logdet += var.log().sum()
        return log_marginal_likelihood(quadratic, logdet, amplitude, noise, w)

    def _observations(self, work: Work) -> tuple[Tensor, Tensor]:
        """Return scaled targets (n, c) and weights (n,) on the device."""
        config = work.config
        return (
            to_tensor(self._targets, config.device, config.solve_dtype),
            to_tensor(self._weights, config.device, config.solve_dtype),
        )

    def _n_neighbors(self) -> int:
        assert self._localization is not None
        return self._localization.count(len(self._targets))

    def _network(self) -> Kernel:
        assert isinstance(self.kernel_, Kernel)
        return self.kernel_

    def _points(self) -> Tensor:
        assert self.X_train_ is not None
        return rows_to_tensor(self.X_train_)

    def _local_oracle(self, work: Work, label: str) -> KernelOracle | MatrixOracle:
        """Return what gives covariances with training samples."""
        assert self.X_train_ is not None
        if isinstance(self.kernel_, Kernel):
            return self._oracle(self._images(self.X_train_, self.kernel_), work, label)
        return MatrixOracle(self._points(), work.config)

    def _similarities(
        self, new: Callable[[slice], Tensor]
    ) -> Callable[[slice], Tensor]:
        """Return what compares a slice of new points with those of training."""
        localization, points = self._localization, self._points()
        assert localization is not None
        return lambda part: localization.similarities(new(part).to(points), points)


def _correlations(
    oracle: MatrixOracle, cross: Callable[[slice], Tensor]
) -> Callable[[slice], Tensor]:
    """Return what gives sizes of correlations, up to factors that a row shares."""
    diag = oracle.matrix.diagonal()
    roots = diag.clamp(min=torch.finfo(diag.dtype).tiny).sqrt()
    return lambda part: cross(part).to(roots).abs() / roots
