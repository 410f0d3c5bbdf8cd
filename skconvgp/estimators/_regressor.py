"""GPRegressor: from targets to latent functions, and back to targets."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from skconvgp._ambient import public
from skconvgp._typing import FloatArray
from skconvgp.engine import host_values
from skconvgp.estimators._doors import Samples, Training, read_training
from skconvgp.estimators._fitting import FitData, PlannedFit
from skconvgp.estimators._for_prediction import kept_of_targets, with_attributes
from skconvgp.estimators._gp import CALIBRATION, BaseGP
from skconvgp.estimators._groups import require_groups_known
from skconvgp.estimators._intervals import LeftOutErrors
from skconvgp.estimators._prior_mean import (
    LINEAR,
    fit_mean,
    mean_at,
    read_mean,
    without_trend,
)
from skconvgp.estimators._targets import (
    common_scale,
    in_units,
    read_noises,
    require_range,
    scale_targets,
    target_columns,
    varied,
    warn_of_constants,
)
from skconvgp.estimators._warn import without_warnings
from skconvgp.estimators.compute._progress import progress_of
from skconvgp.estimators.settings._checks import as_flag
from skconvgp.estimators.settings._gp import GPSettings
from skconvgp.metrics._predictive import half_width
from skconvgp.processes import Problem


class GPRegressor(RegressorMixin, MultiOutputMixin, BaseGP):
    """A regressor with a latent function for each output."""

    # Whether a linear mean can be integrated out.
    _has_linear_mean: ClassVar[bool] = True
    # Whether each sample may have a noise variance of its own.
    _has_sample_noise: ClassVar[bool] = True

    mean: Any
    noise_variance: Any
    normalize_y: bool
    solve_dtype: object

    y_mean_: FloatArray
    y_scale_: FloatArray

    @public
    def predict(
        self, X: Any, return_std: bool = False, return_cov: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Return the mean of the latent function f and, on request, its uncertainty.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Images or vectors; K(X, X_train) if precomputed.
        return_std : bool, default=False
            Whether to return standard deviations of f, without noise.
        return_cov : bool, default=False
            Whether to return covariances instead of standard deviations.

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

    @public
    def predict_latent(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        noise: bool = False,
        diag: ArrayLike | None = None,
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Return the mean and the uncertainty of f, or of y with `noise`.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Images or vectors; K(X, X_train) if precomputed.
        return_std : bool, default=False
            Whether to return standard deviations.
        return_cov : bool, default=False
            Whether to return covariances instead of standard deviations.
        noise : bool, default=False
            Whether the uncertainty includes the observation noise; if samples of `fit`
            have a noise variance each, it is their mean.
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
        rows = self._read_new(X)
        latent = self._uncertain_latent(rows, diag, return_std, return_cov)
        mean = latent.mean * self.y_scale_ + self.y_mean_ + self._mean_at(rows)
        result = self._with_uncertainty(latent, mean, return_std, return_cov, noise)
        if isinstance(result, tuple):
            return self._without_outputs(result[0]), self._without_outputs(result[1])
        return self._without_outputs(result)

    @public
    def predict_interval(
        self, X: Any, level: float = 0.9, diag: ArrayLike | None = None
    ) -> FloatArray:
        """Return intervals that new observations of y fall into.

        Half an interval is the standard deviation of an observation times a number: the
        ceil((n + 1) level)-th smallest of the n errors of left-out targets, in their
        deviations. So intervals cover skewed targets as well. A sample of weight w
        stands for w equal ones, and has w errors. With too few samples for the level it
        is the largest error, or that of a normal distribution if that is larger.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Images or vectors; K(X, X_train) if precomputed.
        level : float, default=0.9
            Probability, between 0 and 1, that an observation lies in its interval.
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

        References
        ----------
        Barber, Candes, Ramdas and Tibshirani, "Predictive inference with the
        jackknife+", 2021, section 1.2.

        Examples
        --------
        >>> import numpy as np
        >>> from skconvgp import ConvNetGPRegressor
        >>> from skconvgp.kernels import rbf
        >>> X = np.linspace(0.0, 6.0, 40)[:, None]
        >>> gp = ConvNetGPRegressor(rbf(2.0), noise_variance=0.01)
        >>> gp.fit(X, np.sin(X[:, 0])).predict_interval([[1.5], [8.0]]).round(2)
        array([[0.97, 1.01],
               [0.67, 0.9 ]])
        """
        half_width(level)  # refuses a wrong level before any work
        mean, std = self._observations(X, diag)
        unknown = LeftOutErrors.unknown(len(self.y_scale_))
        halves = (self._training.errors or unknown).half_widths(level)
        half = std * (halves[0] if self._training.is_single else halves)
        return np.stack([mean - half, mean + half], axis=-1)

    def _for_prediction(self) -> Self:
        """Return a copy that keeps what means and intervals need, and no samples."""
        check_is_fitted(self)
        kept = kept_of_targets(
            self._process,
            self._training,
            self.fit_report_,
            self._leave_out,
            is_scaled=self._is_scaled,
        )
        return with_attributes(self, **kept)

    def _observations(self, X: Any, diag: Any) -> tuple[FloatArray, FloatArray]:
        """Return means and deviations of observations at X.

        A model for prediction has the same deviation everywhere.
        """
        process: Any = self._process if hasattr(self, "_process") else None
        if process is None or not process.basis.gives_means:
            both: Any = self.predict_latent(X, return_std=True, noise=True, diag=diag)
            return both[0], both[1]
        mean: Any = self.predict_latent(X)
        model, variance = process.model, process.posterior.variance
        of_outputs = np.sqrt(variance * model.function_variances) * model.scale
        std = of_outputs[0] if self._training.is_single else of_outputs
        return mean, np.broadcast_to(std, np.shape(mean))

    @public
    def loo_predict(
        self, return_std: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Return the prediction of each training target from all the others.

        The result has a closed form: nothing is fitted again. Samples with equal inputs
        are left out together, as are samples of a group, and an image with all of its
        versions, because copies would predict each other. Samples of weight 0 have no
        predictions.

        Parameters
        ----------
        return_std : bool, default=False
            Whether to return standard deviations of the left-out targets, including
            their noise.

        Returns
        -------
        mean : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Means, in units of y.
        std : ndarray of the same shape
            Standard deviations, with `return_std`.
        """
        mean, std, _ = self._left_out()
        mean = self._without_outputs(mean)
        return (mean, self._without_outputs(std)) if return_std else mean

    @public
    def sample_y(
        self,
        X: Any,
        n_samples: int = 1,
        random_state: Any = None,
        method: str = "auto",
        n_features: int = 2000,
    ) -> FloatArray:
        """Draw functions f at X from the posterior; before `fit`, from the prior.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Images or vectors.
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState instance or None, default=None
            Seed; None is the `random_state` of the estimator.
        method : {"auto", "joint", "pathwise", "bootstrap"}, default="auto"
            "joint" draws from the covariance of all samples, n x n numbers. "pathwise"
            draws functions: one from the prior by random features, plus the exact
            effect of the data. It takes n x n_features operations a draw, and the
            same seed gives the same functions at any samples. It needs an exact process
            and a kernel with random features, or a process of features, which draws
            coefficients and leaves out the variance that its features leave out.
            "bootstrap", for processes of features, solves for coefficients of targets
            with further noise and of a draw from the prior: the same distribution as
            that of "pathwise", in more time. "auto" draws functions at more
            than 2000 samples if they have all of the variance: with `RandomFeatures`,
            and of exact processes if the kernel is one of vectors, such as `rbf`.
        n_features : int, default=2000
            Random features of "pathwise". The covariance of the draws has an error in
            proportion to one over its square root.

        Returns
        -------
        samples : ndarray of shape (n, n_samples) or (n, n_outputs, n_samples)
            Joint draws over the samples, in units of y. Before `fit` they are in units
            of the scaled targets, and have mean 0 and the variance `amplitude`, or 1
            for "profile".

        Raises
        ------
        ValueError
            For wrong settings, or "pathwise" or "bootstrap" where the process does not
            allow it.
        TypeError
            For "pathwise" with a kernel of which no random features are known.

        References
        ----------
        Wilson, Borovitskiy, Terenin, Mostowsky and Deisenroth, "Efficiently sampling
        functions from Gaussian process posteriors", 2020.
        """
        draws, rows = self._sample(X, n_samples, random_state, method, n_features)
        if rows is None:
            return draws[:, 0]
        means = self.y_mean_ + self._mean_at(rows)
        functions = draws * self.y_scale_[:, None] + means[:, :, None]
        return self._without_outputs(functions, axis=1)

    def _left_out(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return left-out means and deviations (n, k) of targets, and variances.

        Deviations have the noise of an observation. Variances (n,) are of the latent
        function, as shares of the prior.
        """
        loo, model = self._leave_out(), self._process.model
        mean = loo.mean * self.y_scale_ + self.y_mean_
        if self._training.left_out_offsets is not None:
            mean = mean + self._training.left_out_offsets[loo.indices]
        var = loo.var[:, None] + (model.observation_noise - model.noise)
        std = np.sqrt(var * model.function_variances) * self.y_scale_
        return mean, std, loo.var - model.left_out_noise[loo.indices]

    def _fit_as(self, planned: PlannedFit) -> Self:
        """Fit as planned, publish, and calibrate."""
        self._publish(planned, *planned.fit())
        return self._calibrate()

    def _mean_at(self, rows: NDArray[Any]) -> FloatArray:
        """Return what a regressor as prior mean predicts (n, k); zeros for none."""
        k = len(self.y_scale_)
        if not hasattr(self, "mean_"):
            return np.zeros((1, k))
        return mean_at(self.mean_, rows, k)

    def _add(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> Self:
        """Add samples to the process."""
        noise = host_values(self.noise_variance, "noise_variance")
        if np.ndim(noise) or self._process.model.noise_shares is not None:
            raise ValueError(
                "`partial_fit` cannot add samples with a noise variance each: call "
                "`fit` with all samples and all of `noise_variance`."
            )
        further = self._read_further(
            X, y, sample_weight, multi_output=True, y_numeric=True
        )
        if further.is_nothing:
            return self
        self._extend(*self._further_targets(further))
        return self._calibrate()

    @property
    def _is_scaled(self) -> bool:
        """Whether the data scale deviations: not if the user knows the noise."""
        return self.amplitude == "profile" and self._process.model.noise_shares is None

    def _calibrate(self) -> Self:
        """Scale deviations, and find the widths of intervals, by left-out targets."""
        process = self._process
        errors = LeftOutErrors.unknown(len(self.y_scale_))
        if process.has_left_out:
            progress_of(GPSettings.of(self).verbose).enter(CALIBRATION)
            # Facts of an inexact solution are not told again.
            resources, model = self._resources(), process.model
            loo = process.leave_out(resources, is_subset_enough=True)
            weights = self._training.weights_as_new(
                loo.indices, model.sample_weights[loo.indices]
            )
            errors = LeftOutErrors.of(
                loo,
                weights,
                model,
                is_scaled=self._is_scaled,
                factor=model.error_factor * self._training.mean_factor,
            )
        self._training = replace(self._training, errors=errors)
        model = replace(
            process.model,
            deviation_factors=errors.factors,
            added_noise=errors.added_noise,
        )
        self._process = replace(process, model=model)
        self.fit_report_ = replace(
            self.fit_report_,
            deviation_factors=tuple(errors.factors.tolist()),
            deviation_noises=tuple(errors.added_noise.tolist()),
        )
        return self

    def _read_targets(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None,
        *,
        groups: ArrayLike | None = None,
        planned: Callable[..., PlannedFit] | None = None,
        is_outline: bool = False,
    ) -> FitData:
        """Return what a fit reads: targets of one or several outputs, scaled.

        Parameters
        ----------
        X, y, sample_weight, groups : array-like
            As in `fit`.
        planned : callable, optional
            Plans the fit that follows. Without one no mean is fitted.
        is_outline : bool, default=False
            Whether nothing will be fitted, so that no inputs need be kept.
        """
        settings = GPSettings.of(self)
        is_scaled = settings.read("normalize_y", as_flag)
        mean = read_mean(settings, has_linear=self._has_linear_mean)
        samples = read_training(
            self,
            settings,
            X,
            y,
            sample_weight,
            groups=groups,
            keeps_rows=self._keeps_rows and not is_outline,
            multi_output=True,
            y_numeric=True,
        )
        if groups is not None:
            require_groups_known(settings, None, has_models=False)
        self.image_shape_ = samples.image_shape
        noises = read_noises(
            settings,
            samples.training.n_given,
            is_allowed=self._has_sample_noise,
            is_outline=is_outline,
        )
        self.__dict__.pop("mean_", None)  # of another fit
        if not (mean is None or mean == LINEAR or planned is None):
            settings.require()
            apart = settings.but(random_state=0, verbose=0)
            with without_warnings():  # the fit gives them
                # Scaled targets are in the range of a solve, whatever a mean leaves.
                data = self._in_units(apart, samples, noises, is_scaled=True)
                planned(data, is_outline=True)  # refuses wrong settings
            self.mean_, samples = fit_mean(mean, samples)
        return self._in_units(settings, samples, noises, is_scaled=is_scaled)

    def _in_units(
        self,
        settings: GPSettings,
        samples: Samples,
        noises: FloatArray | None,
        *,
        is_scaled: bool,
    ) -> FitData:
        """Return what a fit reads, with targets in its units, which are set.

        Noise variances (n_given,) are of the samples; None if they share one.
        """
        columns = target_columns(samples.y)
        self.y_mean_, self.y_scale_ = scale_targets(
            columns, samples.weights, is_scaled=is_scaled
        )
        if noises is None:
            return FitData(settings, *self._scaled(settings, samples, None))
        # Targets of one noise have one unit.
        self.y_scale_ = common_scale(columns, self.y_mean_, self.y_scale_)
        problem, samples = self._scaled(settings, samples, None)
        own = noises[samples.training.kept] / self.y_scale_[0] ** 2
        problem = replace(problem, noise_variances=own)
        settings = settings.but(noise_variance=problem.mean_noise)
        return FitData(settings, problem, samples)

    def _further_targets(self, samples: Samples) -> tuple[Problem, Samples]:
        """Return samples to add to a fitted process; units stay."""
        n_outputs = 1 if samples.y.ndim == 1 else samples.y.shape[1]
        if n_outputs != len(self.y_mean_):
            raise ValueError(
                f"y has {n_outputs} outputs, and in the first call it had "
                f"{len(self.y_mean_)}."
            )
        if hasattr(self, "mean_"):
            own = mean_at(self.mean_, samples.rows, n_outputs)
            samples = samples.less(own, own, self._training.mean_factor)
        return self._scaled(GPSettings.of(self), samples, self._training)

    def _scaled(
        self, settings: GPSettings, samples: Samples, earlier: Training | None
    ) -> tuple[Problem, Samples]:
        """Return targets in units of the fit; warn if they determine no amplitude."""
        columns = target_columns(samples.y)
        was_informed = earlier is not None and earlier.is_informed
        is_varied = varied(columns, self.y_mean_)
        if settings["amplitude"] == "profile" and not was_informed:
            warn_of_constants(is_varied, "amplitude='profile'", "set `amplitude`")
        scaled = in_units(columns, self.y_mean_, self.y_scale_)
        require_range(scaled, settings.solve_dtype, is_first=earlier is None)
        is_informed = was_informed or bool(is_varied.any())
        given = samples.rows, scaled, samples.weights, self.y_scale_
        problem = Problem(*given, groups=samples.groups)
        if isinstance(settings["mean"], str) and earlier is None:
            problem = without_trend(problem)
        is_single = samples.y.ndim == 1
        training = replace(
            samples.training, is_informed=is_informed, is_single=is_single
        )
        return problem, replace(samples, training=training)

    def _without_outputs(self, values: FloatArray, axis: int = -1) -> FloatArray:
        """Drop the dimension of the outputs if y had none."""
        if not self._training.is_single:
            return values
        single: FloatArray = values.take([0], axis).squeeze(axis)
        return single
