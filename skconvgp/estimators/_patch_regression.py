"""PatchGPRegressor."""

from typing import Any, Self

from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from skconvgp._ambient import public
from skconvgp._typing import FloatArray
from skconvgp.estimators._doors import process_of
from skconvgp.estimators._fitting import FitData, PlannedFit
from skconvgp.estimators._patch_terms import patches_of_terms, places_of_terms
from skconvgp.estimators._patches import (
    bound_of,
    plan_patch_fit,
    warn_of_first_batch,
)
from skconvgp.estimators._public_fit import public_fit
from skconvgp.estimators._regressor import GPRegressor
from skconvgp.estimators.settings._types import (
    Amplitude,
    AnyKernel,
    BackendName,
    Budget,
    Dtype,
    Mean,
    NoiseVariance,
    PatchOptimizer,
    PatchVariance,
    ShapeOfImages,
    SolveDtype,
)
from skconvgp.kernels import PatchKernel


class PatchGPRegressor(GPRegressor):
    """Regressor of images by a Gaussian process on their patches.

    A latent function of an image is the sum of the responses of a function of patches,
    drawn from a Gaussian process, to each patch. Inducing patches at a few places give
    features of images, and the posterior follows from a linear model of these: a fit is
    one pass over the images, and its cost grows linearly with their number. Targets are
    read as in :class:`~skconvgp.ConvNetGPRegressor`.

    Parameters
    ----------
    kernel : None or Kernel, default=None
        Covariance function: a PatchKernel, or a sum of PatchKernels and kernels of
        whole images, each of which may be multiplied by a number and averaged over
        flips or other maps (:class:`~skconvgp.kernels.OrbitAverage`). None is
        ``PatchKernel()``, whose response to a patch changes slowly with its position.
    n_inducing : "auto", int or list, default="auto"
        Number of inducing patches, or of inducing images of a kernel of whole images.
        "auto" is 128; 256 from 5000 images on; 400 from 20 000 images with three
        channels on; fewer if the memory is not free. For a sum, each term has this
        number, or a list has one setting for each term.
    n_locations : "auto", int, tuple (height, width) or list, default="auto"
        Number of places along each side of an image, or along its height and width, at
        which inducing patches stand. "auto" follows the location lengthscale: 3 to 7
        along a side. It is 1 if the kernel has no location lengthscale. For a sum, a
        list has one setting for each term; a tuple holds for all terms. There is at
        most one place for each position of a patch.
    inducing : str or array-like of shape (m, d) or (m, c, ph, pw), default="kmeans"
        Inducing patches: "kmeans", centres of patches of training images; "uniform",
        patches drawn at random; "unique", all different patches, with which the
        process of an invariant kernel is exact; "learned", those of "kmeans" at the
        start; or given patches of images. For a sum, a list may have one setting for
        each term.
    optimizer : None, "loo", "evidence", "elbo" or optimiser object, default=None
        How the free hyperparameters of the kernel, such as the lengthscale of its base
        and the location lengthscale, are learned before the fit. On at most 2000 images
        drawn at random, "loo" maximises the leave-one-out log predictive density, and
        "evidence" the evidence of the features, by 25 iterations of L-BFGS; other
        optimisers of :mod:`skconvgp.flows` maximise the evidence. "elbo" is
        :class:`~skconvgp.flows.VariationalBound`, which maximises the variational lower
        bound over all images by steps on batches. None holds hyperparameters. With
        ``weights="learned"`` of the kernel, or ``inducing="learned"``, the weights or
        inducing patches are learned too, and with None they alone are, by "loo". All
        terms of a sum are learned at once, with their factors.
    variance : "auto", "dtc" or "sor", default="auto"
        How the prior variance that the features do not explain is treated. "sor"
        (subset of regressors) ignores it; "dtc" (deterministic training conditional)
        adds it to the variances of predictions. "auto" is "dtc".
    image_shape : "auto", None, (h, w) or (c, h, w), default="auto"
        How a flat row becomes an image, in the order c, h, w. "auto" keeps the shape of
        images, and reads rows of s * s or 3 * s * s values with s >= 8 as square images
        (with a warning). It reads all other rows as 1x1 images with one channel per
        feature, as None reads every row.
    noise_variance : float, "auto", "loo" or "evidence", default="auto"
        Variance of the observation noise, as a share of the mean prior variance; at
        least 1e-6. "loo" and "evidence" search it in half decades, by the leave-one-out
        log predictive density of 2000 images or by the evidence of all. "auto" is
        "loo" for 10 different inputs or more, and 1e-2 for fewer.
    amplitude : "profile", float or None, default="profile"
        Mean prior variance of the latent functions, in squared units of the targets
        that are fitted. With `normalize_y` these are scaled, and `amplitude_` is a
        number that is given, times ``y_scale_**2``. "profile" maximises the evidence in
        closed form, and multiplies deviations by a factor that left-out targets ask
        for; None keeps the variance of the kernel.
    normalize_y : bool, default=True
        Whether targets are centred and scaled to variance 1.
    mean : None or regressor, default=None
        Prior mean of the latent functions. None is a constant: that of the targets with
        `normalize_y`, otherwise 0. A regressor of scikit-learn is fitted to all samples
        and the process learns what it leaves. Fits without each of five folds say how
        much wider deviations must be. See :ref:`prior-mean`.
    device : str, default="auto"
        "cpu", "cuda", "cuda:1" and the like. "auto" uses a GPU if there is one with
        enough free memory, otherwise the CPU.
    backend : "auto", "torch" or "fused", default="auto"
        Code that computes the responses to patches. "fused" is compiled and runs
        :class:`~skconvgp.kernels.rbf` and :class:`~skconvgp.kernels.matern` as base
        kernels on the CPU; "torch" runs every kernel.
    dtype : "auto", "float32" or "float64", default="auto"
        Precision of the features. "auto" is float32.
    solve_dtype : "float64" or "float32", default="float64"
        Precision of predictions. Sums over training images are always double.
    memory_budget : None, int or str, default=None
        Memory that may be used in addition to X, the images that the model keeps
        (Notes), the sums (4 r^2 double numbers for r features) and the features of 2000
        images, in bytes or as in "2 GiB". None is half of the free memory.
    n_jobs : int, default=None
        None and 1 compute in this process, on as many threads as torch uses. More jobs
        run through joblib.
    random_state : int, RandomState instance or None, default=None
        Seed that decides on inducing patches, and on the images that noise is chosen
        on. `sample_y` uses it unless it is given a seed.
    verbose : int, default=0
        1 shows progress on stderr.

    Attributes
    ----------
    inducing_patches_ : ndarray of shape (m, c, ph, pw)
        Inducing patches, normalized as the base kernel sees them. For a sum, a list
        with one array for each term; inducing images of a kernel of whole images.
    locations_ : ndarray of shape (l, 2)
        Places: row and column of the first pixel of a patch there. For a sum, a list
        with one array for each term; None for a kernel of whole images.
    explained_variance_ : float
        Share of the mean prior variance that the inducing patches explain, on the 256
        images whose variances are the unit of the noise; 1 is an exact process. More
        inducing patches or places raise it.
    kernel_ : Kernel
        The kernel used, with numbers for settings that follow from data. Weights that
        were learned have a mean square of 1; in a sum, theirs says how much the term
        counts.
    optimizer_result_ : FlowResult
        Result of the search for hyperparameters. Only if something was learned.
    image_shape_ : tuple of int
        Shape (c, h, w) of the image that a row was read as.
    noise_variance_ : float
        The relative noise variance used.
    amplitude_ : float
        Mean prior variance of the latent functions.
    mean_ : regressor
        `mean`, fitted to all samples; only if it is a regressor.
    dual_coef_ : ndarray of shape (r, n_outputs)
        Coefficients of the features in the latent means.
    solver_state_ : object
        Posterior of the coefficients, r squared numbers.
    fit_report_ : FitReport
        Record of the work that the fit did, and of its time.
    backend_, device_, dtype_ : str
        Backend, device and precision of the features.
    n_features_in_ : int
        Number of values in a sample.
    feature_names_in_ : ndarray of shape (d,)
        Names of the features, if X has names that are all strings.

    Raises
    ------
    ValueError
        In `fit`, for data or settings that cannot be used; the message says what to do.
    TileMemoryError
        In `fit`, before features are computed, if the sums do not fit into the memory
        (lower `n_inducing` or `n_locations`), or if the patches of one image exceed the
        memory budget.

    See Also
    --------
    PatchGPClassifier : The same for labels.
    ConvNetGPRegressor : Exact, for networks.

    Notes
    -----
    Each of m inducing patches at each of l places is an inducing variable. The features
    of an image are its covariances with these r = m l variables, whitened; they cost m
    evaluations of the base kernel for each patch of an image. Time grows linearly with
    the number n of images, O(n r^2 + r^3), and memory is O(r^2): features are summed up
    block by block.

    In `fit`, leave-one-out predictions are computed for at most 2000 different images,
    drawn at random; noise is chosen on these. For more images a fitted model keeps all
    of them in the precision of features, and `loo_predict` computes the predictions of
    all when called, in about the time of a fit.

    `partial_fit` adds images to the sums from which the posterior is computed. Inducing
    patches, the noise and the units are kept from the first call; a single `fit` with
    these predicts the same. A model then keeps 2000 images, drawn from all; their
    leave-one-out predictions are up to date. Those of other images are from the call
    that added them, or NaN.

    References
    ----------
    van der Wilk, Rasmussen and Hensman, "Convolutional Gaussian processes", 2017.
    Dutordoir, van der Wilk, Artemev and Hensman, "Bayesian image classification with
    deep convolutional Gaussian processes", 2020 (the location kernel).
    Quiñonero-Candela and Rasmussen, "A unifying view of sparse approximate Gaussian
    process regression", 2005 (the variances).

    Examples
    --------
    >>> from skconvgp import PatchGPRegressor
    >>> from skconvgp.datasets import load_digits_images
    >>> X, y = load_digits_images(return_X_y=True)
    >>> ink = X.mean((1, 2, 3))
    >>> gp = PatchGPRegressor(n_inducing=32, random_state=0)
    >>> gp.fit(X[:1000], ink[:1000]).score(X[1000:], ink[1000:]) > 0.9
    True
    """

    _default_kernel = PatchKernel

    _keeps_rows = False
    _has_sample_noise = False
    _has_linear_mean = False

    def __init__(
        self,
        kernel: AnyKernel = None,
        *,
        n_inducing: object = "auto",
        n_locations: object = "auto",
        inducing: object = "kmeans",
        optimizer: PatchOptimizer = None,
        variance: PatchVariance = "auto",
        image_shape: ShapeOfImages = "auto",
        noise_variance: NoiseVariance = "auto",
        amplitude: Amplitude = "profile",
        normalize_y: bool = True,
        mean: Mean = None,
        device: str = "auto",
        backend: BackendName = "auto",
        dtype: Dtype = "auto",
        solve_dtype: SolveDtype = "float64",
        memory_budget: Budget = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.n_inducing = n_inducing
        self.n_locations = n_locations
        self.inducing = inducing
        self.optimizer = optimizer
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
        """Fit the latent functions.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Training images.
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
        return plan_patch_fit(data, is_outline=is_outline)

    @public_fit
    def partial_fit(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Add further images; the first call is a `fit`.

        Each image should come once: a copy in a later call is another image, which
        makes left-out predictions and calibration too confident. A warning is given if
        most of a batch came before.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Images.
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
            self.fit(X, y, sample_weight)
            reason = self.fit_report_.inducing_reason
            warn_of_first_batch(reason, self.n_inducing)
            return self
        return self._add(X, y, sample_weight)

    @public
    def for_prediction(self) -> Self:
        """Return a small model that predicts, and keeps no training images.

        The model has `predict` and `predict_interval`. It predicts the same means, up
        to rounding. All its intervals of an output are equally wide: their width
        follows errors of left-out targets, and not deviations. Deviations, covariances,
        draws, derivatives, left-out predictions and `partial_fit` need the whole model,
        and raise an error that says so.

        Returns
        -------
        model : estimator
            A fitted estimator of the same class.

        Raises
        ------
        ValueError
            If a kernel of whole images has inducing images, which are training images
            or means of them.

        Notes
        -----
        The model keeps weights of the responses of inducing patches, inducing patches
        and what maps of images have learned, such as means and whitening. It holds no
        training image, no target and no matrix of training images. Inducing patches
        are means of patches of several training images, but single patches of training
        images if there are few of them or with ``inducing="uniform"`` or "unique": a
        rare one can show a piece of a training image.

        Its file has 4 bytes for each inducing patch, place and output, and at most some
        MB for the patches. That does not grow with the number of images.

        Examples
        --------
        >>> import numpy as np
        >>> from skconvgp import PatchGPRegressor
        >>> from skconvgp.datasets import load_digits_images
        >>> X, y = load_digits_images(return_X_y=True)
        >>> gp = PatchGPRegressor(n_inducing=32, random_state=0)
        >>> small = gp.fit(X[:300], y[:300]).for_prediction()
        >>> np.allclose(small.predict(X[300:]), gp.predict(X[300:]), atol=1e-2)
        True
        """
        return self._for_prediction()

    @public
    def elbo(self) -> float:
        """Return a lower bound of the log evidence of the training targets.

        The bound is of the evidence with the kernel itself, which inducing patches
        approximate. In closed form it is the evidence of the approximation, minus, for
        each output, half the sum of the prior variances that inducing patches leave out
        over the noise variance. Above 256 images that sum is estimated from 256.

        Returns
        -------
        elbo : float
            Natural logarithm of a density, summed over outputs.

        References
        ----------
        Titsias, "Variational learning of inducing variables in sparse Gaussian
        processes", 2009, equation 9.

        Examples
        --------
        >>> from skconvgp import PatchGPRegressor
        >>> from skconvgp.datasets import load_digits_images
        >>> X, y = load_digits_images(return_X_y=True)
        >>> gp = PatchGPRegressor(n_inducing=32, random_state=0).fit(X[:100], y[:100])
        >>> gp.elbo() < gp.log_marginal_likelihood()
        True
        """
        check_is_fitted(self)
        return bound_of(self._process)

    @property
    def explained_variance_(self) -> float:
        """Share of the mean prior variance that inducing patches explain."""
        return self.fit_report_.explained_variance

    @property
    def inducing_patches_(self) -> FloatArray | list[FloatArray]:
        """Inducing patches (m, c, ph, pw), normalized as the kernel sees them."""
        return patches_of_terms(process_of(self).basis)

    @property
    def locations_(self) -> FloatArray | list[FloatArray | None]:
        """Locations (l, 2) of the inducing variables: row and column of a patch."""
        return places_of_terms(process_of(self).basis)
