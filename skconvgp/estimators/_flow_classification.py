"""KernelFlowsClassifier."""

import math
from typing import Any, Self

import numpy as np

from skconvgp.estimators._callbacks import FitTasks
from skconvgp.estimators._classifier import GPClassifier
from skconvgp.estimators._fitting import FitData, PlannedFit, fit_flows, outline_flows
from skconvgp.estimators._public_fit import public_fit
from skconvgp.estimators.settings._types import (
    Amplitude,
    AnyKernel,
    AnyNumber,
    BackendName,
    BatchSizes,
    Budget,
    CacheFolder,
    Dtype,
    LabelLikelihood,
    NoiseVariance,
    ShapeOfImages,
    SolveDtype,
    SolverOrWord,
    Strategy,
)
from skconvgp.kernels import rbf
from skconvgp.processes import Parts


class KernelFlowsClassifier(GPClassifier):
    """Gaussian process classifier whose kernel is learned by Kernel Flows.

    Kernel Flows calls a kernel good if some samples of a batch predict the others well;
    by default each one is predicted from all others. Batch by batch, the
    hyperparameters are moved so that this prediction improves. Each batch, and each
    half of it, contains the classes in the proportions of the data, as far as its size
    allows. Then a Gaussian process with the learned kernel is fitted to all samples,
    exactly or with a completion.

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
    noise_variance : float, "auto", "loo" or "evidence", default="auto"
        Variance of the observation noise, as a share of the mean prior variance. A
        number is used by the objective and by the final Gaussian process. If it is a
        string, the objective learns a noise of its own with the kernel, and the
        Gaussian process then chooses its noise on a grid, from one eigendecomposition:
        "loo" by the leave-one-out log predictive density, "evidence" by the evidence.
        "auto" is "loo" if that is affordable: for 10 to 5000 different inputs, if the
        eigenvectors fit into the free memory or a completion provides a factor.
        Otherwise "auto" takes the noise that was learned with the kernel. It is 1e-4 if
        none was learned, and with likelihoods that derive their noise from the labels.
    amplitude : "profile", float or None, default="profile"
        Mean prior variance of the latent functions, in squared units of the targets.
        "profile" maximises the evidence in closed form; None keeps the variance of the
        kernel.
    likelihood : str or likelihood object, default="gaussian"
        How labels become targets, and latent functions become probabilities:
        "gaussian", "dirichlet", "beta" (two classes), "laplace", or an object of
        :mod:`skconvgp.likelihoods`. All likelihoods but "gaussian" derive their noise
        from the labels. `noise_variance` must then be a number or "auto", and is added
        to that noise; amplitude="profile" maximises the evidence of at most 1000
        samples; and the solver must be Cholesky's.
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
    classes_ : ndarray of shape (n_classes,)
        The labels.
    calibration_ : Calibration
        Transformation of latent means and variances before they become probabilities,
        with the fields `temperature`, `spread`, `offsets`, `bend` and `floor`.
    temperature_ : float
        Number by which latent means of zero variance are divided; 1 if the likelihood
        has no temperature.
    likelihood_ : object
        The likelihood used.
    kernel_ : Kernel
        The kernel that was learned, or that of the start if it is kept.
    flow_result_ : FlowResult
        Result of the learning, with each of its steps. Its `left_out` says how well
        left-out samples are predicted with the kernel at the start and at the end.
    image_shape_ : tuple of int or None
        Shape (c, h, w) of the image that a row was read as.
    noise_variance_ : float
        The relative noise variance used.
    amplitude_ : float
        Mean prior variance of the latent functions.
    dual_coef_ : ndarray of shape (n_samples, n_classes)
        Latent means are ``K(X_*, X) @ dual_coef_ + latent_offset_``. Absent with
        :class:`~skconvgp.completion.NearestNeighbors`, like `solver_state_`.
    X_train_ : ndarray of shape (n_samples, n_features)
        Training inputs. With a completion, only those samples that new samples are
        compared with, one for each row of `dual_coef_`.
    latent_offset_ : ndarray of shape (n_classes,)
        Prior means of the latent functions.
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
    KernelFlowsRegressor : The same for real-valued targets.
    KernelFlowsWarp : Moves the inputs instead of the hyperparameters.
    ConvNetGPClassifier : Takes the kernel as it is.

    Notes
    -----
    Learning evaluates batches only: its time and memory do not depend on the number of
    samples.

    With ``objective=None`` the estimator is never worse than its start by the samples
    that it is compared on: processes with the kernel of the start and with the learned
    one are fitted to the samples, or to 2000 random ones of them if there are more. The
    kernel with the larger mean log probability of left-out labels is used. This takes
    ten different inputs. With another objective the learned kernel is always used.

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
    >>> from skconvgp import KernelFlowsClassifier
    >>> from skconvgp.datasets import load_digits_images
    >>> from skconvgp.flows import Adam
    >>> from skconvgp.kernels import convnet
    >>> X, y = load_digits_images(return_X_y=True)
    >>> network = convnet(depth=2, kernel_size=3)
    >>> gp = KernelFlowsClassifier(network, optimizer=Adam(max_iter=20), random_state=0)
    >>> result = gp.fit(X[:200], y[:200]).flow_result_
    >>> result.rho <= result.start_rho, result.labels
    (True, ('weight_variance', 'bias_variance', 'noise_variance'))
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
        noise_variance: NoiseVariance = "auto",
        amplitude: Amplitude = "profile",
        likelihood: LabelLikelihood = "gaussian",
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
        self.likelihood = likelihood
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
        """Learn the kernel, then fit the latent functions, and calibrate.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Training images or vectors.
        y : array-like of shape (n,)
            Labels.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        data = self._read_labels(X, y, None)
        parts = self._parts(data)
        tasks = FitTasks(self, has_steps=True)
        density = KernelFlowsClassifier._left_out_density
        fit_flows(data, parts, tasks, GPClassifier._fit_as, density)
        return self

    def _parts(self, data: FitData) -> Parts:
        """Return the parts of the process."""
        return data.settings.parts(self._label_models, keeps_left_out=self._calibrates)

    def _left_out_density(self) -> float:
        """Return the mean log probability of left-out labels; NaN if there is none."""
        if not self._process.has_left_out:
            return math.nan
        indices, mean, var = self._left_out()
        every = self._training.codes
        assert every is not None
        codes = every[indices]
        shares = self._probabilities(mean, var)[np.arange(len(codes)), codes]
        weights = self._training.weights_as_new(indices, np.ones(len(indices)))
        return float(np.average(np.log(shares), weights=weights))

    def _planned(
        self,
        data: FitData,
        *,
        is_first: bool = False,  # noqa: ARG002  (none can be added)
        is_outline: bool = False,  # noqa: ARG002  (a fit plans for each kernel)
    ) -> PlannedFit:
        """Plan a fit, to which samples may be added, or the outline of a plan."""
        return outline_flows(data, self._parts(data))
