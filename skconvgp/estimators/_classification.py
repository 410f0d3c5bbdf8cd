"""ConvNetGPClassifier."""

from typing import Any, Self

from numpy.typing import ArrayLike

from skconvgp.estimators._classifier import GPClassifier
from skconvgp.estimators._fitting import fit_chosen
from skconvgp.estimators._public_fit import public_fit
from skconvgp.estimators._settings import parts_of

__all__ = ["ConvNetGPClassifier"]


class ConvNetGPClassifier(GPClassifier):
    """Gaussian process classifier with the covariance of an infinite network.

    Label regression: a latent function for each class is regressed on the labels,
    exactly, with one Cholesky factorisation for all classes. Probabilities are a
    softmax of the latent means, less sure where the variance is larger, and calibrated
    on closed-form leave-one-out predictions.

    Parameters
    ----------
    kernel : None, Kernel or "precomputed", default=None
        Covariance function, from :mod:`skconvgp.kernels`. None is
        :class:`~skconvgp.kernels.convnet`, for images, which then has no settings to
        search: pass an object for ``kernel__depth`` and the like. For tables take
        :class:`~skconvgp.kernels.rbf`. With "precomputed", X is the
        Gram matrix in `fit` and the covariances with the training data in `predict`.
    optimizer : None, "evidence", "loo" or optimiser object, default=None
        How the kernel's free hyperparameters are chosen before the fit, on all
        samples: to maximise the evidence or the leave-one-out log predictive density
        of the targets, by :class:`~skconvgp.flows.LBFGS` with exact derivatives. An
        object of :mod:`skconvgp.flows` maximises the evidence. None takes the kernel
        as it is. With "laplace" the evidence is that of the labels, and the amplitude
        is learned beside. With the other likelihoods that fix the noise, and for "loo",
        targets are those of "gaussian" and their noise is learned beside, for this
        choice alone. With "gaussian", where the matrices of a search for evidence do
        not fit into the free memory, and the solver is "auto" or "cg" and there is no
        completion, it follows estimates.
    n_restarts_optimizer : int, default=0
        Searches beside the one from the kernel as it is; theirs begin at places drawn
        log-uniformly within the bounds. The best of all is taken.
    image_shape : "auto", None, (h, w) or (c, h, w), default="auto"
        How a flat row becomes an image, in the order c, h, w. "auto" takes images as
        they come, reads rows of s * s or 3 * s * s values with s >= 8 as square images
        (with a warning), and all others as 1x1 images with a channel for each
        feature. None always does the last. Kernels that know no images ignore it.
    noise_variance : float, "auto", "loo" or "evidence", default="auto"
        Variance of the observation noise, as a share of the mean prior variance. The
        words choose it on a grid, from one eigendecomposition: by leave-one-out log
        predictive density or by evidence. "auto" is "loo" where that is affordable:
        for 10 to 5000 different inputs, with eigenvectors that fit
        into the free memory, or with a completion's factor; else it is 1e-4, also
        where labels fix the noise.
        With an `optimizer` a number is held; for a word the noise is learned along with
        the kernel, within the bounds of that grid, as the best kernel for one noise is
        not the best for another: for "auto" by the criterion of the search. The grid
        then has the last word only if the two words differ, or with a completion,
        whose matrix is another one.
    amplitude : "profile", float or None, default="profile"
        Mean prior variance of the latent functions, in squared units of the targets.
        "profile" maximises the evidence in closed form; None takes the kernel as it
        is.
    likelihood : str or likelihood object, default="gaussian"
        How labels become targets and latents become probabilities: "gaussian",
        "dirichlet", "beta" (two classes) or "laplace", or an object of
        :mod:`skconvgp.likelihoods`. But for the first, labels fix the noise, so that
        `noise_variance` is more of it and a number, "profile" chooses the amplitude
        by the evidence of at most 1000 samples, unless an `optimizer` has learned it
        with the kernel, and the solver is Cholesky's.
        "laplace" takes no sample weights.
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
        Chooses what a completion evaluates, and where searches begin again; seed of
        `sample_y` where it is given none.
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
    kernel_ : Kernel or "precomputed"
        The kernel used; with an `optimizer` the one that it chose.
    optimizer_result_ : FlowResult
        What the search for hyperparameters found; with an `optimizer`.
    image_shape_ : tuple of int or None
        How a row was read, (c, h, w).
    noise_variance_ : float
        The relative noise variance used.
    amplitude_ : float
        Mean prior variance of the latent functions.
    dual_coef_ : ndarray of shape (n_samples, n_classes)
        Latent means are ``K(X_*, X) @ dual_coef_ + latent_offset_``. Absent with
        :class:`~skconvgp.completion.NearestNeighbors`, like `solver_state_`.
    X_train_ : ndarray of shape (n_samples, n_features)
        Training inputs; samples of weight 0 are left out. With a completion the
        samples that new ones are compared with, the rows of `dual_coef_` too. None if
        precomputed, or the Gram matrix where predictions look at parts of it.
    latent_offset_ : ndarray of shape (n_classes,)
        Prior means of the latent functions.
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
        What computed the training covariances; "precomputed" is a backend too.
    n_features_in_ : int
        Values in a sample.
    feature_names_in_ : ndarray of shape (d,)
        Names, if X has names that are all strings.

    Raises
    ------
    ValueError
        In `fit`, for data or settings that cannot be used; the message says what to do.
    CompletionError
        In `fit`, if the matrix cannot be completed from the entries allowed.
    NotPSDError
        In `fit`, if the Gram matrix is not positive definite even with jitter.
    TileMemoryError
        In `fit`, before any work, if the Gram matrix or a single tile does not fit;
        with an `optimizer`, if eight matrices of that size do not; as many more as
        there are classes for the evidence of a softmax, that of "laplace" for many.

    See Also
    --------
    ConvNetGPRegressor : The same for real-valued targets.
    KernelFlowsClassifier : Learns the kernel from batches.
    sklearn.gaussian_process.GaussianProcessClassifier : Laplace approximation for
        vectors; its ``latent_mean_and_variance`` is `predict_latent` here.

    Notes
    -----
    Time is dominated by the n (n + 1) / 2 evaluations of the kernel, memory by the
    Gram matrix and its factor, 16 n^2 bytes, or 40 n^2 while the noise is chosen. The
    fitted model keeps the factor, 8 n^2 bytes, for standard deviations and samples.

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
        optimizer: object = None,
        n_restarts_optimizer: int = 0,
        image_shape: object = "auto",
        noise_variance: object = "auto",
        amplitude: object = "profile",
        likelihood: object = "gaussian",
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
        self.n_restarts_optimizer = n_restarts_optimizer
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
        problem, samples = self._read_labels(X, y, sample_weight)
        parts = parts_of(self, self._label_models, keeps_left_out=self._calibrates)
        fit_chosen(self, problem, samples, parts)
        return self._calibrate()
