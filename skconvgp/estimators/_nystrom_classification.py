"""NystromCompletedGP."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import unique_labels

from skconvgp.estimators._classifier import GPClassifier
from skconvgp.estimators._judged import as_labels
from skconvgp.estimators._nystrom import extend, fit_landmarks, read_more
from skconvgp.estimators._public_fit import public_fit

__all__ = ["NystromCompletedGP"]


class NystromCompletedGP(GPClassifier):
    """Gaussian process classifier from the covariances with landmarks only.

    The Gram matrix is the product of features that its columns of m landmarks give,
    the Nyström approximation; the posterior is that of a linear model of these
    features, so that training and test samples go through one factor.
    Labels become targets and probabilities as in
    :class:`~skconvgp.ConvNetGPClassifier`.

    Parameters
    ----------
    kernel : None, Kernel or "precomputed", default=None
        Covariance function, from :mod:`skconvgp.kernels`. None is
        :class:`~skconvgp.kernels.convnet`, for images, which then has no settings to
        search: pass an object for ``kernel__depth`` and the like. For tables take
        :class:`~skconvgp.kernels.rbf`. With "precomputed", X is the
        Gram matrix in `fit` and the covariances with the training data in `predict`.
    n_landmarks : int, default=1000
        Training samples whose columns of the Gram matrix are evaluated; all, if there
        are fewer.
    landmarks : str, default="uniform"
        How they are chosen: "uniform", "stratified", "kmeans", "greedy_pivoted",
        "random_pivoted" or "leverage", as in :class:`~skconvgp.completion.Nystrom`.
    variance : "dtc", "sor" or "fitc", default="dtc"
        What becomes of the prior variance that the landmarks do not explain. "sor"
        (subset of regressors) drops it: deviations are too small far from landmarks.
        "dtc" (deterministic training conditional) adds it to predictions; means and
        evidence are the same. "fitc" (fully independent training conditional) counts
        it as noise of the training samples too.
    image_shape : "auto", None, (h, w) or (c, h, w), default="auto"
        How a flat row becomes an image, in the order c, h, w. "auto" takes images as
        they come, reads rows of s * s or 3 * s * s values with s >= 8 as square images
        (with a warning), and all others as 1x1 images with a channel for each
        feature. None always does the last. Kernels that know no images ignore it.
    noise_variance : float, "auto", "loo" or "evidence", default="auto"
        Variance of the observation noise, as a share of the mean prior variance. The
        words choose it on a grid, from one eigendecomposition: by leave-one-out log
        predictive density or by evidence. "auto" is "loo" for 10 different inputs or
        more, and 1e-4 for fewer and with variance="fitc", which takes a factorisation
        for each value.
    amplitude : "profile", float or None, default="profile"
        Mean prior variance of the latent functions, in squared units of the targets.
        "profile" maximises the evidence in closed form; None takes the kernel as it
        is.
    likelihood : "gaussian" or likelihood object, default="gaussian"
        How labels become targets and latents become probabilities; one whose targets
        share their noise, see :mod:`skconvgp.likelihoods`.
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
        on the CPU, or where a few samples show that float32 is not enough, else
        float32. `predict` keeps to that of `fit`, on any machine.
    solve_dtype : "float64" or "float32", default="float64"
        Precision of the columns and of what is solved.
    memory_budget : None, int or str, default=None
        Bytes (or "2 GiB") that may be held beside X and the columns of the landmarks;
        None is half of what is free.
    n_jobs : int, default=None
        None and 1 compute on as many threads of this process as torch uses, with the
        fused backend too. More jobs go through joblib, as threads one a core at most,
        and share the cores; a job of the fused backend is one thread. On a GPU,
        with "auto" or "cuda" without a number, as many GPUs.
    cache_dir : None, str or path, default=None
        Folder where finished tiles of the training covariances are kept: a `fit` that
        was interrupted goes on where it stopped if it is called again with the same
        data and kernel. See :ref:`cache`.
    random_state : int, RandomState instance or None, default=None
        Chooses the landmarks; seed of `sample_y` where it is given none.
    verbose : int, default=0
        1 shows progress on stderr.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    calibration_ : Calibration
        What latent functions go through before they become probabilities; its
        `temperature`, `spread`, `offsets`, `bend` and `floor`.
    temperature_ : float
        What latent means are divided by where their variance is zero; 1 for a
        likelihood that has no temperature.
    likelihood_ : object
        The likelihood used.
    latent_offset_ : ndarray of shape (n_classes,)
        Prior means of the latent functions.
    kernel_ : Kernel or "precomputed"
        The kernel used.
    image_shape_ : tuple of int or None
        How a row was read, (c, h, w).
    noise_variance_ : float
        The relative noise variance used; at least 1e-10, 1e-6 in single precision.
    amplitude_ : float
        Mean prior variance of the latent functions.
    landmark_indices_ : ndarray of shape (m,)
        The landmarks, by their number in the training data.
    dual_coef_ : ndarray of shape (m, n_classes)
        Latent means are ``K(X_*, X_train_) @ dual_coef_ + latent_offset_``.
    X_train_ : ndarray of shape (m, n_features)
        The landmarks. None if precomputed.
    solver_state_ : object
        Posterior of the coefficients of features, m squared numbers.
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
    TileMemoryError
        In `fit`, before any work, if the columns or a single tile do not fit.

    See Also
    --------
    ConvNetGPClassifier : Exact, or with other completions.
    NystromCompletedGPRegressor : The same for real-valued targets.

    Notes
    -----
    Memory is O(n m), time O(n m^2) and n m evaluations of the kernel, for n samples and
    m landmarks; no n x n array is made. A fitted model holds the landmarks and m^2
    numbers, and the leave-one-out predictions of its samples.

    `partial_fit` adds samples to the sums that the posterior is made of. Landmarks,
    noise and units stay those of the first call; what is predicted is what one `fit`
    with these gives. Of at most 500 samples, drawn from all, the features are kept: the
    probabilities are calibrated on their leave-one-out predictions, those of other
    samples stay what they were in the call that brought them.

    References
    ----------
    Quiñonero-Candela and Rasmussen, "A unifying view of sparse approximate Gaussian
    process regression", 2005. Snelson and Ghahramani, "Sparse Gaussian processes using
    pseudo-inputs", 2006 (FITC). Meinel, 2020 (Nyström completion of network kernels).

    Examples
    --------
    >>> from skconvgp import NystromCompletedGP
    >>> from skconvgp.datasets import load_digits_images
    >>> from skconvgp.kernels import convnet
    >>> X, y = load_digits_images(return_X_y=True)
    >>> gp = NystromCompletedGP(
    ...     convnet(depth=2, kernel_size=3), n_landmarks=100, random_state=0
    ... )
    >>> gp.fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]) > 0.9
    True
    """

    def __init__(
        self,
        kernel: object = None,
        *,
        n_landmarks: object = 1000,
        landmarks: object = "uniform",
        variance: object = "dtc",
        image_shape: object = "auto",
        noise_variance: object = "auto",
        amplitude: object = "profile",
        likelihood: object = "gaussian",
        device: object = "auto",
        backend: object = "auto",
        dtype: object = "auto",
        solve_dtype: object = "float64",
        memory_budget: object = None,
        n_jobs: int | None = None,
        cache_dir: object = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.n_landmarks = n_landmarks
        self.landmarks = landmarks
        self.variance = variance
        self.image_shape = image_shape
        self.noise_variance = noise_variance
        self.amplitude = amplitude
        self.likelihood = likelihood
        self.device = device
        self.backend = backend
        self.dtype = dtype
        self.solve_dtype = solve_dtype
        self.memory_budget = memory_budget
        self.n_jobs = n_jobs
        self.cache_dir = cache_dir
        self.random_state = random_state
        self.verbose = verbose

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
        return self._fit_first(X, y, sample_weight)

    @public_fit
    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Add samples to those of earlier calls; the first one is a `fit`.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Images or vectors. If precomputed, the Gram matrix in the first call, then
            K(X, X_first); leave-one-out deviations of later samples are then NaN.
        y : array-like of shape (n,)
            Labels.
        classes : array-like of shape (n_classes,), default=None
            All labels that will ever come; needed in the first call.
        sample_weight : array-like of shape (n,), default=None
            A weight of 2 is the same as two equal samples, 0 the same as none.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        if not hasattr(self, "_process"):
            return self._fit_first(X, y, sample_weight, _first_classes(classes))
        _require_same(self.classes_, classes)
        further = read_more(self, X, y, sample_weight, read_y=as_labels)
        extend(self, *self._further_labels(further))
        return self._calibrate()

    def _fit_first(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None,
        classes: NDArray[Any] | None = None,
    ) -> Self:
        problem, samples = self._read_labels(
            X, y, sample_weight, classes, keeps_rows=False
        )
        fit_landmarks(self, problem, samples, self._label_models(problem))
        return self._calibrate()


def _first_classes(classes: ArrayLike | None) -> NDArray[Any]:
    if classes is None:
        raise ValueError(
            "`classes` must be passed on the first call to partial_fit: all "
            "labels that will come."
        )
    labels: NDArray[Any] = unique_labels(classes)
    return labels


def _require_same(known: NDArray[Any], classes: ArrayLike | None) -> None:
    if classes is not None and not np.array_equal(known, unique_labels(classes)):
        raise ValueError(
            f"`classes`={classes!r} is not the same as on the last call to "
            f"partial_fit, {known!r}."
        )
