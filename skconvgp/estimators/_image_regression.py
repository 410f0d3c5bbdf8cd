"""ImageRegressor."""

from functools import partial
from typing import Any, Self

from numpy.typing import ArrayLike
from sklearn.utils.metaestimators import available_if

from skconvgp._ambient import public
from skconvgp._typing import FloatArray
from skconvgp.estimators._doors import process_of
from skconvgp.estimators._fitting import FitData, PlannedFit
from skconvgp.estimators._images import (
    has_sums,
    parts_used,
    plan_image_fit,
    weights_used,
)
from skconvgp.estimators._public_fit import public_fit
from skconvgp.estimators._regressor import GPRegressor
from skconvgp.estimators.settings._types import (
    Amplitude,
    BackendName,
    Budget,
    CountOrAuto,
    Dtype,
    Flips,
    Mean,
    NoiseVariance,
    Parts,
    PartWeights,
    ShapeOfImages,
    SolveDtype,
)
from skconvgp.kernels import Kernel


class ImageRegressor(GPRegressor):
    """Regressor of small sets of images, which needs no settings.

    A Gaussian process with the weighted sum of covariances that see images differently:
    kernels of patches, of scattering coefficients and of networks. Which of them, with
    which weights, and whether mirror images count as the same image is chosen by
    leave-one-out in closed form: no part is trained, and no image is held out.

    Parameters
    ----------
    parts : "auto", "patches" or list, default="auto"
        The parts of the sum. "auto" is a dictionary of up to 13 parts, from which
        left-out images choose: patches of the pixels, which know their place or may be
        anywhere; single positions of scattering coefficients, with their place or
        anywhere, at one to four scales as the side allows; and networks
        (:class:`~skconvgp.kernels.convnet`) on scattering coefficients and on pixels.
        Images with three channels are also scattered as principal components of their
        colours, and others after they are centred and sheared until shapes are upright.
        Rows that are read as vectors have the single part
        :class:`~skconvgp.kernels.rbf`.
        "patches" is patches of the pixels alone.
        A list has parts of yours, and "auto" for the dictionary: kernels of
        :mod:`skconvgp.kernels`, pairs of a transformer, or None, and a kernel, which
        then sees images as the transformer shows them, and
        :class:`~skconvgp.ImagePart`, which is such a pair with a name. A copy of the
        transformer is fitted to the training images, an array (n, c, h, w). A
        :class:`~skconvgp.kernels.PatchKernel` is evaluated through inducing patches,
        all other kernels exactly.
    part_weights : "auto", array-like of shape (n_parts,) or dict, default="auto"
        Weights of the parts, each of which is divided by the mean variance of its
        functions first. They have the sum 1. "auto" chooses them by left-out images,
        and drops parts that add little for their time. A dict of names of parts and
        shares from 0 to 1 gives some of them, where 0 forbids a part, and the others
        are chosen. If too few images say anything, the usual shares stay.
    flips : "auto" or bool, default="auto"
        Whether each part is averaged over images and their mirror images (left and
        right exchanged). "auto" decides by the criterion of the weights, and does not
        for fewer than 10 different images.
    n_landmarks : "auto" or int, default="auto"
        Number of landmarks: images, drawn at random and spread over classes if there
        are some, of which the parts are built. All other images are compared with these
        alone, in time and memory that grow linearly with the number of images, and
        there is `partial_fit`. A number that is not smaller than that of the different
        images asks for the exact sum. "auto" is exact up to 8000 images if these fit
        into the memory, and 8000 landmarks, or as many as fit, for more images.
    image_shape : "auto", None, (h, w) or (c, h, w), default="auto"
        How a flat row becomes an image, in the order c, h, w. "auto" keeps the shape of
        images, and reads rows of s * s or 3 * s * s values with s >= 8 as square images
        (with a warning). It reads all other rows as 1x1 images with one channel per
        feature, as None reads every row.
    noise_variance : float, "auto", "loo" or "evidence", default="auto"
        Variance of the observation noise, as a share of the mean prior variance. "loo"
        and "evidence" choose it on a grid, from one eigendecomposition, by the
        leave-one-out log predictive density or by the evidence.
        "auto" is "loo" for 10 different inputs or more, and 1e-2 for fewer.
    amplitude : "profile", float or None, default="profile"
        Mean prior variance of the latent functions, in squared units of the targets
        that are fitted. With `normalize_y` these are scaled, and `amplitude_` is a
        number that is given, times ``y_scale_**2``. "profile" maximises the evidence in
        closed form, and multiplies deviations by a factor that left-out targets ask
        for; None keeps the variance of the sum.
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
        Code that computes covariances and responses to patches. "fused" is compiled and
        "torch" runs every kernel. "auto" is "fused" for the parts that it can run.
    dtype : "auto", "float32" or "float64", default="auto"
        Precision of covariances and of features. "auto" is float32 where compiled code
        computes them and float32 is precise enough, and for features.
    solve_dtype : "float64" or "float32", default="float64"
        Precision of the Gram matrix and its factor.
    memory_budget : None, int or str, default=None
        Memory that may be used in addition to X, the images as the parts see them,
        features, the Gram matrices and their factor, in bytes or as in "2 GiB". None is
        half of the free memory.
    n_jobs : int, default=None
        None and 1 compute in this process, on as many threads as torch uses. More jobs
        run through joblib.
    random_state : int, RandomState instance or None, default=None
        Seed that decides on inducing patches, on landmarks and, above 1000 images, on
        those that choose weights. `sample_y` uses it unless it is given a seed.
    verbose : int, default=0
        1 shows progress on stderr, and then the parts with their weights and costs.

    Attributes
    ----------
    parts_ : list of tuple
        The parts used, whose weight is not 0: the fitted transformer or, of the usual
        parts, the map of images, or None; and the kernel with numbers for settings that
        follow from data.
    weights_ : ndarray of shape (n_parts_used,)
        Weights of the parts used; ``fit_report_.part_weights`` has those of all parts.
    y_mean_, y_scale_ : ndarray of shape (n_outputs,)
        Numbers that were subtracted from the targets, and numbers that the difference
        was divided by.
    mean_ : regressor
        `mean`, fitted to all samples; only if it is a regressor.
    kernel_ : Kernel
        The kernel of the first part used.
    image_shape_ : tuple of int
        Shape (c, h, w) of the image that a row was read as.
    pool_ : float
        Side of the areas whose means are seen, in pixels; 1 up to 96 x 96 pixels.
    noise_variance_ : float
        The relative noise variance used.
    amplitude_ : float or ndarray of shape (n_outputs,)
        Mean prior variance of the latent functions.
    dual_coef_ : ndarray of shape (n_samples, n_outputs)
        Coefficients of the covariances with `X_train_` in the latent means; with
        patches alone, of the features.
    X_train_ : ndarray of shape (n_samples, n_features)
        Training images of positive weight, or landmarks; None with patches alone.
    landmark_indices_ : ndarray of shape (n_landmarks,)
        Indices of the landmarks in the samples of `fit`. Absent without landmarks.
    solver_, solver_state_ : object
        The solver and its state: the factor of the training matrix, n_samples squared
        numbers, or two matrices of the landmarks.
    fit_report_ : FitReport
        Record of the work that the fit did, of its time, and of what was chosen:
        `part_weights`, `part_names`, `part_costs`, `is_mirrored`, `n_landmarks`,
        `parts_reason`.
    backend_, device_, dtype_ : str
        Backend of the slowest part, device, and precision of the first part.
    n_features_in_ : int
        Number of values in a sample.
    feature_names_in_ : ndarray of shape (d,)
        Names of the features, if X has names that are all strings.

    Raises
    ------
    ValueError
        In `fit`, for data or settings that cannot be used; the message says what to do.
    NotPSDError
        In `fit`, if the Gram matrix is not positive definite even with jitter.
    TileMemoryError
        In `fit`, if the Gram matrices, the features or a single tile do not fit into
        the memory.

    See Also
    --------
    ImageClassifier : The same for labels.
    ImagePart : A part with a name, for `parts`.
    ConvNetGPRegressor : Exact, for a kernel of your choice.
    PatchGPRegressor : Patches alone, linear in the number of images.

    Notes
    -----
    Images may have any size. Of more pixels than 96x96 has, or with a side above 192,
    means over equal areas are seen instead, and above 224 pixels a side a warning says
    so. Images of X are mirrored before a transformer sees them.

    At most 1000 images, drawn at random, choose the parts. Weights, noise and a
    temperature minimise a criterion, by exact derivatives: the left-out log loss of
    labels minus half of the left-out log density of targets, with a prior that counts
    as six images and prefers all parts. (Numbers have the density alone.) Mirror images
    are averaged over unless the criterion is larger then, by more than one image
    counts. Parts with less than 2 % of the weight are dropped, and dear parts that
    others can replace.
    `fit_report_` names all parts with their weights and what a new image costs.

    Images that choose weights are missed too little when they are left out. Weights
    and noise are chosen again without each of five folds, and by how much larger the
    errors of the folds are, deviations and intervals are wider.

    A prediction takes the scattering of each new image at the scales of the parts used,
    and of its mirror image if these are averaged over; then the responses to inducing
    patches, and comparisons with training images.

    Time grows with the square of the number n of images for covariances and with n^3
    for the choice of the noise. A fit holds six matrices of n^2 numbers. If these do
    not fit into the memory and the noise is given as a number, it holds one in single
    precision, which :class:`~skconvgp.solvers.RefinedCholesky` factors in place, and
    while parts are added one more, or five if mirror images are averaged over. Up to
    some thousand images these are less than the matrices of all parts of the images
    that choose, the features of patches and the images as the parts see them, tens of
    thousands of numbers in single precision for each image.

    Above 8000 images, or if all this does not fit into the memory, landmarks take the
    place of all images (Nyström's method): with m of them a fit holds six matrices of
    m^2 numbers, and what the parts see and keep of m images. Deviations include what
    landmarks do not explain. Landmarks are not among the left-out samples that
    probabilities or deviations follow. If there is no room for 500 landmarks, the usual
    parts give way to patches alone. `fit_report_` says what was chosen and why.

    `partial_fit` adds images to the sums of a fit by landmarks or of patches alone.
    Parts, weights, flips, landmarks or inducing patches, noise and units are kept from
    the first call.

    Prior variances of a kernel of patches are computed from its features.

    References
    ----------
    van der Wilk, Rasmussen and Hensman, "Convolutional Gaussian processes", 2017.
    Bruna and Mallat, "Invariant scattering convolution networks", 2013.
    Coates, Ng and Lee, "An analysis of single-layer networks in unsupervised feature
    learning", 2011 (whitened patches).
    Haasdonk and Burkhardt, "Invariant kernel functions for pattern analysis and machine
    learning", 2007 (averages over a group).

    Examples
    --------
    >>> from skconvgp import ImageRegressor
    >>> from skconvgp.datasets import load_digits_images
    >>> X, _ = load_digits_images(return_X_y=True)
    >>> ink = X.mean((1, 2, 3))
    >>> gp = ImageRegressor(random_state=0).fit(X[:100], ink[:100])
    >>> gp.score(X[100:300], ink[100:300]) > 0.9
    True
    """

    # What `read_training` reads images for; each part has a kernel of its own.
    kernel = None
    _needs_fit = True
    _has_sample_noise = False
    _has_linear_mean = False

    def __init__(
        self,
        parts: Parts = "auto",
        *,
        part_weights: PartWeights = "auto",
        flips: Flips = "auto",
        n_landmarks: CountOrAuto = "auto",
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
        self.parts = parts
        self.part_weights = part_weights
        self.flips = flips
        self.n_landmarks = n_landmarks
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
            A weight of 2 is the same as two equal samples, up to 1000 of them; 0 the
            same as none.
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
        self, data: FitData, *, is_first: bool = False, is_outline: bool = False
    ) -> PlannedFit:
        """Plan a fit, to which samples may be added, or the outline of a plan."""
        return plan_image_fit(
            data, keeps_left_out=True, is_first=is_first, is_outline=is_outline
        )

    @available_if(has_sums)  # type: ignore[untyped-decorator]
    @public_fit
    def partial_fit(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Add further images to a fit by landmarks, or of patches alone.

        The first call is a `fit`, with a number as `n_landmarks`, or for
        ``parts="patches"``. Landmarks are images of the first call.

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
            planned = partial(self._planned, is_first=True)
            data = self._read_targets(X, y, sample_weight, planned=planned)
            return self._fit_as(planned(data))
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
            If a part compares new images with training images, as networks do; set the
            weight of such parts to 0 by `part_weights`.

        Notes
        -----
        The model keeps weights of the responses of inducing patches, inducing patches
        and what maps of images have learned, such as means and whitening. It holds no
        training image, no target and no matrix of training images. Inducing patches
        are means of patches of several training images, but single patches of training
        images if there are few of them or with ``inducing="uniform"`` or "unique": a
        rare one can show a piece of a training image. Transformers of yours keep what
        they have learned, which may be training images.

        Its file has 4 bytes for each inducing patch, place and output, and at most some
        MB for patches and maps. That does not grow with the number of images.

        Examples
        --------
        >>> import numpy as np
        >>> from skconvgp import ImageRegressor
        >>> from skconvgp.datasets import load_digits_images
        >>> X, y = load_digits_images(return_X_y=True)
        >>> gp = ImageRegressor("patches", flips=False, random_state=0)
        >>> small = gp.fit(X[:300], y[:300]).for_prediction()
        >>> np.allclose(small.predict(X[300:]), gp.predict(X[300:]), atol=1e-2)
        True
        """
        return self._for_prediction()

    @property
    def parts_(self) -> list[tuple[Any, Kernel]]:
        """Fitted transformer, or None, and kernel of each part used."""
        return parts_used(process_of(self).basis)

    @property
    def weights_(self) -> FloatArray:
        """Weights of the parts used."""
        return weights_used(self.fit_report_)
