"""BaseGPRegressor: targets to latent functions and back."""

from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import MultiOutputMixin, RegressorMixin

from skconvgp._typing import FloatArray
from skconvgp.estimators._base import BaseGP, Problem, Settings
from skconvgp.estimators._public_fit import public_fit
from skconvgp.estimators._validation import to_numpy
from skconvgp.estimators._warn import warn_caller
from skconvgp.metrics._predictive import half_width

__all__ = ["BaseGPRegressor"]

# Prior variance where targets tell nothing of it.
UNINFORMED = 1.0
# Size of targets whose squares are finite numbers, and those of their sums.
LARGEST_TARGET = 1e150
# Differences of targets, as a share of their size, that rounding makes.
ROUNDING = 4.0 * np.finfo(np.float64).eps


class BaseGPRegressor(RegressorMixin, MultiOutputMixin, BaseGP):
    """Methods of a regressor with a latent function for each output."""

    normalize_y: bool

    y_mean_: FloatArray
    y_scale_: FloatArray
    # Whether any target so far differs from the prior mean.
    _is_informed: bool

    @public_fit
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the latent function of each output.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Training images or vectors; the Gram matrix (n, n) if precomputed.
        y : array-like of shape (n,) or (n, n_outputs)
            Targets.
        sample_weight : array-like of shape (n,), default=None
            A weight of 2 is the same as two equal samples, 0 the same as none.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        return self._fit_targets(X, y, sample_weight)

    def predict(
        self, X: Any, return_std: bool = False, return_cov: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Return the mean of f and, if asked for, its uncertainty.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Images or vectors; K(X, X_train) if precomputed.
        return_std : bool, default=False
            Whether to return standard deviations of f, without noise.
        return_cov : bool, default=False
            Whether to return covariances instead.

        Returns
        -------
        mean : ndarray of shape (n,) or (n, n_outputs)
            Means, in units of y.
        std : ndarray of the same shape
            Standard deviations, with `return_std`.
        cov : ndarray of shape (n, n) or (n, n, n_outputs)
            Covariances, with `return_cov`.
        """
        return self.predict_latent(X, return_std, return_cov)

    def predict_latent(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        noise: bool = False,
        diag: ArrayLike | None = None,
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Return mean and uncertainty of f, or of y with `noise`.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Images or vectors; K(X, X_train) if precomputed.
        return_std : bool, default=False
            Whether to return standard deviations.
        return_cov : bool, default=False
            Whether to return covariances instead.
        noise : bool, default=False
            Whether they include the observation noise.
        diag : array-like of shape (n,), default=None
            Prior variances k(x, x), needed with `return_std` if precomputed.

        Returns
        -------
        mean : ndarray of shape (n,) or (n, n_outputs)
            Means, in units of y.
        std : ndarray of the same shape
            Standard deviations, with `return_std`.
        cov : ndarray of shape (n, n) or (n, n, n_outputs)
            Covariances, with `return_cov`.
        """
        latent = self._uncertain_latent(X, diag, return_std, return_cov)
        mean = latent.mean + self.y_mean_
        result = self._with_uncertainty(latent, mean, return_std, return_cov, noise)
        if isinstance(result, tuple):
            return self._shaped(result[0]), self._shaped(result[1])
        return self._shaped(result)

    def predict_interval(
        self, X: Any, level: float = 0.9, diag: ArrayLike | None = None
    ) -> FloatArray:
        """Return intervals that new observations of y fall into.

        They have the noise in them, and the quantiles of a Gaussian at both ends.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Images or vectors; K(X, X_train) if precomputed.
        level : float, default=0.9
            Probability of an observation to lie in its interval, between 0 and 1.
        diag : array-like of shape (n,), default=None
            Prior variances k(x, x), needed if precomputed.

        Returns
        -------
        intervals : ndarray of shape (n, 2) or (n, n_outputs, 2)
            Lower and upper ends, in units of y.

        Raises
        ------
        ValueError
            If `level` is not a number between 0 and 1.

        Examples
        --------
        >>> import numpy as np
        >>> from skconvgp import ConvNetGPRegressor
        >>> from skconvgp.kernels import rbf
        >>> X = np.linspace(0.0, 6.0, 40)[:, None]
        >>> gp = ConvNetGPRegressor(rbf(2.0), noise_variance=0.01)
        >>> gp.fit(X, np.sin(X[:, 0])).predict_interval([[1.5], [8.0]]).round(2)
        array([[0.91, 1.07],
               [0.35, 1.22]])
        """
        half = half_width(level)
        latent = self.predict_latent(X, return_std=True, noise=True, diag=diag)
        mean, std = latent
        return np.stack([mean - half * std, mean + half * std], axis=-1)

    def loo_predict(
        self, return_std: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Return what each training target is predicted to be from all the others.

        In closed form, without fitting again. Samples with equal inputs are left out
        together, as copies would predict each other; those of weight 0 have no
        predictions.

        Parameters
        ----------
        return_std : bool, default=False
            Whether to return the standard deviation of the left-out target, its noise
            included.

        Returns
        -------
        mean : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Means, in units of y.
        std : ndarray of the same shape
            Standard deviations, with `return_std`.
        """
        loo = self._leave_one_out()
        mean = to_numpy(loo.mean) * self.y_scale_ + self.y_mean_
        if not return_std:
            return self._shaped(mean)
        std = np.sqrt(to_numpy(loo.var)[:, None] * self._amplitudes())
        return self._shaped(mean), self._shaped(std)

    def sample_y(
        self, X: Any, n_samples: int = 1, random_state: Any = None
    ) -> FloatArray:
        """Draw functions f at X; from the prior before `fit`.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Images or vectors.
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState instance or None, default=None
            Seed; None is that of the estimator.

        Returns
        -------
        samples : ndarray of shape (n, n_samples) or (n, n_outputs, n_samples)
            Joint draws over the samples, in units of y. Before `fit` they have
            the amplitude asked for (1 for "profile") and mean 0.
        """
        draws = self._sample_latent(X, n_samples, random_state)
        if not hasattr(self, "y_mean_"):
            return draws[:, 0]
        draws = draws + self.y_mean_[:, None]
        return draws[:, 0] if self._is_single else draws

    def _fit_targets(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> Self:
        """Fit to targets of one or several outputs."""
        rows, y = self._validate_fit(X, y, multi_output=True, y_numeric=True)
        rows, targets, weights = self._weighted(rows, y, sample_weight)
        self._is_single = targets.ndim == 1
        columns = _columns(targets)
        n_outputs = columns.shape[1]
        self.y_mean_, self.y_scale_ = np.zeros(n_outputs), np.ones(n_outputs)
        if self.normalize_y:
            self.y_mean_ = np.average(columns, axis=0, weights=weights)
            spread = np.average((columns - self.y_mean_) ** 2, axis=0, weights=weights)
            is_varied = _varied(columns, self.y_mean_) & (spread > 0.0)
            self.y_scale_ = np.where(is_varied, np.sqrt(spread), 1.0)
        self._is_informed = False
        self._fit_problem(self._scaled(rows, targets, weights))
        return self

    def _scaled(
        self, rows: NDArray[Any], targets: NDArray[Any], weights: FloatArray
    ) -> Problem:
        """Return targets in the units of the fit."""
        columns = _columns(targets)
        self._is_informed |= bool(_varied(columns, self.y_mean_).any())
        if self.amplitude == "profile" and not self._is_informed:
            warn_caller(
                "All targets are the same, or there is but one, which tells nothing of "
                "how far others may be: amplitude='profile' takes a prior variance of "
                f"{UNINFORMED:g}, in squared units of y. Set `amplitude`.",
                UserWarning,
            )
        scaled = (columns - self.y_mean_) / self.y_scale_
        return Problem(rows, scaled, weights, self.y_scale_)

    def _settings(self, problem: Problem) -> Settings:
        """Return the settings; the amplitude is not profiled where nothing tells it."""
        settings = super()._settings(problem)
        is_profiled = settings.prior == "profile" and not self._is_informed
        return replace(settings, prior=UNINFORMED) if is_profiled else settings

    def _shaped(self, values: FloatArray) -> FloatArray:
        """Drop the dimension of the outputs if y had none; it is the last."""
        return values[..., 0] if self._is_single else values


def _columns(targets: NDArray[Any]) -> FloatArray:
    """Return targets (n, k); raise where their squares are not finite."""
    columns = np.asarray(targets, dtype=np.float64).reshape(len(targets), -1)
    largest = float(np.abs(columns).max())
    if largest > LARGEST_TARGET:
        raise ValueError(
            f"y holds numbers up to {largest:.3g}, whose squares overflow: divide y by "
            "a number of that size, and multiply predictions by it."
        )
    return columns


def _varied(columns: FloatArray, offset: FloatArray) -> NDArray[np.bool_]:
    """Say for each output whether targets differ from an offset, beyond rounding."""
    size: FloatArray = np.abs(columns).max(axis=0)
    is_varied: NDArray[np.bool_] = (
        np.abs(columns - offset).max(axis=0) > ROUNDING * size
    )
    return is_varied
