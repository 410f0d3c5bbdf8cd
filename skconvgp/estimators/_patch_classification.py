"""PatchGPClassifier."""

from typing import Any, Literal, Self

from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skconvgp._ambient import public
from skconvgp._typing import FloatArray
from skconvgp.estimators._classifier import GPClassifier
from skconvgp.estimators._doors import process_of
from skconvgp.estimators._fitting import FitData, PlannedFit
from skconvgp.estimators._for_prediction import kept_of_labels, with_attributes
from skconvgp.estimators._growing import first_classes
from skconvgp.estimators._patch_terms import patches_of_terms, places_of_terms
from skconvgp.estimators._patches import (
    bound_of,
    has_closed_form,
    plan_patch_fit,
    read_variational,
    warn_of_first_batch,
)
from skconvgp.estimators._public_fit import public_fit
from skconvgp.estimators.settings._types import (
    Amplitude,
    AnyKernel,
    AnyLikelihood,
    AnyNumber,
    BackendName,
    Budget,
    ClassWeight,
    Count,
    Dtype,
    NoiseVariance,
    PatchOptimizer,
    PatchVariance,
    RateOrAuto,
    ShapeOfImages,
    SolveDtype,
)
from skconvgp.kernels import PatchKernel


class PatchGPClassifier(GPClassifier):
    """Classifier of images by a Gaussian process on their patches.

    A latent function of an image is the sum of the responses of a function of patches,
    drawn from a Gaussian process, to each patch. Inducing patches at a few places give
    features of images, and the posterior follows from a linear model of these: a fit is
    one pass over the images, and its cost grows linearly with their number. Labels
    become targets and probabilities as in :class:`~skconvgp.ConvNetGPClassifier`.

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
        adds it to the variances of predictions. Variational inference with "dtc" adds
        it to the variances of training images, too, which predicts worse: "auto" is
        "sor" if labels are modelled and ``optimizer="elbo"`` does not learn the kernel,
        and "dtc" otherwise.
    image_shape : "auto", None, (h, w) or (c, h, w), default="auto"
        How a flat row becomes an image, in the order c, h, w. "auto" keeps the shape of
        images, and reads rows of s * s or 3 * s * s values with s >= 8 as square images
        (with a warning). It reads all other rows as 1x1 images with one channel per
        feature, as None reads every row.
    noise_variance : float, "auto", "loo" or "evidence", default="auto"
        Variance of the observation noise, as a share of the mean prior variance; at
        least 1e-6. "loo" and "evidence" search it in half decades, by the leave-one-out
        log predictive density of 2000 images or by the evidence of all. "auto" is
        "loo" if 10 different images or more, and half of all, have another image of
        their class, and otherwise 1e-4. With "dirichlet" and "beta" it is a number that
        is added to the noise of the labels, 1e-4 by "auto".
    amplitude : "profile", float or None, default="profile"
        Mean prior variance of the latent functions, in squared units of the targets.
        "profile" maximises the evidence, in closed form or, for "dirichlet" and "beta",
        of at most 1000 samples by a search; None keeps the variance of the kernel. For
        labels that are modelled, "profile" divides that of label regression by the
        square of its temperature.
    likelihood : str or likelihood object, default="gaussian"
        How labels become targets, and latent functions become probabilities; see
        :mod:`skconvgp.likelihoods`. "gaussian" is label regression. "dirichlet" and,
        for two classes, "beta" count labels: a target has little noise for the class of
        a sample and much for the others. "softmax", "robustmax" and, for two classes,
        "bernoulli" model the labels themselves. "laplace" is refused.
    class_weight : None, "balanced" or dict, default=None
        Weights of classes, by which sample weights are multiplied. "balanced" is the
        sum of all weights over the number of classes and the sum of the weights of the
        class, so that all classes count alike; `partial_fit` does not know these sums
        and refuses it. Of a dict, a label without an entry has the weight 1.
    inference : "auto", "collapsed" or "variational", default="auto"
        "collapsed" is in closed form, for "gaussian", "dirichlet" and "beta".
        "variational" maximises a lower bound of the evidence by steps on batches of
        images, from the collapsed solution on. "auto" is "collapsed" if it can be.
    batch_size : int, default=1024
        Largest number of images in a batch of variational inference. Batches of an
        epoch are equally large.
    max_iter : int, default=100
        Largest number of epochs of variational inference.
    learning_rate : "auto" or float, default="auto"
        Rate of the first epoch, > 0 and <= 1: the share of the way to the posterior
        that a batch asks for. "auto" is 0.5 over the number of batches, and at least
        0.1. The rate is halved after each epoch that does not raise the bound by more
        than `tol` for each image.
    tol : float, default=1e-3
        Variational inference ends when the bound, averaged over an epoch and divided by
        the number of images, changes by at most `tol` in two epochs in a row.
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
        (Notes), the sums (4 r^2 double numbers for r features; with "dirichlet" and
        "beta" r^2 more for each class, and 56 MB) and the features of 2000 images, in
        bytes or as in "2 GiB". None is half of the free memory.
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
    classes_ : ndarray of shape (n_classes,)
        The labels.
    calibration_ : Calibration
        Transformation of latent means and variances before they become probabilities.
    temperature_ : float
        Number by which latent means of zero variance are divided; 1 if the likelihood
        has no temperature.
    likelihood_ : object
        The likelihood used.
    latent_offset_ : ndarray of shape (n_classes,)
        Prior means of the latent functions.
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
        The relative noise variance used; 0 if the labels are modelled.
    amplitude_ : float
        Mean prior variance of the latent functions.
    dual_coef_ : ndarray of shape (r, n_classes)
        Coefficients of the features in the latent means.
    solver_state_ : object
        Posterior of the coefficients, r squared numbers.
    n_iter_ : int
        Number of passes over the images: epochs of variational inference, otherwise 1.
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
        In `fit`, before features are computed, if the sums, or the matrices of all
        classes, do not fit into the memory (lower `n_inducing` or `n_locations`), or if
        the patches of one image exceed the memory budget.

    See Also
    --------
    PatchGPRegressor : The same for real-valued targets.
    ConvNetGPClassifier : Exact, for networks.

    Notes
    -----
    Each of m inducing patches at each of l places is an inducing variable. The features
    of an image are its covariances with these r = m l variables, whitened; they cost m
    evaluations of the base kernel for each patch of an image. Time grows linearly with
    the number n of images, O(n r^2 + r^3), and memory is O(r^2): features are summed up
    block by block.

    In `fit`, leave-one-out predictions are computed for at most 2000 different images,
    drawn at random; noise is chosen and probabilities are calibrated on these. For more
    images a fitted model keeps all of them in the precision of features, and
    `loo_predict` and `loo_predict_proba` compute the predictions of all when called, in
    about the time of a fit.

    With "dirichlet" each class has a posterior covariance of its own: a fit factors a
    matrix of r squared numbers for each class, and a model keeps them.
    ``Dirichlet("loo")`` chooses the prior count by the leave-one-out log loss of the
    2000 images.

    Variational inference approximates the posterior of the inducing variables of each
    class by a Gaussian of its own, so that it keeps a matrix of r squared numbers for
    each class and takes steps of natural gradients that factor all of them: many times
    the work of the closed form. `log_marginal_likelihood` is then the bound, too.
    Probabilities are expectations under that Gaussian and are not calibrated.
    Leave-one-out predictions are approximate, and cover all samples: the
    posterior without the Gaussian that stands for the likelihood of a sample.

    `partial_fit` adds images to the sums from which the posterior is computed. Inducing
    patches, the noise and the units are kept from the first call; a single `fit` with
    these predicts the same. "dirichlet" and "beta" also keep the prior count, the
    amplitude and the prior means of the first call. A model then keeps 2000 images,
    drawn from all; its probabilities are calibrated on them, and their leave-one-out
    predictions are up to date. Those of other images are from the call that added them,
    or NaN. Variational inference has no `partial_fit`.

    References
    ----------
    van der Wilk, Rasmussen and Hensman, "Convolutional Gaussian processes", 2017.
    Dutordoir, van der Wilk, Artemev and Hensman, "Bayesian image classification with
    deep convolutional Gaussian processes", 2020 (the location kernel).
    Quiñonero-Candela and Rasmussen, "A unifying view of sparse approximate Gaussian
    process regression", 2005 (the variances).
    Khan and Lin, "Conjugate-computation variational inference", 2017 (natural
    gradients).

    Examples
    --------
    >>> from skconvgp import PatchGPClassifier
    >>> from skconvgp.datasets import load_digits_images
    >>> X, y = load_digits_images(return_X_y=True)
    >>> gp = PatchGPClassifier(n_inducing=32, random_state=0)
    >>> gp.fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]) > 0.9
    True
    """

    _default_kernel = PatchKernel
    _has_variational = True

    _keeps_rows = False

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
        likelihood: AnyLikelihood = "gaussian",
        class_weight: ClassWeight = None,
        inference: Literal["auto", "collapsed", "variational"] = "auto",
        batch_size: Count = 1024,
        max_iter: Count = 100,
        learning_rate: RateOrAuto = "auto",
        tol: AnyNumber = 1e-3,
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
        self.likelihood = likelihood
        self.class_weight = class_weight
        self.inference = inference
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.tol = tol
        self.device = device
        self.backend = backend
        self.dtype = dtype
        self.solve_dtype = solve_dtype
        self.memory_budget = memory_budget
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @property
    def n_iter_(self) -> int:
        """Number of passes over the images: epochs, or 1 without them."""
        return max(1, self.fit_report_.iterations)

    @public_fit
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fit the latent functions, and calibrate the probabilities.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Training images.
        y : array-like of shape (n,)
            Labels.
        sample_weight : array-like of shape (n,), default=None
            A weight of 2 is the same as two equal samples, 0 the same as none; with
            variational inference by batches nearly so.
        groups : array-like of shape (n,), default=None
            Samples with the same value are left out together, such as versions of an
            image or images of a patient: in the choice of the noise, in left-out
            predictions and in calibration. See :ref:`groups`.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        return self._fit_first(X, y, sample_weight, groups=groups)

    @available_if(has_closed_form)  # type: ignore[untyped-decorator]
    @public_fit
    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Add further images; the first call is a `fit`.

        Each image should come once: a copy in a later call is another image, which
        makes left-out predictions and calibration too confident. A warning is given if
        most of a batch came before.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Images.
        y : array-like of shape (n,)
            Labels.
        classes : array-like of shape (n_classes,), default=None
            All labels that any call will contain; required in the first call.
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
            self._fit_first(X, y, sample_weight, first_classes(classes))
            reason = self.fit_report_.inducing_reason
            warn_of_first_batch(reason, self.n_inducing)
            return self
        return self._add(X, y, classes, sample_weight)

    def _fit_first(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None,
        classes: NDArray[Any] | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        data = self._read_labels(X, y, sample_weight, classes, groups=groups)
        return self._fit_as(self._planned(data))

    def _planned(
        self,
        data: FitData,
        *,
        is_first: bool = False,  # noqa: ARG002  (others can follow any fit)
        is_outline: bool = False,
    ) -> PlannedFit:
        """Plan a fit, to which samples may be added, or the outline of a plan."""
        n_classes = len(self.classes_)
        variational = read_variational(data.settings, self.likelihood_, n_classes)
        return plan_patch_fit(data, variational, is_outline=is_outline)

    @public
    def for_prediction(self) -> Self:
        """Return a small model that predicts, and keeps no training images.

        The model has `predict`, `predict_proba`, `decision_function` and latent means.
        It predicts the same labels, up to rounding. Its probabilities are calibrated
        anew, as those of the whole model follow deviations too, so that they differ
        somewhat. Deviations, covariances, draws, derivatives, left-out predictions and
        `partial_fit` need the whole model, and raise an error that says so.

        Returns
        -------
        model : estimator
            A fitted estimator of the same class.

        Raises
        ------
        ValueError
            If probabilities need deviations: those of likelihoods other than "gaussian"
            and "dirichlet" do. If a kernel of whole images has inducing images, which
            are training images or means of them.

        Notes
        -----
        The model keeps weights of the responses of inducing patches, inducing patches
        and what maps of images have learned, such as means and whitening. It holds no
        training image, no label and no matrix of training images. Inducing patches
        are means of patches of several training images, but single patches of training
        images if there are few of them or with ``inducing="uniform"`` or "unique": a
        rare one can show a piece of a training image.

        Its file has 4 bytes for each inducing patch, place and class, and at most some
        MB for the patches. That does not grow with the number of images.

        Examples
        --------
        >>> from skconvgp import PatchGPClassifier
        >>> from skconvgp.datasets import load_digits_images
        >>> X, y = load_digits_images(return_X_y=True)
        >>> gp = PatchGPClassifier(n_inducing=32, random_state=0)
        >>> small = gp.fit(X[:300], y[:300]).for_prediction()
        >>> bool((small.predict(X[300:]) == gp.predict(X[300:])).all())
        True
        """
        check_is_fitted(self)
        whole = self._process, self._training, self.fit_report_
        of_labels = self.likelihood_, self.calibration_, self._left_out
        return with_attributes(self, **kept_of_labels(*whole, *of_labels))

    @public
    def elbo(self) -> float:
        """Return a lower bound of the log evidence of the training labels.

        The bound is of the evidence with the kernel itself, which inducing patches
        approximate. In closed form it is the evidence of the approximation, minus, for
        each output, half the sum of the prior variances that inducing patches leave out
        over the noise variance. Above 256 images that sum is estimated from 256.
        With variational inference it is the expected log likelihood minus the
        divergence of the posterior from the prior. With ``variance="sor"``, the default
        then, that is a bound of the evidence of the approximation only.

        Returns
        -------
        elbo : float
            Natural logarithm of a density of label codes, or with variational
            inference of a probability of labels.

        References
        ----------
        Titsias, "Variational learning of inducing variables in sparse Gaussian
        processes", 2009, equation 9; Hensman, Matthews and Ghahramani, "Scalable
        variational Gaussian process classification", 2015, equation 19.

        Examples
        --------
        >>> from skconvgp import PatchGPClassifier
        >>> from skconvgp.datasets import load_digits_images
        >>> X, y = load_digits_images(return_X_y=True)
        >>> gp = PatchGPClassifier(n_inducing=32, random_state=0).fit(X[:100], y[:100])
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
