"""KernelFlowsRegressor."""

from typing import Any, Self

from skconvgp.estimators._callbacks import BaseCallbacks, with_callbacks
from skconvgp.estimators._fitting import fit_flows
from skconvgp.estimators._public_fit import public_fit
from skconvgp.estimators._regressor import GPRegressor
from skconvgp.estimators._settings import parts_of
from skconvgp.kernels import rbf

__all__ = ["KernelFlowsRegressor"]


class KernelFlowsRegressor(BaseCallbacks, GPRegressor):
    """Gaussian process regressor whose kernel learns itself by Kernel Flows.

    A kernel is good if half of a batch predicts the other half: its hyperparameters
    are moved, batch after batch, to where a half predicts the batch best.
    Then a Gaussian process with that kernel is fitted to all samples, exactly or with
    a completion.

    Parameters
    ----------
    kernel : None or Kernel, default=None
        Covariance function, from :mod:`skconvgp.kernels`, where learning begins; all
        its hyperparameters without ``bounds="fixed"`` are learned. None is
        :class:`~skconvgp.kernels.rbf`, which then has no settings to search.
    optimizer : None or optimiser of :mod:`skconvgp.flows`, default=None
        Looks for the hyperparameters; None is :class:`~skconvgp.flows.Adam`, which
        then has no settings to search.
    objective : None, str or objective of :mod:`skconvgp.flows`, default=None
        What is minimised; None is :class:`~skconvgp.flows.Rho`, a word is its `kind`.
        Both take `noise_variance`, if it is a number > 0, as their nugget, and learn
        it where it is a word: with one much smaller than the noise, a kernel that fits
        looks bad.
    batch_size : "auto", int or sequence of int, default="auto"
        Samples in a batch; "auto" is 600, or all if there are fewer. Of a sequence,
        each size is used for an equal part of the steps of
        :class:`~skconvgp.flows.Adam` and :class:`~skconvgp.flows.GradientDescent`;
        other optimisers see batches of the last size alone.
    n_batches : int, default=4
        Batches, of the last size, on which places are compared: the best there is
        what is learned.
    image_shape : "auto", None, (h, w) or (c, h, w), default="auto"
        How a flat row becomes an image, in the order c, h, w. "auto" takes images as
        they come, reads rows of s * s or 3 * s * s values with s >= 8 as square images
        (with a warning), and all others as 1x1 images with a channel for each
        feature. None always does the last. Kernels that know no images ignore it.
    noise_variance : float, "auto", "loo" or "evidence", default="auto"
        Variance of the observation noise, as a share of the mean prior variance. A
        number is that of the process and of the objective. With a word the objective
        learns one with the kernel, and the process chooses its own on a grid, from one
        eigendecomposition: by leave-one-out log predictive density or by evidence.
        "auto" is "loo" where that is affordable: for 10 to 5000 different inputs, with
        eigenvectors that fit into the free memory, or with a completion's factor; else
        it is what was learned with the kernel, or 1e-2 if nothing was.
    amplitude : "profile", float or None, default="profile"
        Mean prior variance of the latent functions, in squared units of the targets.
        "profile" maximises the evidence in closed form; None takes the kernel as it
        is.
    normalize_y : bool, default=True
        Whether each target is shifted and scaled to weighted mean 0 and deviation 1
        for the fit; results are in the units of y either way.
    completion : None or strategy of :mod:`skconvgp.completion`, default=None
        How the Gram matrix of the training samples is filled in, or what stands in
        its place, when not all of it is evaluated. None evaluates all of it.
    observed_fraction : float, default=0.2
        Share of the n (n + 1) / 2 distinct entries of the Gram matrix that a
        completion may evaluate; the diagonal beside them is free.
    solver : "auto", "cholesky", "cg", "lsqr" or solver object, default="auto"
        Solves the linear system; see :mod:`skconvgp.solvers`. "auto" is "cholesky"
        while the Gram matrix and its factor fit into the free memory, else "cg", which
        iterates; where the matrix does not fit into `memory_budget`, "cg" computes
        covariances anew for each product. "lsqr" is for reproduction only.
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
        Precision of the Gram matrix and its factor.
    memory_budget : None, int or str, default=None
        Bytes (or "2 GiB") that may be held beside X, the Gram matrix and its factor;
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
        Draws batches and what an optimiser draws; chooses what a completion evaluates;
        seed of `sample_y` where it is given none.
    verbose : int, default=0
        1 shows progress on stderr.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel that was learned.
    flow_result_ : FlowResult
        What learning found, with each of its steps.
    image_shape_ : tuple of int or None
        How a row was read, (c, h, w).
    noise_variance_ : float
        The relative noise variance used.
    amplitude_ : float or ndarray of shape (n_outputs,)
        Mean prior variance of the latent functions,
        in squared units of y.
    dual_coef_ : ndarray of shape (n_samples, n_outputs)
        Latent means are ``K(X_*, X) @ dual_coef_ + y_mean_``. Absent with
        :class:`~skconvgp.completion.NearestNeighbors`, like `solver_state_`.
    X_train_ : ndarray of shape (n_samples, n_features)
        Training inputs; with a completion the samples that new ones are compared with,
        the rows of `dual_coef_` too.
    y_mean_, y_scale_ : ndarray of shape (n_outputs,)
        What targets were shifted and divided by.
    landmark_indices_ : ndarray of shape (m,)
        Training samples that new ones are compared with, by number; with a completion
        that takes some of them.
    pool_ : int
        Side of the squares of pixels that are averaged before the kernel sees an
        image; 1 but for a coarse kernel.
    solver_, solver_state_ : object
        The solver and what it keeps: the factored training matrix, n_samples squared
        numbers. With "cg" the matrix, if it was held, and a few columns.
    fit_report_ : FitReport
        What the fit did and took.
    backend_, device_, dtype_ : str
        What computed the training covariances.
    n_features_in_ : int
        Values in a sample.
    feature_names_in_ : ndarray of shape (d,)
        Names, if X has names that are all strings.

    Raises
    ------
    ValueError
        In `fit`, for data or settings that cannot be used; the message says what to do.
        So for a kernel with nothing to learn, one that starts outside its bounds, and
        batches larger than the data.
    CompletionError
        In `fit`, if the matrix cannot be completed from the entries allowed.
    NotPSDError
        In `fit`, if the Gram matrix is not positive definite even with jitter.
    TileMemoryError
        In `fit`, before any work, if the Gram matrix or a single tile does not fit.

    See Also
    --------
    KernelFlowsClassifier : The same for labels.
    KernelFlowsWarp : Moves the inputs instead of the hyperparameters.
    ConvNetGPRegressor : Takes the kernel as it is.

    Notes
    -----
    The learning step looks at batches only: its time and memory do not depend on the
    number of samples. It takes no sample weights, as a weight is no number of copies
    where batches are drawn. An objective that is given as an object has a nugget of
    its own; the process that is fitted in the end has `noise_variance`. They differ
    for a reason: noise stands for all that a kernel does not explain, which is less the
    more samples there are, and a batch is few.

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

    default_kernel = rbf

    def __init__(
        self,
        kernel: object = None,
        *,
        optimizer: object = None,
        objective: object = None,
        batch_size: object = "auto",
        n_batches: int = 4,
        image_shape: object = "auto",
        noise_variance: object = "auto",
        amplitude: object = "profile",
        normalize_y: bool = True,
        completion: object = None,
        observed_fraction: object = 0.2,
        solver: object = "auto",
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
        self.optimizer = optimizer
        self.objective = objective
        self.batch_size = batch_size
        self.n_batches = n_batches
        self.image_shape = image_shape
        self.noise_variance = noise_variance
        self.amplitude = amplitude
        self.normalize_y = normalize_y
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
    @with_callbacks
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
        problem, samples = self._read_targets(X, y, None)
        fit_flows(self, problem, samples, parts_of(self))
        return self
