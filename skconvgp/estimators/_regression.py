"""ConvNetGPRegressor."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import MultiOutputMixin, RegressorMixin

from skconvgp._typing import FloatArray
from skconvgp.estimators._base import BaseConvGP
from skconvgp.estimators._validation import check_weights, to_numpy

__all__ = ["ConvNetGPRegressor"]


class ConvNetGPRegressor(RegressorMixin, MultiOutputMixin, BaseConvGP):
    """Gaussian process regressor with the covariance of an infinite network.

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
    noise_variance : float, "loo" or "evidence", default=1e-2
        Variance of the observation noise, as a share of the mean prior variance. The
        words choose it on a grid, from one eigendecomposition: by leave-one-out log
        predictive density or by evidence.
    amplitude : "profile", float or None, default="profile"
        Mean prior variance of the latent functions, in squared units of the targets.
        "profile" maximises the evidence in closed form; None takes the kernel as it
        is.
    normalize_y : bool, default=True
        Whether each target is shifted and scaled to weighted mean 0 and deviation 1
        for the fit; results are in the units of y either way.
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
    kernel_ : Kernel or "precomputed"
        The kernel used.
    image_shape_ : tuple of int or None
        How a row was read, (c, h, w).
    noise_variance_ : float
        The relative noise variance used.
    amplitude_ : float or ndarray of shape (n_outputs,)
        Mean prior variance of the latent functions,
        in squared units of y.
    dual_coef_ : ndarray of shape (n_samples, n_outputs)
        Latent means are ``K(X_*, X) @ dual_coef_ + y_mean_``.
    X_train_ : ndarray of shape (n_samples, n_features)
        Training inputs; samples of weight 0 are left out. None if precomputed.
    y_mean_, y_scale_ : ndarray of shape (n_outputs,)
        What targets were shifted and divided by.
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
    ConvNetGPClassifier : The same for labels.
    sklearn.gaussian_process.GaussianProcessRegressor : Learns kernels for vectors.

    Notes
    -----
    Several outputs share kernel, noise and factorisation. Time is dominated by the
    n (n + 1) / 2 evaluations of the kernel, memory by the Gram matrix and its factor,
    16 n^2 bytes. The fitted model keeps the factor, 8 n^2 bytes.

    References
    ----------
    Rasmussen and Williams, "Gaussian processes for machine learning", 2006, algorithm
    2.1. Garriga-Alonso, Aitchison and Rasmussen, "Deep convolutional networks as
    shallow Gaussian processes", 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from skconvgp import ConvNetGPRegressor
    >>> from skconvgp.kernels import rbf
    >>> X = np.linspace(0.0, 6.0, 30)[:, None]
    >>> gp = ConvNetGPRegressor(rbf(), noise_variance=1e-4).fit(X, np.sin(X[:, 0]))
    >>> mean, std = gp.predict([[3.1]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(3.1)) < 0.01)
    True
    """

    def __init__(
        self,
        kernel: object = None,
        *,
        image_shape: object = "auto",
        noise_variance: object = 1e-2,
        amplitude: object = "profile",
        normalize_y: bool = True,
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
        self.normalize_y = normalize_y
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
        self : ConvNetGPRegressor
            The fitted estimator.
        """
        rows, y = self._validate_fit(X, y, multi_output=True, y_numeric=True)
        weights = check_weights(sample_weight, rows)
        rows, weights = self._drop_unweighted(rows, weights)
        targets = np.asarray(y, dtype=np.float64)[self._kept]
        self._is_single = targets.ndim == 1
        targets = targets.reshape(len(targets), -1)
        n_outputs = targets.shape[1]
        self.y_mean_, self.y_scale_ = np.zeros(n_outputs), np.ones(n_outputs)
        if self.normalize_y:
            self.y_mean_ = np.average(targets, axis=0, weights=weights)
            spread = np.average((targets - self.y_mean_) ** 2, axis=0, weights=weights)
            self.y_scale_ = np.where(spread > 0.0, np.sqrt(spread), 1.0)
        scaled = (targets - self.y_mean_) / self.y_scale_
        self._fit_latent(rows, scaled, weights, self.y_scale_)
        return self

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

    def loo_predict(
        self, return_std: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Return what each training target is predicted to be from all the others.

        In closed form, without fitting again. Samples of weight 0 are left out.

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

    def _shaped(self, values: FloatArray) -> FloatArray:
        """Drop the dimension of the outputs if y had none; it is the last."""
        return values[..., 0] if self._is_single else values
