"""KernelFlowsRegressor."""

import math
from typing import Any, Self

import numpy as np

from skconvgp.estimators._callbacks import FitTasks
from skconvgp.estimators._fitting import FitData, PlannedFit, fit_flows, outline_flows
from skconvgp.estimators._public_fit import public_fit
from skconvgp.estimators._regressor import GPRegressor
from skconvgp.estimators.settings._types import (
    Amplitude,
    AnyKernel,
    AnyNumber,
    BackendName,
    BatchSizes,
    Budget,
    CacheFolder,
    Dtype,
    Mean,
    SampleNoise,
    ShapeOfImages,
    SolveDtype,
    SolverOrWord,
    Strategy,
)
from skconvgp.kernels import rbf


class KernelFlowsRegressor(GPRegressor):
    """Gaussian process regressor whose kernel is learned by Kernel Flows.

    Kernel Flows calls a kernel good if some samples of a batch predict the others well;
    by default each one is predicted from all others. Batch by batch, the
    hyperparameters are moved so that this prediction improves. Then a Gaussian process
    with the learned kernel is fitted to all samples, exactly or with a completion.

    Parameters
    ----------
    kernel : None or Kernel, default=None
        Covariance function, from :mod:`skconvgp.kernels`, from which learning starts.
        All its hyperparameters without ``bounds="fixed"`` are learned. None is
        :class:`~skconvgp.kernels.rbf`; pass a kernel object to search its settings.
    optimizer : None or optimiser of :mod:`skconvgp.flows`, default=None
        Algorithm that learns the hyperparameters. None is
        :class:`~skconvgp.flows.Adam`; pass an object to search its settings.
    objective : None, str or objective of :mod:`skconvgp.flows`, default=None
        Function that is minimised. A string is a kind of :class:`~skconvgp.flows.Rho`.
        None is "loo_nlpd"; left-out samples then decide whether the learned kernel or
        that of the start is used (see Notes). For None and for a string,
        `noise_variance` sets the nugget of the objective: a number > 0 is used as it
        is, and if `noise_variance` is a string the nugget is learned with the kernel.
        With a nugget much smaller than the noise, even a good kernel gets a bad score.
    batch_size : "auto", int or sequence of int, default="auto"
        Number of samples in a batch. "auto" is 600, or all samples if there are fewer.
        If it is a sequence, :class:`~skconvgp.flows.Adam` and
        :class:`~skconvgp.flows.GradientDescent` use each size for an equal share of
        their steps; other optimisers use the last size only.
    n_batches : int, default=4
        Number of batches, of the last size, on which candidate hyperparameters are
        compared. The best ones on these batches are kept.
    image_shape : "auto", None, (h, w) or (c, h, w), default="auto"
        How a flat row becomes an image, in the order c, h, w. "auto" keeps the shape of
        images, and reads rows of s * s or 3 * s * s values with s >= 8 as square images
        (with a warning). It reads all other rows as 1x1 images with one channel per
        feature, as None reads every row. Kernels for vectors ignore `image_shape`.
    noise_variance : float, array, "auto", "loo" or "evidence", default="auto"
        Variance of the observation noise, as a share of the mean prior variance. A
        number is used by the objective and by the final Gaussian process. If it is a
        string, the objective learns a noise of its own with the kernel, and the
        Gaussian process then chooses its noise on a grid, from one eigendecomposition:
        "loo" by the leave-one-out log predictive density, "evidence" by the evidence.
        "auto" is "loo" if that is affordable: for 10 to 5000 different inputs, if the
        eigenvectors fit into the free memory or a completion provides a factor.
        Otherwise "auto" takes the noise that was learned with the kernel, or 1e-2 if
        none was learned. An array has a variance for each sample of `fit`, in squared
        units of y: see :ref:`sample-noise`. The objective then uses its mean, over the
        variance of y.
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
        Seed of the batches, of an optimiser that draws, and of the choice of entries
        that a completion evaluates. `sample_y` uses it unless it is given a seed.
    verbose : int, default=0
        1 shows progress on stderr.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel that was learned, or that of the start if it is kept.
    flow_result_ : FlowResult
        Result of the learning, with each of its steps. Its `left_out` says how well
        left-out samples are predicted with the kernel at the start and at the end.
    image_shape_ : tuple of int or None
        Shape (c, h, w) of the image that a row was read as.
    noise_variance_ : float
        The relative noise variance used.
    amplitude_ : float or ndarray of shape (n_outputs,)
        Mean prior variance of the latent functions,
        in squared units of y.
    dual_coef_ : ndarray of shape (n_samples, n_outputs)
        Latent means are ``K(X_*, X) @ dual_coef_ + y_mean_``, and `mean` is added.
        Absent with
        :class:`~skconvgp.completion.NearestNeighbors`, like `solver_state_`.
    X_train_ : ndarray of shape (n_samples, n_features)
        Training inputs. With a completion, only those samples that new samples are
        compared with, one for each row of `dual_coef_`.
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
        Backend, device and precision of the training covariances.
    n_features_in_ : int
        Number of values in a sample.
    feature_names_in_ : ndarray of shape (d,)
        Names of the features, if X has names that are all strings.

    Raises
    ------
    ValueError
        In `fit`, for data or settings that cannot be used; the message says what to do.
        Examples are a kernel without free hyperparameters, a hyperparameter that starts
        outside its bounds, and a batch larger than the data.
    CompletionError
        In `fit`, if the matrix cannot be completed from the entries allowed.
    NotPSDError
        In `fit`, if the Gram matrix is not positive definite even with jitter.
    TileMemoryError
        In `fit`, before any work, if the Gram matrix or a single tile does not fit into
        the memory.

    See Also
    --------
    KernelFlowsClassifier : The same for labels.
    KernelFlowsWarp : Moves the inputs instead of the hyperparameters.
    ConvNetGPRegressor : Takes the kernel as it is.

    Notes
    -----
    Learning evaluates batches only: its time and memory do not depend on the number of
    samples.

    With ``objective=None`` the estimator is never worse than its start by the samples
    that it is compared on: processes with the kernel of the start and with the learned
    one are fitted to the samples, or to 2000 random ones of them if there are more. The
    kernel with the larger mean log density of left-out targets is used. This takes ten
    different inputs. With another objective the learned kernel is always used.

    Learning takes no sample weights: batches are drawn at random, so that a weight of 2
    would not be the same as two copies of a sample. An objective that is given as an
    object has its own nugget, while the final Gaussian process uses `noise_variance`.
    The two differ for a reason: the noise stands for everything that the kernel does
    not explain, and a kernel explains less from the few samples of a batch than from
    all samples.

    References
    ----------
    Owhadi and Yoo, "Kernel flows: from learning kernels from data into the abyss",
    2019. Bin Khalid, 2022, chapter 3.

    Examples
    --------
    >>> import numpy as np
    >>> from skconvgp import KernelFlowsRegressor
    >>> from skconvgp.kernels import rbf
    >>> X = np.linspace(0.0, 6.0, 60)[:, None]
    >>> gp = KernelFlowsRegressor(rbf(lengthscale=0.02), random_state=0)
    >>> gp.fit(X, np.sin(2.0 * X[:, 0])).kernel_.lengthscale > 0.2
    True
    """

    _default_kernel = rbf
    _search_name = "flow_result_"

    def __init__(
        self,
        kernel: AnyKernel = None,
        *,
        optimizer: object = None,
        objective: object = None,
        batch_size: BatchSizes = "auto",
        n_batches: int = 4,
        image_shape: ShapeOfImages = "auto",
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
        self.objective = objective
        self.batch_size = batch_size
        self.n_batches = n_batches
        self.image_shape = image_shape
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

    # Without weights: if batches are drawn, they are no copies.
    @public_fit
    def fit(self, X: Any, y: Any) -> Self:
        """Learn the kernel, then fit the latent function of each output.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Training images or vectors.
        y : array-like of shape (n,) or (n, n_outputs)
            Targets.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        data = self._read_targets(X, y, None, planned=self._planned)
        parts = data.settings.parts(keeps_left_out=True)
        tasks = FitTasks(self, has_steps=True)
        density = KernelFlowsRegressor._left_out_density
        fit_flows(data, parts, tasks, GPRegressor._fit_as, density)
        return self

    def _left_out_density(self) -> float:
        """Return the mean log density of left-out targets; NaN if there is none."""
        if not self._process.has_left_out:
            return math.nan
        mean, std, _ = self._left_out()
        scaled = self._process.model.sample_targets
        targets = self._training.targets(scaled, self.y_scale_, self.y_mean_)
        squares = ((targets - mean) / std) ** 2
        densities = -0.5 * (squares + np.log(2.0 * np.pi * std**2)).mean(axis=1)
        indices = np.arange(len(densities))
        weights = self._training.weights_as_new(indices, np.ones(len(indices)))
        return float(np.average(densities, weights=weights))

    def _planned(
        self,
        data: FitData,
        *,
        is_first: bool = False,  # noqa: ARG002  (none can be added)
        is_outline: bool = False,  # noqa: ARG002  (a fit plans for each kernel)
    ) -> PlannedFit:
        """Plan a fit, to which samples may be added, or the outline of a plan."""
        return outline_flows(data, data.settings.parts(keeps_left_out=True))
