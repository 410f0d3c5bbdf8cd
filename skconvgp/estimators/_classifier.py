"""BaseGPClassifier: labels to latent functions and back."""

import copy
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from skconvgp._protocols import Calibration, Likelihood, LinkLikelihood, Targets
from skconvgp._typing import FloatArray
from skconvgp.estimators._base import BaseGP, Problem
from skconvgp.estimators._judged import JudgedClassifier, as_labels
from skconvgp.estimators._label_models import LabelModel, LinkModel, NoisyModel
from skconvgp.estimators._public_fit import public_fit
from skconvgp.estimators._resolve import resolve_likelihood
from skconvgp.estimators._validation import rows_to_tensor, to_numpy
from skconvgp.inference import LeaveOneOut
from skconvgp.kernels import Kernel
from skconvgp.likelihoods import Gaussian

__all__ = ["BaseGPClassifier"]


class BaseGPClassifier(JudgedClassifier, BaseGP):
    """Methods of a classifier with a latent function for each class."""

    likelihood: object

    likelihood_: Any  # a Likelihood or a LinkLikelihood
    latent_offset_: FloatArray
    calibration_: Calibration
    temperature_: float
    _codes: NDArray[np.intp]

    @public_fit
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the latent functions, and calibrate the probabilities.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Training images or vectors; the Gram matrix (n, n) if precomputed.
        y : array-like of shape (n,)
            Labels.
        sample_weight : array-like of shape (n,), default=None
            A weight of 2 is the same as two equal samples, 0 the same as none.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        return self._fit_labels(X, y, sample_weight, None)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable label.

        In label regression that is the one of the largest latent mean, as latent
        functions share their variance: it costs no variance. So it is if precomputed,
        where the variances are not known.

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
            return self._labels(self.predict_proba(X))
        return self._labels(self._shifted_mean(X))

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
        latents = self._calibrated_latents(X)
        return to_numpy(self.likelihood_.probabilities(*latents))

    def decision_function(self, X: Any) -> FloatArray:
        """Return how far each class is ahead; for two classes the log odds.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Images or vectors; K(X, X_train) if precomputed.

        Returns
        -------
        decision : ndarray of shape (n, n_classes), or (n,) for two classes
            Calibrated latent means, or logarithms of probabilities where the likelihood
            reads variances. Larger is more probable; for two classes > 0 means
            ``classes_[1]``.
        """
        check_is_fitted(self)
        if self._reads_variances:
            smallest = np.finfo(np.float64).tiny
            scores = np.log(self.predict_proba(X).clip(min=smallest))
        elif self._needs_variances:  # and does not know them
            scores = self._shifted_mean(X)
        else:
            scores = to_numpy(self._calibrated_latents(X)[0])
        is_binary = len(self.classes_) == 2
        decision: FloatArray = scores[:, 1] - scores[:, 0] if is_binary else scores
        return decision

    def predict_latent(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        noise: bool = False,
        diag: ArrayLike | None = None,
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Return mean and uncertainty of the latent functions.

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
        mean : ndarray of shape (n, n_classes)
            Latent means, in units of the label code.
        std : ndarray of shape (n, n_classes)
            Standard deviations, with `return_std`.
        cov : ndarray of shape (n, n, n_classes)
            Covariances, with `return_cov`.
        """
        latent = self._uncertain_latent(X, diag, return_std, return_cov)
        mean = latent.mean + self.latent_offset_
        return self._with_uncertainty(latent, mean, return_std, return_cov, noise)

    def loo_predict(self) -> NDArray[Any]:
        """Return the label that each training sample gets from all the others.

        The most probable one, as in `predict`. In closed form, without fitting again.
        Samples with equal inputs are left out together, as copies would predict each
        other; those of weight 0 have no predictions.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Labels.
        """
        return self._labels(self.loo_predict_proba())

    def loo_predict_proba(self) -> FloatArray:
        """Return the probabilities that each training sample gets from all the others.

        In closed form, with the amplitude and the calibration of the whole fit.
        Samples with equal inputs are left out together, as copies would predict each
        other; those of weight 0 have no predictions.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            Rows sum to 1; columns in the order of `classes_`.
        """
        check_is_fitted(self)
        if self._label_loo is not None:
            mean, var = self._label_loo
            return self._probabilities(mean + self.latent_offset_, var)
        everyone = np.arange(len(self._weights))
        return self._probabilities(*self._left_out(everyone, self._leave_one_out()))

    def sample_y(
        self, X: Any, n_samples: int = 1, random_state: Any = None
    ) -> FloatArray:
        """Draw latent functions at X; from the prior before `fit`.

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
        samples : ndarray of shape (n, n_classes, n_samples)
            Joint draws over the samples; latent functions are drawn one by one, but
            that of the first of two classes is the negative of the second's where the
            likelihood has one for both. Before `fit`, n_classes is 1.
        """
        draws = self._sample_latent(X, n_samples, random_state)
        if not hasattr(self, "latent_offset_"):
            return draws
        draws = draws + self.latent_offset_[:, None]
        if self._has_one_latent:
            draws[:, 0] = -draws[:, 1]
        return draws

    @property
    def _reads_variances(self) -> bool:
        """Whether the most probable class is found by variances that are known."""
        return self._needs_variances and isinstance(self.kernel_, Kernel)

    @property
    def _needs_left_out(self) -> bool:
        return hasattr(self.likelihood_, "calibrate")

    @property
    def _needs_variances(self) -> bool:
        return bool(getattr(self.likelihood_, "needs_variance", True))

    def _shifted_mean(self, X: Any) -> FloatArray:
        mean = self._latent(X, None).mean + self.latent_offset_
        offsets = self.calibration_.offsets
        return mean + np.asarray(offsets) if offsets else mean

    def _calibrated_latents(self, X: Any) -> tuple[Tensor, Tensor]:
        """Return means (n, k) and variances, as probabilities are made of them."""
        check_is_fitted(self)
        needs_var = self._needs_variances or self.calibration_.spread > 0.0
        latent = self._latent(X, None, needs_var=needs_var)
        var = latent.var * self._amplitudes()
        if latent.between.size:
            var = latent.between * self._amplitudes()[0]
        mean = latent.mean + self.latent_offset_
        return self.calibration_.latents(_in_double(mean), _in_double(var))

    def _sampled_latents(self) -> tuple[NDArray[np.intp], FloatArray, FloatArray]:
        """Return numbers of samples and their latent functions without them."""
        if self._label_loo is not None:
            mean, var = self._label_loo
            return np.arange(len(mean)), mean + self.latent_offset_, var
        numbers, loo = self._sampled_loo()
        return numbers, *self._left_out(numbers, loo)

    def _left_out(
        self, numbers: NDArray[np.intp], loo: LeaveOneOut
    ) -> tuple[FloatArray, FloatArray]:
        """Return means and variances (n, k) of latent functions at left-out samples."""
        noise = self.noise_variance_ / np.minimum(self._left[numbers], 1.0)
        var = (to_numpy(loo.var) - noise)[:, None].clip(min=0.0)
        return to_numpy(loo.mean) + self.latent_offset_, var * self._amplitudes()

    def _fit_labels(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None,
        classes: NDArray[Any] | None,
    ) -> Self:
        """Fit to labels, which are all the classes there are if None are given."""
        rows, y = self._validate_fit(X, y)
        labels = as_labels(y)
        rows, labels, weights = self._weighted(rows, labels, sample_weight)
        self.classes_ = np.unique(labels) if classes is None else classes
        codes = self._codes_of(labels)
        if len(self.classes_) == 1:
            what = "y" if classes is None else "`classes`"
            raise ValueError(
                f"{what} must have at least two classes, got one class: "
                f"{self.classes_.tolist()[0]!r}."
            )
        self.likelihood_ = copy.deepcopy(resolve_likelihood(self, self.likelihood))
        self._require_equal_weights(weights)
        self._fit_problem(self._problem(rows, codes, weights))
        return self

    def _fit_problem(self, problem: Problem) -> None:
        """Fit the latent functions, and calibrate on the samples used."""
        assert problem.codes is not None
        self._codes = problem.codes[self._fit_latent(problem)]
        self._calibrate()

    def _codes_of(self, labels: NDArray[Any]) -> NDArray[np.intp]:
        """Return the place of each label in `classes_`."""
        known = np.isin(labels, self.classes_)
        if not known.all():
            raise ValueError(
                f"y holds labels that are not in `classes`, {self.classes_!r}: "
                f"{np.unique(labels[~known])!r}."
            )
        return np.searchsorted(self.classes_, labels)

    def _problem(
        self,
        rows: NDArray[Any],
        codes: NDArray[Any],
        weights: FloatArray,
        *,
        are_further: bool = False,
    ) -> Problem:
        """Return what the likelihood makes of class codes; the first offset stays."""
        n_classes = len(self.classes_)
        targets = self._regression_targets(codes, weights)
        if not are_further:
            self.latent_offset_ = to_numpy(targets.offset)
        centred = to_numpy(targets.values) - self.latent_offset_
        return Problem(rows, centred, weights, np.ones(n_classes), codes)

    def _regression_targets(self, codes: NDArray[Any], weights: FloatArray) -> Targets:
        """Return targets that share one noise; kernels are chosen by these.

        They are the plain code of labels where those of the likelihood share none.
        """
        likelihood, n_classes = self.likelihood_, len(self.classes_)
        if isinstance(likelihood, LinkLikelihood):
            likelihood.link_of(n_classes)  # wrong settings, before any work
        else:
            first = _candidates(likelihood)[0]
            targets = _targets_of(first, codes, n_classes, weights)
            if targets.noise is None:
                return targets
        return _targets_of(Gaussian(), codes, n_classes, weights)

    def _label_models(self, problem: Problem) -> list[LabelModel]:
        """Return what may be fitted to labels that have a noise of their own, if so."""
        codes, n_classes = problem.codes, len(self.classes_)
        assert codes is not None
        if isinstance(self.likelihood_, LinkLikelihood):
            return [LinkModel(self.likelihood_, torch.as_tensor(codes), n_classes)]
        models: list[LabelModel] = []
        for likelihood in _candidates(self.likelihood_):
            targets = _targets_of(likelihood, codes, n_classes, problem.weights)
            if targets.noise is not None:
                weights = rows_to_tensor(problem.weights)
                models.append(NoisyModel(likelihood, targets, weights, problem.inputs))
        return models

    def _require_equal_weights(self, weights: FloatArray) -> None:
        """Raise where a likelihood cannot weigh samples."""
        if isinstance(self.likelihood_, LinkLikelihood) and (weights != 1.0).any():
            raise ValueError(
                f"{self.likelihood_!r} takes no sample weights other than 0 and 1: use "
                "likelihood='dirichlet' or 'gaussian'."
            )

    def _calibrate(self) -> None:
        """Fit what latents go through before they become probabilities."""
        self.calibration_ = Calibration()
        if self._needs_left_out and self._knows_left_out():
            numbers, mean, var = self._sampled_latents()
            # Of new samples a given matrix does not tell the prior variances.
            is_known = isinstance(self.kernel_, Kernel)
            self.calibration_ = self.likelihood_.calibrate(
                _in_double(mean),
                _in_double(var) if is_known else None,
                torch.as_tensor(self._codes[numbers]),
                _in_double(self._weights[numbers]),
            )
        self.temperature_ = self.calibration_.temperature

    def _probabilities(self, mean: FloatArray, var: FloatArray) -> FloatArray:
        latents = self.calibration_.latents(_in_double(mean), _in_double(var))
        return to_numpy(self.likelihood_.probabilities(*latents))


def _in_double(values: FloatArray) -> Tensor:
    return rows_to_tensor(values).to(torch.float64)


def _candidates(likelihood: Likelihood) -> Sequence[Likelihood]:
    """Return the likelihoods to choose from by leave-one-out: mostly the one given."""
    candidates = getattr(likelihood, "candidates", None)
    found: Sequence[Likelihood] = [likelihood] if candidates is None else candidates()
    return found


def _targets_of(
    likelihood: Likelihood, codes: NDArray[Any], n_classes: int, weights: FloatArray
) -> Targets:
    units = rows_to_tensor(weights)
    return likelihood.targets(torch.as_tensor(codes), n_classes, units)
