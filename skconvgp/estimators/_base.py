"""BaseConvGP: the straight path from arrays to a posterior, written once."""

import copy
import time
import warnings
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from skconvgp._typing import FloatArray
from skconvgp.engine import wait_for
from skconvgp.estimators._inputs import Work
from skconvgp.estimators._place import Place, compute_at
from skconvgp.estimators._posterior import BasePosterior
from skconvgp.estimators._report import FitReport, peak_memory
from skconvgp.estimators._resolve import (
    PRECOMPUTED,
    resolve_amplitude,
    resolve_noise,
    resolve_solver,
)
from skconvgp.estimators._validation import (
    freeze,
    frozen_bytes,
    rows_to_tensor,
    thaw,
    to_numpy,
    to_tensor,
)
from skconvgp.inference import (
    LeaveOneOut,
    leave_one_out,
    log_marginal_likelihood,
    mean_variance,
    profiled_amplitude,
    sample_gaussian,
    select_noise,
)
from skconvgp.kernels import Kernel
from skconvgp.linalg import DenseGram

__all__ = ["BaseConvGP"]

# Matrices of the size of the Gram matrix that `fit` holds at once.
GRAM_COPIES = 2  # it and its factor
# While the noise is chosen: it, a scaled copy, vectors, and two of work space, which
# is what LAPACK's `syevd` asks for.
SELECTION_COPIES = 5


class BaseConvGP(BasePosterior):
    """Exact Gaussian process: what classifier and regressor have in common."""

    def log_marginal_likelihood(self) -> float:
        """Return the log evidence of the training targets.

        Returns
        -------
        log_marginal_likelihood : float
            Natural logarithm of the density of the targets under the model, summed
            over outputs. A sample of weight w counts as w observations; without noise
            and with other weights than 1 it is infinite.

        Examples
        --------
        >>> from skconvgp import ConvNetGPRegressor
        >>> from skconvgp.kernels import rbf
        >>> gp = ConvNetGPRegressor(rbf()).fit([[0.0], [1.0]], [0.0, 1.0])
        >>> round(gp.log_marginal_likelihood(), 2)
        -2.15
        """
        check_is_fitted(self)
        return float(self._log_evidence)

    def _fit_latent(
        self,
        rows: NDArray[Any],
        targets: FloatArray,
        weights: FloatArray,
        scale: FloatArray,
    ) -> None:
        """Fit latent functions; rows of weight 0 are gone, targets have mean 0.

        Parameters
        ----------
        rows : ndarray of shape (n, d)
            Training inputs.
        targets : ndarray of shape (n, k)
            Targets divided by `scale`.
        weights : ndarray of shape (n,)
            Sample weights, > 0.
        scale : ndarray of shape (k,)
            Units of the targets.
        """
        noise = resolve_noise(self, self.noise_variance)
        prior = resolve_amplitude(self, self.amplitude)
        self.solver_ = copy.deepcopy(resolve_solver(self, self.solver))
        copies = SELECTION_COPIES if isinstance(noise, str) else GRAM_COPIES
        place, needed = self._place_of_fit(len(rows), copies)
        fit_at = partial(
            self._fit_at, rows, targets, weights, scale, noise, prior, needed
        )
        compute_at(place, fit_at)

    def _fit_at(
        self,
        rows: NDArray[Any],
        targets: FloatArray,
        weights: FloatArray,
        scale: FloatArray,
        noise: float | str,
        prior: float | str | None,
        needed: int,
        place: Place,
    ) -> None:
        """Fit latent functions at a place, where so many bytes are needed."""
        work = self._work(place, is_fitting=True, n_samples=len(rows), reserved=needed)
        device = place.device

        start = _clock(device)
        w = to_tensor(weights, device, work.config.solve_dtype)
        y = to_tensor(targets, device, work.config.solve_dtype)
        gram, self._mean_diag = self._scaled_gram(rows, work, w)
        gram_seconds = _clock(device) - start

        start = _clock(device)
        amplitude = self._fixed_amplitude(prior, y, scale)
        if isinstance(noise, str):
            noise = select_noise(
                gram,
                y,
                w,
                criterion=noise,
                amplitude=amplitude,
                precision=self._gram_precision(rows, work),
            )
        state, dual = self._solve(gram, y, noise / w)
        if amplitude is None:
            amplitude = torch.full_like(y[0], profiled_amplitude(y, dual, w))
        evidence = log_marginal_likelihood(
            (y * dual).sum(0), self.solver_.logdet(state), amplitude, noise, w
        )
        solve_seconds = _clock(device) - start

        self.noise_variance_ = float(noise)
        self.amplitude_ = _plain(to_numpy(amplitude) * scale**2)
        # The density of the targets themselves, not of the scaled ones.
        self._log_evidence = float(evidence.sum()) - weights.sum() * np.log(scale).sum()
        self.dual_coef_ = to_numpy(dual) * scale / self._mean_diag
        self.solver_state_ = freeze(state)
        self.X_train_ = rows if isinstance(self.kernel_, Kernel) else None
        self._targets, self._weights, self._scale = targets, weights, scale
        self.backend_ = work.choice.name if work.choice else PRECOMPUTED
        self.dtype_ = str(work.config.dtype).removeprefix("torch.")
        self.device_ = str(device)
        self.fit_report_ = FitReport(
            n_samples=len(rows),
            n_pairs=len(rows) * (len(rows) + 1) // 2,
            gram_seconds=gram_seconds,
            solve_seconds=solve_seconds,
            backend=self.backend_,
            backend_reason=work.choice.reason if work.choice else "",
            device_reason=place.reason,
            instruction_set=work.choice.instruction_set if work.choice else "",
            device=self.device_,
            dtype=self.dtype_,
            jitter=state.jitter,
            peak_memory=peak_memory(),
        )

    def _scaled_gram(
        self, rows: NDArray[Any], work: Work, weights: Tensor
    ) -> tuple[Tensor, float]:
        """Return the Gram matrix with mean diagonal 1, and what it was divided by."""
        oracle = self._training_oracle(rows, work)
        mean_diag = mean_variance(oracle.diag(), weights)
        gram = oracle.gram()
        gram /= mean_diag
        return gram, mean_diag

    def _solve(self, gram: Tensor, y: Tensor, noise: Tensor) -> tuple[Any, Tensor]:
        """Return the factored training matrix and its solution for the targets."""
        if not bool(torch.isfinite(noise).all()):
            raise ValueError(
                "The noise of a sample is `noise_variance` / its weight, and it is not "
                "finite for some: set tiny weights to 0."
            )
        state = self.solver_.init(DenseGram(gram), noise)
        solution = self.solver_.solve(state, y)
        if not solution.converged:
            warnings.warn(
                f"{self.solver_!r} did not converge, {solution.stats!r}: the result is "
                "its last iterate. Allow more iterations or raise `noise_variance`.",
                ConvergenceWarning,
                stacklevel=6,
            )
        return state, solution.value

    def _gram_precision(self, rows: NDArray[Any], work: Work) -> torch.dtype:
        """Return the coarsest precision that the Gram matrix has gone through."""
        made = rows_to_tensor(rows[:1]).dtype
        if isinstance(self.kernel_, Kernel):
            made = work.config.dtype
        is_coarse = torch.float32 in (made, work.config.solve_dtype)
        return torch.float32 if is_coarse else torch.float64

    def _fixed_amplitude(
        self, prior: float | str | None, y: Tensor, scale: FloatArray
    ) -> Tensor | None:
        """Return the amplitude of each scaled target, None to profile it out."""
        if prior == "profile":
            return None
        value = self._mean_diag if prior is None else float(prior)
        return to_tensor(value / scale**2, y.device, y.dtype)

    def _leave_one_out(self) -> LeaveOneOut:
        """Return the closed-form leave-one-out predictions of the scaled targets."""
        check_is_fitted(self)
        needed = frozen_bytes(self.solver_state_)
        place = self._place(is_fitting=False, needed=needed)
        return compute_at(place, self._leave_one_out_at)

    def _leave_one_out_at(self, place: Place) -> LeaveOneOut:
        device = place.device
        state = thaw(self.solver_state_, device)
        dual = self.dual_coef_ * self._mean_diag / self._scale
        inverse_diag = self.solver_.inverse_diag(state)
        targets, alpha, weights = (
            to_tensor(array, device, inverse_diag.dtype)
            for array in (self._targets, dual, self._weights)
        )
        return leave_one_out(
            targets, alpha, inverse_diag, self.noise_variance_, weights
        )

    def _sample_latent(self, X: Any, n_samples: int, random_state: Any) -> FloatArray:
        """Draw latent functions (n, k, n_samples); from the prior before `fit`."""
        if random_state is None:
            random_state = self.random_state
        if not isinstance(n_samples, Integral) or n_samples < 1:
            raise ValueError(f"`n_samples` must be an int >= 1, got {n_samples!r}.")
        seed = check_random_state(random_state).randint(2**31 - 1)
        generator = torch.Generator().manual_seed(int(seed))
        if hasattr(self, "dual_coef_"):
            latent = self._latent(X, None, needs_cov=True)
            mean, covariance, size = latent.mean, latent.cov, latent.cov_scale
            scale = np.sqrt(self._amplitudes())
        else:
            covariance, scale = self._unfitted_prior(X)
            mean, size = np.zeros((len(covariance), 1)), 1.0
        draws = sample_gaussian(
            torch.zeros(mean.shape, dtype=torch.float64),
            rows_to_tensor(covariance).to(torch.float64),
            n_samples,
            generator,
            scale=size,
        )
        samples: FloatArray = mean[:, :, None] + to_numpy(draws) * scale[:, None]
        return samples

    def _unfitted_prior(self, X: Any) -> tuple[FloatArray, FloatArray]:
        prior = copy.deepcopy(self)
        rows, _ = prior._validate_fit(X, np.zeros(len(X)))
        amplitude = resolve_amplitude(self, self.amplitude)
        place, needed = prior._place_of_fit(len(rows), GRAM_COPIES)

        def evaluate(place: Place) -> tuple[FloatArray, float]:
            work = prior._work(
                place, is_fitting=True, n_samples=len(rows), reserved=needed
            )
            gram, mean_diag = prior._scaled_gram(rows, work, torch.ones(len(rows)))
            return to_numpy(gram), mean_diag

        gram, mean_diag = compute_at(place, evaluate)
        scale = mean_diag if amplitude is None else amplitude
        scale = 1.0 if isinstance(scale, str) else scale
        return gram, np.array([np.sqrt(scale)])


def _clock(device: torch.device) -> float:
    """Return the time in seconds at which a device is done with what it was given."""
    wait_for(device)
    return time.perf_counter()


def _plain(values: FloatArray) -> float | FloatArray:
    return float(values[0]) if (values == values[0]).all() else values
