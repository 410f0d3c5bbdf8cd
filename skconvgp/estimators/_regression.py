"""ConvNetGPRegressor."""

from typing import Any, Self

from numpy.typing import ArrayLike

from skconvgp.estimators._fitting import FitData, PlannedFit, plan_process_fit
from skconvgp.estimators._growing import only_with_features
from skconvgp.estimators._public_fit import public_fit
from skconvgp.estimators._regressor import GPRegressor
from skconvgp.estimators.settings._types import (
    Amplitude,
    AnyNumber,
    Augment,
    BackendName,
    Budget,
    CacheFolder,
    Dtype,
    KernelOrMatrix,
    Mean,
    OptimizerOrWord,
    SampleNoise,
    ShapeOfImages,
    SolveDtype,
    SolverOrWord,
    Strategy,
)


class ConvNetGPRegressor(GPRegressor):
    """Gaussian process regressor with the covariance of an infinite network.

    Parameters
    ----------
    kernel : None, Kernel or "precomputed", default=None
        Covariance function, from :mod:`skconvgp.kernels`. None is
        :class:`~skconvgp.kernels.convnet`, a kernel for images;
        ``convnet(pooling="local", radius=1)`` is more accurate, and takes up to 15
        times as long. For tables use :class:`~skconvgp.kernels.rbf`. Pass a kernel
        object to search its settings, such as ``kernel__depth``. With "precomputed", X
        is the Gram matrix in `fit`, and in `predict` the covariances of new samples
        with the training samples.
    optimizer : None, "evidence", "loo" or optimiser object, default=None
        How the free hyperparameters of the kernel are learned before the fit, on all
        samples. None keeps the kernel as it is. "evidence" maximises the evidence of
        the targets and "loo" their leave-one-out log predictive density, by
        :class:`~skconvgp.flows.LBFGS` with exact derivatives. An object of
        :mod:`skconvgp.flows` maximises the evidence. If the matrices of an evidence
        search do not fit into the free memory, the search follows estimates of the
        evidence; this needs no completion, and the solver "auto" or "cg".
    n_restarts_optimizer : int, default=0
        Number of additional searches. The first search starts from the kernel as it is,
        each additional one from hyperparameters drawn log-uniformly within their
        bounds. The best result is kept.
    image_shape : "auto", None, (h, w) or (c, h, w), default="auto"
        How a flat row becomes an image, in the order c, h, w. "auto" keeps the shape of
        images, and reads rows of s * s or 3 * s * s values with s >= 8 as square images
        (with a warning). It reads all other rows as 1x1 images with one channel per
        feature, as None reads every row. Kernels for vectors ignore `image_shape`.
    augment : None, part of :mod:`skconvgp.augmentation` or list, default=None
        Versions of the training images that `fit` adds as rows, such as
        :class:`~skconvgp.augmentation.Flip`; of a list, all combinations. Each row of
        an image has its label, and an equal share of its weight. An image is left out
        with all of its rows. This needs images, a kernel object, optimizer=None and no
        completion but :class:`~skconvgp.completion.CoarseKernel`.
    noise_variance : float, array, "auto", "loo" or "evidence", default="auto"
        Variance of the observation noise, as a share of the mean prior variance. "loo"
        and "evidence" choose it on a grid, from one eigendecomposition, by the
        leave-one-out log predictive density or by the evidence. "auto" is "loo" if that
        is affordable: for 10 to 5000 different inputs, if the eigenvectors fit into the
        free memory or a completion provides a factor. Otherwise "auto" is 1e-2. With an
        `optimizer`, a number stays fixed. If `noise_variance` is a string, the noise is
        learned together with the kernel, within the bounds of the grid, because the
        best kernel for one noise is not the best for another; "auto" then follows the
        criterion of the search. After the search, the grid chooses the noise again only
        if the two criteria differ, or with a completion, whose matrix differs from that
        of the search. An array has a variance for each sample of `fit`, in squared
        units of y, such as squares of known errors: see :ref:`sample-noise`.
    amplitude : "profile", float or None, default="profile"
        Mean prior variance of the latent functions, in squared units of the targets
        that are fitted. With `normalize_y` these are scaled, and `amplitude_` is a
        number that is given, times ``y_scale_**2``. "profile" maximises the evidence in
        closed form, and multiplies deviations by a factor that left-out targets ask
        for; None keeps the variance of the kernel.
    normalize_y : bool, default=True
        Whether each output is shifted and scaled to weighted mean 0 and standard
        deviation 1 for the fit. Predictions are in the units of y either way.
    mean : None, "linear" or regressor, default=None
        Prior mean of the latent functions. None is a constant: that of the targets with
        `normalize_y`, otherwise 0. A regressor of scikit-learn is fitted to all samples
        and the process learns what it leaves. Fits without each of five folds say how
        much wider deviations must be. "linear" is a linear function of the features,
        whose coefficients have a flat prior and are integrated out. See
        :ref:`prior-mean`.
    completion : None or strategy of :mod:`skconvgp.completion`, default=None
        How the Gram matrix of the training samples is completed or replaced if only
        some of its entries are evaluated. None evaluates all entries.
    observed_fraction : float, default=0.2
        Share of the n (n + 1) / 2 distinct entries of the Gram matrix that a completion
        may evaluate. A diagonal that is evaluated in addition does not count.
    solver : "auto", "cholesky", "cg", "lsqr" or solver object, default="auto"
        Solver of the linear system, see :mod:`skconvgp.solvers`. "auto" is "cholesky"
        if the Gram matrix and its factor fit into the free memory,
        :class:`~skconvgp.solvers.RefinedCholesky` if one matrix in single precision
        does, otherwise the iterative "cg". If the matrix does not fit into
        `memory_budget`, "cg" evaluates the covariances again for each product. "lsqr"
        is for reproducing published results only.
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
        Precision of the Gram matrix and its factor.
    memory_budget : None, int or str, default=None
        Memory that may be used in addition to X, the Gram matrix and its factor, in
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
        Seed that decides which entries a completion evaluates and where additional
        searches start, and the order of samples in a search, on which rounding
        depends. `sample_y` uses it unless it is given a seed.
    verbose : int, default=0
        1 shows progress on stderr.

    Attributes
    ----------
    kernel_ : Kernel or "precomputed"
        The kernel used; with an `optimizer`, the learned kernel.
    optimizer_result_ : FlowResult
        Result of the search for hyperparameters. Only with an `optimizer`.
    image_shape_ : tuple of int or None
        Shape (c, h, w) of the image that a row was read as.
    noise_variance_ : float
        The relative noise variance used; of an array the mean.
    amplitude_ : float or ndarray of shape (n_outputs,)
        Mean prior variance of the latent functions,
        in squared units of y.
    dual_coef_ : ndarray of shape (n_samples, n_outputs)
        Latent means are ``K(X_*, X) @ dual_coef_ + y_mean_``, and `mean` is added.
        Absent with
        :class:`~skconvgp.completion.NearestNeighbors`, like `solver_state_`. With
        :class:`~skconvgp.completion.RandomFeatures`, coefficients of the features.
    X_train_ : ndarray of shape (n_samples, n_features)
        Training inputs without samples of weight 0; with `augment`, all versions of
        them follow. With a completion, only those samples that new samples are compared
        with, one for each row of `dual_coef_`. With a precomputed kernel None, or the
        Gram matrix if predictions read parts of it. None with random features.
    y_mean_, y_scale_ : ndarray of shape (n_outputs,)
        Numbers that were subtracted from the targets, and numbers that the difference
        was divided by.
    mean_ : regressor
        `mean`, fitted to all samples; only if it is a regressor.
    landmark_indices_ : ndarray of shape (m,)
        Indices of the training samples that new samples are compared with. Only with a
        completion that selects such samples.
    pool_ : float
        Side of the squares of pixels that are averaged before the kernel is evaluated;
        1 unless the kernel is evaluated on coarse images.
    solver_, solver_state_ : object
        The solver and its state: the factor of the training matrix, n_samples squared
        numbers. With "cg" the state is the matrix, if it was held, and a few columns.
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
    CompletionError
        In `fit`, if the matrix cannot be completed from the entries allowed.
    NotPSDError
        In `fit`, if the Gram matrix is not positive definite even with jitter.
    TileMemoryError
        In `fit`, before any work, if the Gram matrix or a single tile does not fit into
        the memory. With an `optimizer`, if eight matrices of that size do not fit.

    See Also
    --------
    ConvNetGPClassifier : The same for labels.
    KernelFlowsRegressor : Learns the kernel from batches.
    sklearn.gaussian_process.GaussianProcessRegressor : Learns kernels for vectors.

    Notes
    -----
    Several outputs share kernel, noise and factorisation. Time is dominated by the n (n
    + 1) / 2 evaluations of the kernel, memory by the Gram matrix and its factor: 16 n^2
    bytes, or 40 n^2 while the noise is chosen. The fitted model keeps the factor, 8 n^2
    bytes.

    Each step of an `optimizer` needs the Gram matrix of all samples and its
    derivatives, even with a completion, unless the search follows estimates;
    :class:`KernelFlowsRegressor` learns from batches instead. The search profiles the
    amplitude out, and takes no sample weights other than 0 and 1.

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
    >>> gp = ConvNetGPRegressor(rbf(1.0), noise_variance=1e-4).fit(X, np.sin(X[:, 0]))
    >>> mean, std = gp.predict([[3.1]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(3.1)) < 0.01)
    True
    """

    def __init__(
        self,
        kernel: KernelOrMatrix = None,
        *,
        optimizer: OptimizerOrWord = None,
        n_restarts_optimizer: int = 0,
        image_shape: ShapeOfImages = "auto",
        augment: Augment = None,
        noise_variance: SampleNoise = "auto",
        amplitude: Amplitude = "profile",
        normalize_y: bool = True,
        mean: Mean = None,
        completion: Strategy = None,
        observed_fraction: AnyNumber = 0.2,
        solver: SolverOrWord = "auto",
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
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.image_shape = image_shape
        self.augment = augment
        self.noise_variance = noise_variance
        self.amplitude = amplitude
        self.normalize_y = normalize_y
        self.mean = mean
        self.completion = completion
        self.observed_fraction = observed_fraction
        self.solver = solver
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
        is_outline: bool = False,
    ) -> PlannedFit:
        """Plan a fit, to which samples may be added, or the outline of a plan."""
        parts = data.settings.parts(keeps_left_out=True)
        return plan_process_fit(data, parts, is_outline=is_outline)

    @only_with_features
    @public_fit
    def partial_fit(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Add further samples; the first call is a `fit`.

        Only with a completion that computes features, such as
        :class:`~skconvgp.completion.RandomFeatures`. Features, noise and units of the
        targets are kept from the first call.

        Each sample should come once: a copy in a later call is another sample, which
        makes left-out predictions and calibration too confident. A warning is given if
        most of a batch came before.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Images or vectors.
        y : array-like of shape (n,) or (n, n_outputs)
            Targets.
        sample_weight : array-like of shape (n,), default=None
            A weight of 2 is the same as two equal samples, 0 the same as none. A
            later batch of which no sample counts changes nothing; of the first call
            some must count.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        if not hasattr(self, "_process"):
            return self.fit(X, y, sample_weight)
        return self._add(X, y, sample_weight)
