"""GPClassifier: from labels to latent functions, and back to labels."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from skconvgp._ambient import public
from skconvgp._protocols import (
    Calibration,
    Targets,
)
from skconvgp._typing import FloatArray
from skconvgp.engine import rows_to_tensor, to_numpy
from skconvgp.estimators._calibrating import (
    calibrate,
    in_double,
    restored_means,
    with_shown,
)
from skconvgp.estimators._doors import Samples, read_training
from skconvgp.estimators._fitting import FitData, PlannedFit
from skconvgp.estimators._gp import CALIBRATION, BaseGP
from skconvgp.estimators._groups import require_groups_known
from skconvgp.estimators._growing import require_same_classes
from skconvgp.estimators._labels import (
    accuracy,
    as_labels,
    class_weighing,
    codes_of,
    label_models,
    logarithms,
    most_probable,
    regression_targets,
    require_classes,
    require_usable,
    warn_of_missing_classes,
)
from skconvgp.estimators._warn import warn_caller
from skconvgp.estimators.compute._progress import progress_of
from skconvgp.estimators.settings._checks import as_likelihood
from skconvgp.estimators.settings._gp import GPSettings
from skconvgp.processes import (
    LabelModel,
    Latent,
    Problem,
    Run,
)


class GPClassifier(ClassifierMixin, BaseGP):
    """A classifier with a latent function for each class."""

    likelihood: object

    _has_variational: ClassVar[bool] = False  # inference
    _instead: ClassVar[str] = "'laplace' or 'gaussian'"  # likelihoods without it

    classes_: NDArray[Any]
    likelihood_: Any  # a Likelihood, a LinkLikelihood or a VariationalLikelihood
    latent_offset_: FloatArray
    calibration_: Calibration
    temperature_: float

    @public
    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable label.

        In label regression all latent functions share their variance, so that this is
        the label with the largest latent mean, and no variance is computed. The same
        label is returned with a precomputed kernel, whose prior variances at X are
        unknown.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Images or vectors; K(X, X_train) if precomputed.

        Returns
        -------
        labels : ndarray of shape (n,)
            Labels.
        """
        check_is_fitted(self)
        if self._reads_variances:
            return most_probable(self.classes_, self.predict_proba(X))
        return most_probable(self.classes_, self._shifted_mean(X))

    @public
    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of each class.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Images or vectors; K(X, X_train) if precomputed.

        Returns
        -------
        probabilities : ndarray of shape (n, n_classes)
            Rows sum to 1; columns in the order of `classes_`.
        """
        return self._probabilities(*self._uncalibrated(X))

    @public
    def predict_log_proba(self, X: Any) -> FloatArray:
        """Return the logarithm of the probability of each class.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Images or vectors; K(X, X_train) if precomputed.

        Returns
        -------
        log_probabilities : ndarray of shape (n, n_classes)
            Logarithms of the probabilities; -inf where a probability is 0.
        """
        return logarithms(self.predict_proba(X))

    @public
    def decision_function(self, X: Any) -> FloatArray:
        """Return the score of each class; for two classes their log odds.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Images or vectors; K(X, X_train) if precomputed.

        Returns
        -------
        decision : ndarray of shape (n, n_classes), or (n,) for two classes
            Logarithms of probabilities, or latent means if these are not known or
            nothing is calibrated on enough left-out samples. A larger score is more
            probable; for two classes, a score > 0 means ``classes_[1]``.
        """
        check_is_fitted(self)
        if self._needs_variances and not self._process.basis.knows_variances:
            scores = self._shifted_mean(X)
        else:
            scores = self._scores(X)
        is_binary = len(self.classes_) == 2
        decision: FloatArray = scores[:, 1] - scores[:, 0] if is_binary else scores
        return decision

    @public
    def predict_latent(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        noise: bool = False,
        diag: ArrayLike | None = None,
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Return the mean and the uncertainty of the latent functions.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Images or vectors; K(X, X_train) if precomputed.
        return_std : bool, default=False
            Whether to return standard deviations.
        return_cov : bool, default=False
            Whether to return covariances instead of standard deviations.
        noise : bool, default=False
            Whether the uncertainty includes the observation noise.
        diag : array-like of shape (n,), default=None
            Prior variances k(x, x), needed with `return_std` if precomputed.

        Returns
        -------
        mean : ndarray of shape (n, n_classes)
            Latent means, in units of the label code.
        std : ndarray of shape (n, n_classes)
            Standard deviations, with `return_std`.
        cov : ndarray of shape (n, n, n_classes)
            Covariances, with `return_cov`.
        """
        latent = self._uncertain_latent(self._read_new(X), diag, return_std, return_cov)
        mean = latent.mean + self.latent_offset_
        return self._with_uncertainty(latent, mean, return_std, return_cov, noise)

    @public
    def loo_predict(self) -> NDArray[Any]:
        """Return the label that each training sample gets from all the others.

        It is the most probable label, as in `predict`. The result has a closed form:
        nothing is fitted again. Samples with equal inputs are left out together,
        as are samples of a group, and an image with all of its versions, because copies
        would predict each other.
        Of a group, scores of label regression are as if its share of a class had
        stayed. Samples of weight 0 have no predictions.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Labels.
        """
        check_is_fitted(self)
        mean, var = self._left_out()[1:]
        scores = self._probabilities(mean, var)
        # Without a variance the label is that of the mean, as in `predict`.
        scores = np.where(np.isfinite(scores), scores, mean)
        return most_probable(self.classes_, scores)

    @public
    def loo_predict_proba(self) -> FloatArray:
        """Return the probabilities that each training sample gets from all the others.

        The result has a closed form, with the amplitude and the calibration of the
        whole fit. Samples with equal inputs are left out together, as are samples of a
        group, and an image with all of its versions, because copies would predict each
        other. Of a group, scores of label regression are as if its share of a class
        had stayed; if a group holds most of a class, it says little either way. Samples
        of weight 0 have no predictions.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            Rows sum to 1; columns in the order of `classes_`.
        """
        check_is_fitted(self)
        return self._probabilities(*self._left_out()[1:])

    @public
    def score(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the share of samples whose label is predicted correctly.

        Parameters
        ----------
        X : array-like
            Images or vectors, as in `fit`.
        y : array-like of shape (n,)
            True labels. A label that is not in `classes_` counts as a mistake, and
            causes a warning.
        sample_weight : array-like of shape (n,), default=None
            Weights.

        Returns
        -------
        score : float
            Accuracy.
        """
        return accuracy(self, X, y, sample_weight)

    @public
    def sample_y(
        self,
        X: Any,
        n_samples: int = 1,
        random_state: Any = None,
        method: str = "auto",
        n_features: int = 2000,
    ) -> FloatArray:
        """Draw latent functions at X from the posterior; before `fit`, from the prior.

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
        samples : ndarray of shape (n, n_classes, n_samples)
            Joint draws over the samples. The latent functions of different classes are
            drawn independently. If a likelihood has one latent function for two
            classes, that of the first class is the negative of that of the second.
            Before `fit`, n_classes is 1.

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
            return draws
        draws = draws + self.latent_offset_[:, None]
        if self._process.has_one_latent:
            draws[:, 0] = -draws[:, 1]
        return draws

    @property
    def _reads_variances(self) -> bool:
        """Whether the most probable class depends on variances, and these are known."""
        return self._needs_variances and self._process.basis.knows_variances

    @property
    def _needs_variances(self) -> bool:
        return bool(getattr(self.likelihood_, "needs_variance", True))

    def _shifted_mean(self, X: Any) -> FloatArray:
        mean = self._latent(self._read_new(X), None).mean + self.latent_offset_
        shifted: FloatArray = mean + np.asarray(self.calibration_.offsets or 0.0)
        return shifted

    def _scores(self, X: Any) -> FloatArray:
        """Return logarithms of probabilities (n, k), or calibrated means."""
        mean, var, seen = self._uncalibrated(X)
        if self._needs_variances or self.calibration_.familiarity is not None:
            found = self._probabilities(mean, var, seen)
            scores: FloatArray = np.log(found.clip(min=np.finfo(np.float64).tiny))
            return scores
        return to_numpy(self.calibration_.latents(in_double(mean), in_double(var))[0])

    def _uncalibrated(
        self, X: Any
    ) -> tuple[FloatArray, FloatArray, dict[str, FloatArray]]:
        """Return latent means and variances, and numbers of samples that are known."""
        rows = self._read_new(X)
        needs, enough = self._needs_spread, not self._needs_variances
        latent = self._latent(rows, None, needs_var=needs, is_mean_enough=enough)
        return self._latents(latent)

    @property
    def _needs_spread(self) -> bool:
        """Whether probabilities depend on variances."""
        return self._needs_variances or self.calibration_.spread > 0.0

    def _latents(
        self, latent: Latent
    ) -> tuple[FloatArray, FloatArray, dict[str, FloatArray]]:
        """Return what `_uncalibrated` does, given the posterior at samples."""
        amplitude = self._amplitude
        var = latent.var * amplitude
        if latent.between.size:
            var = latent.between * amplitude[0]
        seen = {"prior": latent.prior, "contrast": latent.contrast}
        known = {name: values for name, values in seen.items() if values.size}
        return latent.mean + self.latent_offset_, var, known

    @property
    def _amplitude(self) -> FloatArray:
        return self._process.model.amplitude

    def _left_out(
        self, *, is_subset_enough: bool = False
    ) -> tuple[NDArray[np.intp], FloatArray, FloatArray]:
        """Return indices of samples, and their leave-one-out latent functions.

        Parameters
        ----------
        is_subset_enough : bool, default=False
            Whether a subset of the samples is enough if each one costs a solve.

        Returns
        -------
        indices : ndarray of shape (m,)
            Which samples.
        mean, var : ndarray of shape (m, k)
            Means and variances; covariances (m, k, k) if the functions have some. Means
            are as if groups had not taken their share of classes away.
        """
        loo = self._leave_out(is_subset_enough=is_subset_enough)
        model = self._process.model
        mean = loo.mean + self.latent_offset_
        if model.class_factors is not None:
            lowest = model.targets.min(0) * model.scale + self.latent_offset_
            mean = restored_means(mean, lowest, model.class_factors[loo.indices])
        if not loo.has_noise:
            return loo.indices, mean, loo.var
        noise = model.noise / np.minimum(model.left_out_weights[loo.indices], 1.0)
        var = (loo.var - noise)[:, None].clip(min=0.0)
        return loo.indices, mean, var * model.amplitude

    def _read_labels(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None,
        classes: NDArray[Any] | None = None,
        *,
        groups: ArrayLike | None = None,
        is_outline: bool = False,
    ) -> FitData:
        """Return what a fit reads; without `classes` these are the labels of y.

        Parameters
        ----------
        X, y, sample_weight : array-like
            As in `fit`.
        classes : ndarray of shape (n_classes,), optional
            All labels that will ever come.
        groups : array-like, optional
            As in `fit`.
        is_outline : bool, default=False
            Whether nothing will be fitted, so that no inputs need be kept.
        """
        settings = GPSettings.of(self)
        samples = read_training(
            self,
            settings,
            X,
            y,
            sample_weight,
            read_y=as_labels,
            reweigh=class_weighing(settings, classes),
            groups=groups,
            keeps_rows=self._keeps_rows and not is_outline,
        )
        self.image_shape_ = samples.image_shape
        self.classes_ = np.unique(samples.y) if classes is None else classes
        codes = codes_of(samples.y, self.classes_)
        require_classes(self.classes_, "y" if classes is None else "`classes`")
        self.likelihood_ = settings.read("likelihood", as_likelihood)
        instead = "" if self._has_variational else self._instead
        weights = samples.weights
        require_usable(self.likelihood_, weights, instead, settings.owner)
        targets = self._regression_targets(codes, samples.weights)
        self.latent_offset_ = to_numpy(targets.offset)
        problem, samples = self._problem(samples, codes, targets)
        models = self._label_models(problem)
        if groups is not None:
            require_groups_known(settings, self.likelihood_, has_models=bool(models))
        if models:
            warn_of_missing_classes(self.classes_, codes)
        return FitData(settings, problem, samples, models)

    def _further_labels(self, samples: Samples) -> tuple[Problem, Samples]:
        """Return samples to add to a fitted process; the offset stays."""
        codes = codes_of(samples.y, self.classes_)
        targets = self._regression_targets(codes, samples.weights)
        # Labels that determine their noise have targets of their own.
        if self._process.labels is not None:
            return self._problem(samples, codes, targets)
        targets = replace(targets, offset=rows_to_tensor(self.latent_offset_))
        return self._problem(samples, codes, targets)

    def _problem(
        self, samples: Samples, codes: NDArray[np.intp], targets: Targets
    ) -> tuple[Problem, Samples]:
        centred = to_numpy(targets.values - targets.offset)
        unit = np.ones(len(self.classes_))
        given = samples.rows, centred, samples.weights, unit, codes
        training = replace(samples.training, codes=codes)
        return (
            Problem(*given, groups=samples.groups),
            replace(samples, training=training),
        )

    @property
    def _calibrates(self) -> bool:
        """Whether probabilities are calibrated on leave-one-out predictions."""
        return hasattr(self.likelihood_, "calibrate")

    def _regression_targets(
        self, codes: NDArray[np.intp], weights: FloatArray
    ) -> Targets:
        n_classes = len(self.classes_)
        return regression_targets(self.likelihood_, codes, n_classes, weights)

    def _label_models(self, problem: Problem) -> list[LabelModel]:
        """Return the candidate models of labels whose noise follows from the labels."""
        return label_models(self.likelihood_, len(self.classes_), problem)

    def _fit_as(self, planned: PlannedFit) -> Self:
        """Fit as planned, publish, and calibrate."""
        fitted, run = planned.fit()
        self._publish(planned, fitted, run)
        return self._calibrate(planned.data.problem, run)

    def _add(
        self,
        X: Any,
        y: Any,
        classes: ArrayLike | None,
        sample_weight: ArrayLike | None,
    ) -> Self:
        """Add samples to the process, and calibrate it."""
        require_same_classes(self.classes_, classes)
        reweigh = class_weighing(GPSettings.of(self), self.classes_)
        further = self._read_further(
            X, y, sample_weight, read_y=as_labels, reweigh=reweigh
        )
        if further.is_nothing:
            return self
        problem, samples = self._further_labels(further)
        self._extend(problem, samples)
        return self._calibrate(problem)

    def _calibrate(self, problem: Problem, run: Run | None = None) -> Self:
        """Fit the calibration of latent functions, if the likelihood has one.

        The problem has the samples that were added last.
        """
        process = self._process
        if process.labels is not None:
            self.likelihood_ = process.labels.likelihood
            self.latent_offset_ = process.labels.offset
        self.calibration_ = Calibration()
        if self._calibrates and not process.has_left_out:
            warn_caller(
                f"{self.solver_!r} is too far from a solution for left-out "
                "predictions: probabilities are not calibrated.",
                ConvergenceWarning,
            )
        elif self._calibrates:
            progress_of(GPSettings.of(self).verbose).enter(CALIBRATION)
            self._training = with_shown(
                self._training, process, problem, self._resources(), run
            )
            found = self._left_out(is_subset_enough=True)
            self.calibration_ = calibrate(
                self.likelihood_, process, self._training, found
            )
        self.temperature_ = self.calibration_.temperature
        return self

    def _probabilities(
        self,
        mean: FloatArray,
        var: FloatArray,
        seen: Mapping[str, FloatArray] = MappingProxyType({}),
    ) -> FloatArray:
        """Return probabilities (n, k), given latent functions and known numbers."""
        given, calibration = (in_double(mean), in_double(var)), self.calibration_
        found = self.likelihood_.probabilities(*calibration.latents(*given))
        known = {name: in_double(values) for name, values in seen.items()}
        return to_numpy(calibration.faded(found, *given, known))
