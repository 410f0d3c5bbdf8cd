"""ConvNetGPClassifier."""

import copy
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from skconvgp._typing import FloatArray
from skconvgp.estimators._base import BaseConvGP
from skconvgp.estimators._resolve import resolve_likelihood
from skconvgp.estimators._validation import check_weights, rows_to_tensor, to_numpy

__all__ = ["ConvNetGPClassifier"]


class ConvNetGPClassifier(ClassifierMixin, BaseConvGP):
    """Gaussian process classifier with the covariance of an infinite network.

    Label regression: a latent function for each class is regressed on the labels,
    exactly, with one Cholesky factorisation for all classes; probabilities are the
    softmax of the latent means divided by a temperature, which is fitted on
    closed-form leave-one-out predictions.

    Parameters
    ----------
    kernel : None, Kernel or "precomputed", default=None
        Covariance function, from :mod:`skconvgp.kernels`. None is
        :class:`~skconvgp.kernels.convnet`, which then has no settings to search: pass
        an object for ``kernel__depth`` and the like. With "precomputed", X is the
        Gram matrix in `fit` and the covariances with the training data in `predict`.
    image_shape : "auto", None, (h, w) or (c, h, w), default="auto"
        How a flat row becomes an image, in the order c, h, w. "auto" takes images as
        they come, reads rows of s * s or 3 * s * s values with s >= 8 as square images
        (with a warning), and all others as 1x1 images with a channel for each
        feature. None always does the last. Kernels that know no images ignore it.
    noise_variance : float, "loo" or "evidence", default=1e-4
        Variance of the observation noise, as a share of the mean prior variance. The
        words choose it on a grid, from one eigendecomposition: by leave-one-out log
        predictive density or by evidence.
    amplitude : "profile", float or None, default="profile"
        Mean prior variance of the latent functions, in squared units of the targets.
        "profile" maximises the evidence in closed form; None takes the kernel as it
        is.
    likelihood : "gaussian" or likelihood object, default="gaussian"
        How labels become targets and latents become probabilities; see
        :mod:`skconvgp.likelihoods`.
    solver : "auto", "cholesky", "lsqr" or solver object, default="auto"
        Solves the linear system; see :mod:`skconvgp.solvers`. "lsqr" is for
        reproduction only.
    device : str, default="auto"
        "auto" takes a GPU if there is one with enough free memory; or "cpu", "cuda",
        "cuda:1".
    backend : "auto", "torch" or "fused", default="auto"
        What computes the covariance maps: "fused" is compiled code that keeps all
        layers of a pair of images in cache, for most networks; "torch" takes any
        kernel. "auto" is "fused" where it can run the kernel. A fitted model predicts
        without it too: with torch, and with a warning if "fused" was asked for.
    dtype : "auto", "float32" or "float64", default="auto"
        Precision of the covariance maps; "auto" is float64 where torch computes them
        on the CPU, else float32. `predict` keeps to that of `fit`, on any machine.
    solve_dtype : "float64" or "float32", default="float64"
        Precision of the Gram matrix and its factor.
    memory_budget : None, int or str, default=None
        Bytes (or "2 GiB") that may be held beside X, the Gram matrix and its factor;
        None is half of what is free.
    n_jobs : int, default=None
        None and 1 compute on as many threads of this process as torch uses, with the
        fused backend too. More jobs go through joblib, as threads one a core at most,
        and share the cores; a job of the fused backend is one thread. On a GPU,
        with "auto" or "cuda" without a number, as many GPUs.
    random_state : int, RandomState instance or None, default=None
        Seed of `sample_y` where it is given none.
    verbose : int, default=0
        1 shows progress on stderr.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    temperature_ : float
        What latent means are divided by for probabilities.
    likelihood_ : Likelihood
        The likelihood used.
    kernel_ : Kernel or "precomputed"
        The kernel used.
    image_shape_ : tuple of int or None
        How a row was read, (c, h, w).
    noise_variance_ : float
        The relative noise variance used.
    amplitude_ : float
        Mean prior variance of the latent functions.
    dual_coef_ : ndarray of shape (n_samples, n_classes)
        Latent means are ``K(X_*, X) @ dual_coef_ + latent_offset_``.
    X_train_ : ndarray of shape (n_samples, n_features)
        Training inputs; samples of weight 0 are left out. None if precomputed.
    latent_offset_ : ndarray of shape (n_classes,)
        Prior means of the latent functions.
    solver_, solver_state_ : object
        The solver and the factored training matrix, n_samples squared numbers.
    fit_report_ : FitReport
        What the fit did and took.
    backend_, device_, dtype_ : str
        What computed the training covariances; "precomputed" is a backend too.
    n_features_in_ : int
        Values in a sample.
    feature_names_in_ : ndarray of shape (d,)
        Names, if X has names that are all strings.

    Raises
    ------
    ValueError
        In `fit`, for data or settings that cannot be used; the message says what to do.
    NotPSDError
        In `fit`, if the Gram matrix is not positive definite even with jitter.
    TileMemoryError
        In `fit`, before any work, if the Gram matrix or a single tile does not fit.

    See Also
    --------
    ConvNetGPRegressor : The same for real-valued targets.
    sklearn.gaussian_process.GaussianProcessClassifier : Laplace approximation for
        vectors; its ``latent_mean_and_variance`` is `predict_latent` here.

    Notes
    -----
    Time is dominated by the n (n + 1) / 2 evaluations of the kernel, memory by the
    Gram matrix and its factor, 16 n^2 bytes. The fitted model keeps the factor,
    8 n^2 bytes, for standard deviations and samples.

    References
    ----------
    Garriga-Alonso, Aitchison and Rasmussen, "Deep convolutional networks as shallow
    Gaussian processes", 2019. Rasmussen and Williams, "Gaussian processes for machine
    learning", 2006, section 6.5.

    Examples
    --------
    >>> from skconvgp import ConvNetGPClassifier
    >>> from skconvgp.datasets import load_digits_images
    >>> from skconvgp.kernels import convnet
    >>> X, y = load_digits_images(return_X_y=True)
    >>> gp = ConvNetGPClassifier(convnet(depth=2, kernel_size=3))
    >>> gp.fit(X[:200], y[:200]).score(X[200:300], y[200:300]) > 0.85
    True
    """

    def __init__(
        self,
        kernel: object = None,
        *,
        image_shape: object = "auto",
        noise_variance: object = 1e-4,
        amplitude: object = "profile",
        likelihood: object = "gaussian",
        solver: object = "auto",
        device: object = "auto",
        backend: object = "auto",
        dtype: object = "auto",
        solve_dtype: object = "float64",
        memory_budget: object = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.image_shape = image_shape
        self.noise_variance = noise_variance
        self.amplitude = amplitude
        self.likelihood = likelihood
        self.solver = solver
        self.device = device
        self.backend = backend
        self.dtype = dtype
        self.solve_dtype = solve_dtype
        self.memory_budget = memory_budget
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the latent functions and the temperature.

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
        self : ConvNetGPClassifier
            The fitted estimator.
        """
        rows, y = self._validate_fit(X, y)
        check_classification_targets(y)
        labels = column_or_1d(y, warn=True)
        weights = check_weights(sample_weight, rows)
        rows, weights = self._drop_unweighted(rows, weights)
        self.classes_, codes = np.unique(labels[self._kept], return_inverse=True)
        n_classes = len(self.classes_)
        if n_classes == 1:
            raise ValueError(
                "y must have at least two classes, got one class: "
                f"{self.classes_[0]!r}."
            )
        self.likelihood_ = copy.deepcopy(resolve_likelihood(self, self.likelihood))
        targets = self.likelihood_.targets(torch.as_tensor(codes), n_classes)
        self.latent_offset_ = to_numpy(targets.offset)
        centred = to_numpy(targets.values - targets.offset)
        self._fit_latent(rows, centred, weights, np.ones(n_classes))
        self.temperature_ = self._fit_temperature(codes)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable label of each sample.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Images or vectors; K(X, X_train) if precomputed.

        Returns
        -------
        labels : ndarray of shape (n,)
            Labels.
        """
        mean = self._latent_mean(X)
        return self.classes_[mean.argmax(axis=1)]  # type: ignore[no-any-return]

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
        check_is_fitted(self)
        latent = self._latent(X, None, needs_var=self.likelihood_.needs_variance)
        var = latent.var[:, None] * self._amplitudes()
        return self._probabilities(latent.mean + self.latent_offset_, var)

    def decision_function(self, X: Any) -> FloatArray:
        """Return latent means; for two classes their difference.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Images or vectors; K(X, X_train) if precomputed.

        Returns
        -------
        decision : ndarray of shape (n, n_classes), or (n,) for two classes
            Larger is more probable; for two classes > 0 means ``classes_[1]``.
        """
        mean = self._latent_mean(X)
        is_binary = len(self.classes_) == 2
        return mean[:, 1] - mean[:, 0] if is_binary else mean

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

        In closed form, without fitting again. Samples of weight 0 are left out.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Labels.
        """
        mean = self._loo_mean()
        return self.classes_[mean.argmax(axis=1)]  # type: ignore[no-any-return]

    def loo_predict_proba(self) -> FloatArray:
        """Return the probabilities that each training sample gets from all the others.

        In closed form, with the amplitude and the temperature of the whole fit.
        Samples of weight 0 are left out.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            Rows sum to 1; columns in the order of `classes_`.
        """
        loo = self._leave_one_out()
        noise = self.noise_variance_ / np.minimum(self._weights, 1.0)
        var = (to_numpy(loo.var) - noise)[:, None].clip(min=0.0)
        mean = to_numpy(loo.mean) + self.latent_offset_
        return self._probabilities(mean, var * self._amplitudes())

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
            Joint draws over the samples. Before `fit`, n_classes is 1.
        """
        draws = self._sample_latent(X, n_samples, random_state)
        if hasattr(self, "latent_offset_"):
            draws = draws + self.latent_offset_[:, None]
        return draws

    def _latent_mean(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        mean: FloatArray = self._latent(X, None).mean + self.latent_offset_
        return mean

    def _loo_mean(self) -> FloatArray:
        mean: FloatArray = to_numpy(self._leave_one_out().mean) + self.latent_offset_
        return mean

    def _fit_temperature(self, codes: NDArray[Any]) -> float:
        temper = getattr(self.likelihood_, "temperature", None)
        if temper is None:
            return 1.0
        loo = rows_to_tensor(self._loo_mean())
        return float(
            temper(loo, torch.as_tensor(codes), rows_to_tensor(self._weights).to(loo))
        )

    def _probabilities(self, mean: FloatArray, var: FloatArray) -> FloatArray:
        scaled = rows_to_tensor(mean).to(torch.float64) / self.temperature_
        scaled_var = rows_to_tensor(var).to(torch.float64) / self.temperature_**2
        return to_numpy(self.likelihood_.probabilities(scaled, scaled_var))
