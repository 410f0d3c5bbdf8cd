"""NystromCompletedGPRegressor."""

from typing import Any, Self

from numpy.typing import ArrayLike

from skconvgp.estimators._fitting import FitData, PlannedFit
from skconvgp.estimators._nystrom import plan_landmark_fit
from skconvgp.estimators._public_fit import public_fit
from skconvgp.estimators._regressor import GPRegressor
from skconvgp.estimators.settings._types import (
    Amplitude,
    BackendName,
    Budget,
    CacheFolder,
    Count,
    Dtype,
    KernelOrMatrix,
    Mean,
    NystromVariance,
    SampleNoise,
    ShapeOfImages,
    SolveDtype,
)


class NystromCompletedGPRegressor(GPRegressor):
    """Gaussian process regressor that evaluates covariances with landmarks only.

    The columns of m landmarks in the Gram matrix give m features for each sample, and
    the products of these features approximate the Gram matrix (the Nyström
    approximation). The posterior follows from a linear model of the features, so that
    training and test samples use the same factor.

    Parameters
    ----------
    kernel : None, Kernel or "precomputed", default=None
        Covariance function, from :mod:`skconvgp.kernels`. None is
        :class:`~skconvgp.kernels.convnet`, a kernel for images; for tables use
        :class:`~skconvgp.kernels.rbf`. Pass a kernel object to search its settings,
        such as ``kernel__depth``. With "precomputed", X is the Gram matrix in `fit`,
        and in `predict` the covariances of new samples with the training samples.
    n_landmarks : int, default=1000
        Number of training samples whose columns of the Gram matrix are evaluated. They
        have different inputs; all that differ are taken if there are fewer.
    landmarks : str, default="uniform"
        How the landmarks are chosen: "uniform", "stratified", "kmeans",
        "greedy_pivoted", "random_pivoted" or "leverage", as in
        :class:`~skconvgp.completion.Nystrom`.
    variance : "dtc", "sor" or "fitc", default="dtc"
        How the prior variance that the landmarks do not explain is treated. "sor"
        (subset of regressors) ignores it, so that standard deviations are too small far
        from the landmarks. "dtc" (deterministic training conditional) adds it to the
        variances of predictions, with the means and the evidence of "sor". "fitc"
        (fully independent training conditional) also counts it as noise of the training
        samples.
    image_shape : "auto", None, (h, w) or (c, h, w), default="auto"
        How a flat row becomes an image, in the order c, h, w. "auto" keeps the shape of
        images, and reads rows of s * s or 3 * s * s values with s >= 8 as square images
        (with a warning). It reads all other rows as 1x1 images with one channel per
        feature, as None reads every row. Kernels for vectors ignore `image_shape`.
    noise_variance : float, array, "auto", "loo" or "evidence", default="auto"
        Variance of the observation noise, as a share of the mean prior variance. "loo"
        and "evidence" choose it on a grid, from one eigendecomposition, by the
        leave-one-out log predictive density or by the evidence. "auto" is "loo" for 10
        different inputs or more. It is 1e-2 for fewer inputs, and with variance="fitc",
        which needs a factorisation for each value. An array has a variance for each
        sample of `fit`, in squared units of y, such as squares of known errors, but not
        with variance="fitc": see :ref:`sample-noise`.
    amplitude : "profile", float or None, default="profile"
        Mean prior variance of the latent functions, in squared units of the targets
        that are fitted. With `normalize_y` these are scaled, and `amplitude_` is a
        number that is given, times ``y_scale_**2``. "profile" maximises the evidence in
        closed form, and multiplies deviations by a factor that left-out targets ask
        for; None keeps the variance of the kernel.
    normalize_y : bool, default=True
        Whether each output is shifted and scaled to weighted mean 0 and standard
        deviation 1 for the fit. Predictions are in the units of y either way.
    mean : None or regressor, default=None
        Prior mean of the latent functions. None is a constant: that of the targets with
        `normalize_y`, otherwise 0. A regressor of scikit-learn is fitted to all samples
        and the process learns what it leaves. Fits without each of five folds say how
        much wider deviations must be. See :ref:`prior-mean`.
    device : str, default="auto"
        "cpu", "cuda", "cuda:1" and the like. "auto" uses a GPU if there is one with
        enough free memory, otherwise the CPU.
    backend : "auto", "torch" or "fused", default="auto"
        Code that computes the covariance maps. "fused" is compiled, keeps all layers of
        a pair of images in cache, and runs most networks; "torch" runs every kernel.
        "auto" is "fused" if it can run the kernel. A fitted model that is loaded where
        "fused" is missing predicts with torch, and warns if "fused" was asked for.
    dtype : "auto", "float32" or "float64", default="auto"
        Precision of the covariance maps. "auto" is float64 if torch computes them on
        the CPU, or if a few samples show that float32 is not precise enough; otherwise
        it is float32. `predict` uses the precision of `fit`, on any machine.
    solve_dtype : "float64" or "float32", default="float64"
        Precision of the columns and of the linear algebra.
    memory_budget : None, int or str, default=None
        Memory that may be used in addition to X and the columns of the landmarks, in
        bytes or as in "2 GiB". None is half of the free memory.
    n_jobs : int, default=None
        None and 1 compute in this process, on as many threads as torch uses, also with
        the fused backend. More jobs run through joblib, at most one per core if they
        are threads, and share the cores; a job of the fused backend uses one thread. If
        device is "auto" or "cuda" and a GPU is used, the number of GPUs.
    cache_dir : None, str or path, default=None
        Folder in which finished tiles of the training covariances are kept. A `fit`
        that was interrupted continues where it stopped if it is called again with the
        same data and kernel. See :ref:`cache`.
    random_state : int, RandomState instance or None, default=None
        Seed that decides which landmarks are chosen. Also the seed of `sample_y` if
        that is given none.
    verbose : int, default=0
        1 shows progress on stderr.

    Attributes
    ----------
    y_mean_, y_scale_ : ndarray of shape (n_outputs,)
        Numbers that were subtracted from the targets, and numbers that the difference
        was divided by.
    mean_ : regressor
        `mean`, fitted to all samples; only if it is a regressor.
    kernel_ : Kernel or "precomputed"
        The kernel used.
    image_shape_ : tuple of int or None
        Shape (c, h, w) of the image that a row was read as.
    noise_variance_ : float
        The relative noise variance used; at least 1e-10, 1e-6 in single precision. Of
        an array the mean.
    amplitude_ : float or ndarray of shape (n_outputs,)
        Mean prior variance of the latent functions.
    landmark_indices_ : ndarray of shape (m,)
        Indices of the landmarks in the training data.
    dual_coef_ : ndarray of shape (m, n_outputs)
        Latent means are ``K(X_*, X_train_) @ dual_coef_ + y_mean_``, and `mean` is
        added.
    X_train_ : ndarray of shape (m, n_features)
        The landmarks. None if precomputed.
    solver_state_ : object
        Posterior of the coefficients of the features, m squared numbers.
    fit_report_ : FitReport
        Record of the work that the fit did, and of its time.
    backend_, device_, dtype_ : str
        Backend, device and precision of the training covariances; a given matrix has
        the backend "precomputed".
    n_features_in_ : int
        Number of values in a sample.
    feature_names_in_ : ndarray of shape (d,)
        Names of the features, if X has names that are all strings.

    Raises
    ------
    ValueError
        In `fit`, for data or settings that cannot be used; the message says what to do.
    TileMemoryError
        In `fit`, before any work, if the columns or a single tile do not fit into the
        memory.

    See Also
    --------
    ConvNetGPRegressor : Exact, or with other completions.
    NystromCompletedGP : The same for labels.

    Notes
    -----
    Memory is O(n m), time O(n m^2) and n m evaluations of the kernel, for n samples and
    m landmarks; no n x n array is made. A fitted model holds the landmarks and m^2
    numbers, and the leave-one-out predictions of its samples.

    `partial_fit` adds samples to the sums from which the posterior is computed. The
    landmarks, the noise and the units are kept from the first call; a single `fit` with
    these predicts the same. Leave-one-out predictions are up to date for the samples of
    the last call, and for at most 500 samples drawn from all. Those of other samples
    are not updated after the call that added them.

    References
    ----------
    Quiñonero-Candela and Rasmussen, "A unifying view of sparse approximate Gaussian
    process regression", 2005. Snelson and Ghahramani, "Sparse Gaussian processes using
    pseudo-inputs", 2006 (FITC). Meinel, 2020 (Nyström completion of network kernels).

    Examples
    --------
    >>> import numpy as np
    >>> from skconvgp import NystromCompletedGPRegressor
    >>> from skconvgp.kernels import rbf
    >>> X = np.linspace(0, 10, 2000)[:, None]
    >>> gp = NystromCompletedGPRegressor(rbf(1.0), n_landmarks=50, random_state=0)
    >>> mean, std = gp.fit(X, np.sin(X[:, 0])).predict([[3.1]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(3.1)) < 0.01)
    True
    """

    _keeps_rows = False
    _has_linear_mean = False

    def __init__(
        self,
        kernel: KernelOrMatrix = None,
        *,
        n_landmarks: Count = 1000,
        landmarks: object = "uniform",
        variance: NystromVariance = "dtc",
        image_shape: ShapeOfImages = "auto",
        noise_variance: SampleNoise = "auto",
        amplitude: Amplitude = "profile",
        normalize_y: bool = True,
        mean: Mean = None,
        device: str = "auto",
        backend: BackendName = "auto",
        dtype: Dtype = "auto",
        solve_dtype: SolveDtype = "float64",
        memory_budget: Budget = None,
        n_jobs: int | None = None,
        cache_dir: CacheFolder = None,
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
        self.normalize_y = normalize_y
        self.mean = mean
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
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fit the latent function of each output.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Training images or vectors; the Gram matrix (n, n) if precomputed.
        y : array-like of shape (n,) or (n, n_outputs)
            Targets.
        sample_weight : array-like of shape (n,), default=None
            A weight of 2 is the same as two equal samples, 0 the same as none.
        groups : array-like of shape (n,), default=None
            Samples with the same value are left out together, such as versions of an
            image or images of a patient: in the choice of the noise, in left-out
            predictions and in calibration. See :ref:`groups`.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        planned = self._planned
        data = self._read_targets(X, y, sample_weight, groups=groups, planned=planned)
        return self._fit_as(planned(data))

    def _planned(
        self,
        data: FitData,
        *,
        is_first: bool = False,  # noqa: ARG002  (others can follow any fit)
        is_outline: bool = False,  # noqa: ARG002  (nothing is done before)
    ) -> PlannedFit:
        """Plan a fit, to which samples may be added, or the outline of a plan."""
        return plan_landmark_fit(data)

    @public_fit
    def partial_fit(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Add further samples; the first call is a `fit`.

        Each sample should come once: a copy in a later call is another sample, which
        makes left-out predictions and calibration too confident. A warning is given if
        most of a batch came before.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Images or vectors. If precomputed, the Gram matrix in the first call, then
            K(X, X_first); leave-one-out standard deviations of later samples are then
            NaN.
        y : array-like of shape (n,) or (n, n_outputs)
            Targets.
        sample_weight : array-like of shape (n,), default=None
            A weight of 2 is the same as two equal samples, 0 the same as none. A
            later batch of which no sample counts changes nothing.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        if not hasattr(self, "_process"):
            return self.fit(X, y, sample_weight)
        return self._add(X, y, sample_weight)
