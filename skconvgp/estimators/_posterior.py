"""BasePosterior: from new arrays to the posterior, a block of rows at a time."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from skconvgp._protocols import Solver
from skconvgp._typing import FloatArray
from skconvgp.engine import slices, stream_rows
from skconvgp.estimators._inputs import Work
from skconvgp.estimators._neighborhoods import BaseNeighborhoods
from skconvgp.estimators._place import Place, compute_at
from skconvgp.estimators._series import warn_of_series
from skconvgp.estimators._validation import frozen_bytes, thaw, to_numpy, to_tensor
from skconvgp.estimators._warn import warn_caller
from skconvgp.inference import Halves, join_halves, posterior_mean
from skconvgp.kernels import Kernel
from skconvgp.linalg import half_solve

__all__ = ["BasePosterior", "Latent"]

CLIP_TOLERANCE = 1e-6  # of the prior variance (docs/maths.rst, "Posterior")


@dataclass(frozen=True)
class Latent:
    """Posterior in units of the prior: multiply variances by the amplitude.

    Parameters
    ----------
    mean : ndarray of shape (n, k)
        Means, in units of the targets.
    var : ndarray of shape (n, 1) or (n, k)
        Variances, (n, 1) if all outputs have the same; empty if not asked for.
    cov : ndarray of shape (n, n, 1) or (n, n, k)
        Covariances between samples; empty if they were not asked for.
    cov_scale : float
        Mean prior variance at the n samples, if covariances were asked for.
    between : ndarray of shape (n, k, k)
        Covariances between the outputs of a sample; empty if there are none or they
        were not asked for.
    """

    mean: FloatArray
    var: FloatArray
    cov: FloatArray
    cov_scale: float
    between: FloatArray = field(default_factory=lambda: np.empty(0))


class BasePosterior(BaseNeighborhoods):
    """What a fitted process predicts; `fit` sets the attributes named here."""

    amplitude_: float | FloatArray
    dual_coef_: FloatArray
    solver_: Solver[Any]
    solver_state_: Any
    # How the posterior of features gives variances; None without features.
    _features: str | None
    # Whether the latent functions are those of a `LabelModel`.
    _is_label_model: bool = False
    # Whether the solver met its tolerance in `fit`.
    _is_converged: bool = True

    def _latent(
        self, X: Any, diag: Any, *, needs_var: bool = False, needs_cov: bool = False
    ) -> Latent:
        """Return the posterior at X, a block of rows at a time."""
        check_is_fitted(self)
        rows = self._validate_predict(X)
        if self._localization is not None:
            prior = self._local_prior(rows, diag, needs_var, needs_cov)
            place = self._place(is_fitting=False, needed=0)
            local_at = partial(self._local_latent_at, rows, prior, needs_var=needs_var)
            return compute_at(place, local_at)
        has_state = needs_var or needs_cov
        needed = frozen_bytes(self.solver_state_) if has_state else 0
        place = self._place(is_fitting=False, needed=needed)
        latent_at = partial(
            self._latent_at,
            rows,
            diag,
            needed,
            needs_var=needs_var,
            needs_cov=needs_cov,
        )
        return compute_at(place, latent_at)

    def _latent_at(
        self,
        rows: NDArray[Any],
        diag: Any,
        needed: int,
        place: Place,
        *,
        needs_var: bool,
        needs_cov: bool,
    ) -> Latent:
        work, dual = self._ready(place, needed)
        state = self._state_at(place) if needs_var or needs_cov else None
        means, variances = [], []
        halves: list[Halves] = []
        clipped = 0.0
        for cross, prior in self._stream(rows, diag, work, needs_var=needs_var):
            means.append(posterior_mean(cross, dual))
            if state is None:
                continue
            half = self._halves(state, cross)
            var, worst = half.variance(prior / self._mean_diag)
            clipped = max(clipped, worst)
            if needs_var:
                variances.append(var)
            if needs_cov:
                halves.append(half)
        empty = torch.empty(0)
        cov, cov_scale = empty, 0.0
        if needs_cov:
            prior = self._prior_covariance(rows, work)
            cov_scale = float(prior.diagonal().mean())
            cov = join_halves(halves).covariance(prior)
            cov = cov[:, :, None]
        if self._features is not None:
            self._warn_of_excess(clipped)
        elif needs_var:  # covariances are as they are
            self._warn_of_clipping(clipped)
        var = torch.cat(variances)[:, None] if variances else torch.empty(0, 1)
        mean = torch.cat(means)
        return Latent(to_numpy(mean), to_numpy(var), to_numpy(cov), cov_scale)

    def _ready(self, place: Place, needed: int) -> tuple[Work, Tensor]:
        """Return how to predict beside a state of so many bytes, and the dual."""
        # On the CPU the factor is used where it is kept.
        reserved = 0 if place.device.type == "cpu" else needed
        work = self._work(place, is_fitting=False, reserved=reserved)
        return work, to_tensor(self.dual_coef_, place.device, work.config.solve_dtype)

    def _state_at(self, place: Place) -> Any:
        """Return the state of the solver where it is used."""
        if not self._is_converged:
            warn_caller(
                f"{self.solver_!r} did not converge in `fit`, and what it solves for "
                "now is no better: deviations and left-out predictions are inexact.",
                ConvergenceWarning,
            )
        return thaw(self.solver_state_, place.device)

    def _warn_of_clipping(self, clipped: float) -> None:
        if clipped <= CLIP_TOLERANCE:
            return
        warn_caller(
            f"Posterior variances down to -{clipped:.1e} of the prior variance "
            "were set to 0: raise `noise_variance` or use dtype='float64'.",
            UserWarning,
        )

    def _warn_of_excess(self, excess: float) -> None:
        """Warn of features that tell more than there is, as a share of the prior."""
        if excess <= CLIP_TOLERANCE:
            return
        warn_caller(
            "Features of the completion exceed the prior variance of some samples, "
            f"by up to {excess:.2g} of its mean: their deviations are too small. "
            "Raise `observed_fraction`, or use completion=Nystrom() or "
            "dtype='float64'.",
            UserWarning,
        )

    def _local_prior(
        self, rows: NDArray[Any], diag: Any, needs_var: bool, needs_cov: bool
    ) -> FloatArray:
        """Return the prior variances given; raise for what neighbours do not give."""
        if needs_cov:
            raise ValueError(
                f"{self._localization!r} gives each sample a posterior of its own, and "
                "no joint covariance: fit with completion=None for covariances and "
                "samples."
            )
        is_needed = needs_var and not isinstance(self.kernel_, Kernel)
        return self._given_diag(diag, len(rows), is_needed=is_needed)

    def _local_latent_at(
        self, rows: NDArray[Any], prior: FloatArray, place: Place, *, needs_var: bool
    ) -> Latent:
        work = self._work(place, is_fitting=False)
        around = self._new_neighborhoods(rows, prior, work)
        posterior = self._solve_locally(around, self.noise_variance_, work)
        if needs_var:  # without, a given matrix need not tell the prior variances
            self._warn_of_clipping(posterior.clipped)
        mean = to_numpy(posterior.mean) * self._scale
        return Latent(mean, to_numpy(posterior.var)[:, None], np.empty(0), 0.0)

    def _halves(self, state: Any, cross: Tensor) -> Halves:
        """Return what data change of the prior, from covariances (b, n) with them."""
        if self._features is None:
            return Halves(self.solver_.half_solve(state, cross.mT / self._mean_diag))
        lifted = cross @ state.lift_map
        coefficients = half_solve(state.factor, lifted.mT)
        if self._features == "sor":
            return Halves(None, coefficients)
        return Halves(lifted.mT, coefficients)

    def _uncertain_latent(
        self, X: Any, diag: Any, return_std: bool, return_cov: bool
    ) -> Latent:
        if return_std and return_cov:
            raise ValueError(
                "`return_std` and `return_cov` cannot both be True: the deviations are "
                "the square roots of the diagonal of the covariance."
            )
        return self._latent(X, diag, needs_var=return_std, needs_cov=return_cov)

    def _with_uncertainty(
        self,
        latent: Latent,
        mean: FloatArray,
        return_std: bool,
        return_cov: bool,
        noise: bool,
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Return the mean alone, or with deviations (n, k) or covariances (n, n, k)."""
        added = self.noise_variance_ if noise else 0.0
        if return_std:
            return mean, np.sqrt((latent.var + added) * self._amplitudes())
        if return_cov:
            cov = latent.cov + added * np.eye(len(mean))[:, :, None]
            return mean, cov * self._amplitudes()
        return mean

    def _amplitudes(self) -> FloatArray:
        """Return the amplitude of each latent function (k,)."""
        return np.full(self._scale.shape, self.amplitude_, dtype=np.float64)

    def _stream(
        self, rows: NDArray[Any], diag: Any, work: Work, *, needs_var: bool
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield K(X_*, X) and K(x_*, x_*), a block of rows at a time."""
        config = work.config
        # Models of labels compare new samples with all others, by their features.
        n_train = len(self._targets if self._is_label_model else self.dual_coef_)
        n_rows = stream_rows(n_train, config.solve_dtype.itemsize, config.memory_budget)
        if isinstance(self.kernel_, Kernel):
            assert self.X_train_ is not None
            images = self._images(self.X_train_, self.kernel_)
            oracle = self._oracle(images, work, "predict")
            new_images = self._images(rows, self.kernel_)
            warn_of_series(self.kernel_, new_images)
            yield from oracle.stream(new_images, n_rows)
            return
        prior = self._given_diag(diag, len(rows), is_needed=needs_var)
        for part in slices(len(rows), n_rows):
            yield (
                to_tensor(
                    rows[part][:, self._columns], config.device, config.solve_dtype
                ),
                to_tensor(prior[part], config.device, config.solve_dtype),
            )

    def _given_diag(self, diag: Any, n: int, *, is_needed: bool) -> FloatArray:
        if diag is None:
            if is_needed:
                raise ValueError(
                    "With kernel='precomputed' deviations need the prior variances "
                    "of the samples: pass `diag`, an array of k(x, x) for each row of "
                    "X, to `predict_latent`. Probabilities by a likelihood that reads "
                    "variances need a kernel object."
                )
            return np.zeros(n)
        values = np.asarray(diag, dtype=np.float64)
        if values.shape != (n,):
            raise ValueError(
                f"`diag` must have shape {(n,)!r}, one prior variance for each row of "
                f"X, got {values.shape!r}."
            )
        return values

    def _prior_covariance(self, rows: NDArray[Any], work: Work) -> Tensor:
        if not isinstance(self.kernel_, Kernel):
            raise ValueError(  # noqa: TRY004  (a wrong combination, not a wrong type)
                "With kernel='precomputed' there is no covariance between the rows of "
                "X: fit with a kernel object."
            )
        oracle = self._oracle(self._images(rows, self.kernel_), work, "prior")
        return oracle.gram() / self._mean_diag
