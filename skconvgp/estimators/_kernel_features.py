"""KernelFeatures: the features of any kernel, for linear models and pipelines."""

from __future__ import annotations

import copy
from numbers import Integral
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from skconvgp._ambient import public
from skconvgp._protocols import Completion, Expansion
from skconvgp._settings import is_int
from skconvgp._typing import ImageShape
from skconvgp.completion import Nystrom, RandomFeatures
from skconvgp.engine import Placement, compute_at, host_values, to_numpy
from skconvgp.estimators._doors import read_new
from skconvgp.estimators._fact_warnings import warn_of_facts
from skconvgp.estimators._given import checked_rows, images_to_rows
from skconvgp.estimators._kernel_estimator import KernelEstimator
from skconvgp.estimators._labels import as_labels
from skconvgp.estimators._public_fit import public_fit
from skconvgp.estimators._scale import mean_squares, warn_of_scale
from skconvgp.estimators._validation import random_source, shape_of_rows
from skconvgp.estimators.compute._resources import EstimatorResources
from skconvgp.estimators.settings._checks import Given, as_kernel
from skconvgp.estimators.settings._compute import Compute
from skconvgp.estimators.settings._types import (
    Budget,
    Dtype,
    ShapeOfImages,
)
from skconvgp.exceptions import NotFiniteError
from skconvgp.kernels import Kernel, rbf
from skconvgp.processes import (
    ExpansionBasis,
    Fact,
    KernelBasis,
    LandmarkFeatures,
    Problem,
    complete,
    expand,
)

USUAL_FEATURES = 1000
Features: TypeAlias = ExpansionBasis | LandmarkFeatures
STRATIFIED = "stratified"  # the landmarks that read labels
OBSERVED_FRACTION = 0.2  # for completions whose settings do not fix the landmarks


class KernelFeatures(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, KernelEstimator
):
    r"""Features whose inner products approximate a kernel.

    A linear model on these features is a kernel machine whose time grows with the
    number of samples and not with its square or cube: logistic regression, stochastic
    gradient descent, principal components and k-means then work with any kernel of this
    package. Features are random, or those of the Nyström approximation.

    Parameters
    ----------
    kernel : None or Kernel, default=None
        Covariance function, from :mod:`skconvgp.kernels`. None is
        :class:`~skconvgp.kernels.rbf`, a kernel for vectors, whose lengthscale follows
        from the samples.
    features : None, int, RandomFeatures or Nystrom, default=None
        How features are made: by a part of :mod:`skconvgp.completion`. A number asks
        for so many :class:`~skconvgp.completion.RandomFeatures`, and None for 1000.
        :class:`~skconvgp.completion.Nystrom`, with `n_landmarks`, is more accurate for
        deep networks.
    image_shape : "auto", None, (h, w) or (c, h, w), default="auto"
        How a flat row becomes an image, in the order c, h, w. "auto" keeps the shape of
        images, and reads rows of s * s or 3 * s * s values with s >= 8 as square images
        (with a warning). It reads all other rows as 1x1 images with one channel per
        feature, as None reads every row. Kernels for vectors ignore `image_shape`.
    device : str, default="auto"
        "cpu", "cuda", "cuda:1" and the like. "auto" uses a GPU if there is one with
        enough free memory, otherwise the CPU.
    dtype : "auto", "float32" or "float64", default="auto"
        Precision of the computation, as in :class:`ConvNetGPClassifier`. The features
        have the precision of X.
    memory_budget : None, int or str, default=None
        Memory that may be used in addition to X and the features, in bytes or as in "2
        GiB". None is half of the free memory.
    n_jobs : int, default=None
        Jobs that compute covariances with landmarks, as in
        :class:`ConvNetGPClassifier`; random features use the threads of torch.
    random_state : int, RandomState instance or None, default=None
        Seed of the random features, or of the choice of landmarks.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel used.
    features_ : RandomFeatures or Nystrom
        The part used.
    image_shape_ : tuple of int
        Shape (c, h, w) of the image that a row was read as.
    landmark_indices_ : ndarray of shape (m,)
        Indices of the landmarks in the samples of `fit`. Absent with random features.
    dtype_ : str
        Precision of the computation.
    n_features_in_ : int
        Number of values in a sample.
    feature_names_in_ : ndarray of shape (d,)
        Names of the columns of X, if X has names that are all strings.

    Raises
    ------
    TypeError
        In `fit`, for a kernel that has no random features; the message names those that
        have some.
    ValueError
        In `fit`, for data or settings that cannot be used.
    TileMemoryError
        If `memory_budget` does not allow a single sample.

    See Also
    --------
    ConvNetGPClassifier : The Gaussian process on such features, with
        ``completion=RandomFeatures()``.
    sklearn.kernel_approximation.RBFSampler : Random features of one kernel.
    sklearn.kernel_approximation.Nystroem : Features from landmarks.

    Notes
    -----
    The number of random features may differ from the number asked for: frequencies give
    two features each, and sums of kernels equal parts.

    References
    ----------
    Rahimi and Recht, "Random features for large-scale kernel machines", 2007. Williams
    and Seeger, "Using the Nyström method to speed up kernel machines", 2001.

    Examples
    --------
    >>> from sklearn.linear_model import RidgeClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from skconvgp import KernelFeatures
    >>> from skconvgp.completion import Nystrom
    >>> from skconvgp.datasets import load_digits_images
    >>> from skconvgp.kernels import rbf
    >>> X, y = load_digits_images(return_X_y=True)
    >>> for features in (500, Nystrom(n_landmarks=100)):
    ...     phi = KernelFeatures(rbf(2.0), features, random_state=0)
    ...     model = make_pipeline(phi, RidgeClassifier(0.1))
    ...     print(model.fit(X[:400], y[:400]).score(X[400:], y[400:]) > 0.85)
    True
    True
    """

    kernel_: Kernel
    image_shape_: ImageShape
    dtype_: str

    _features: Features
    _mean_squares: tuple[float, float]

    _default_kernel = rbf

    def __init__(
        self,
        kernel: object = None,
        features: object = None,
        *,
        image_shape: ShapeOfImages = "auto",
        device: str = "auto",
        dtype: Dtype = "auto",
        memory_budget: Budget = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.features = features
        self.image_shape = image_shape
        self.device = device
        self.dtype = dtype
        self.memory_budget = memory_budget
        self.n_jobs = n_jobs
        self.random_state = random_state

    @public_fit
    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw the features, or choose the landmarks.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Images or vectors.
        y : array-like of shape (n,), default=None
            Labels, which only ``landmarks="stratified"`` reads.

        Returns
        -------
        self : KernelFeatures
            The fitted transformer.
        """
        part, basis = self._part(), self._read(X)
        labels = self._labels(part, basis, y)
        self._features, facts = self._fitted(part, basis, labels)
        warn_of_facts(facts)
        self.kernel_, self.features_ = basis.kernel, part
        self.dtype_ = self._features.exact.dtype
        self.__dict__.pop("landmark_indices_", None)  # of another fit
        if isinstance(self._features, LandmarkFeatures):
            self.landmark_indices_ = self._features.exact.indices
        return self

    @public
    def transform(self, X: Any) -> NDArray[Any]:
        """Return the features of samples.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Images or vectors.

        Returns
        -------
        X_new : ndarray of shape (n, r)
            The features, in the precision of X.

        Raises
        ------
        NotFiniteError
            If features overflow.
        """
        check_is_fitted(self)
        rows = read_new(self, X)
        warn_of_scale(rows, self._mean_squares)
        resources = EstimatorResources(Compute.of(self), self._features.exact)

        def transform_at(placement: Placement) -> NDArray[Any]:
            run = resources.run(placement)
            result = np.empty((len(rows), self._features.n_samples), rows.dtype)
            done = 0
            for block in self._features.blocks(rows, run):
                with np.errstate(over="ignore"):  # told below
                    result[done : done + len(block)] = to_numpy(block)
                done += len(block)
            # The features are finite in the precision that they are computed in.
            if not np.isfinite(result).all():
                raise NotFiniteError(
                    f"Features of {self.kernel_!r} are not finite in {rows.dtype}, the "
                    "precision of X: scale X to numbers near 1, or give it as float64."
                )
            return result

        return compute_at(resources.placement(0), transform_at)

    def __sklearn_tags__(self) -> Tags:
        """Declare that the precision of X is kept."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self) -> int:
        return self._features.n_samples

    def _part(self) -> Expansion | Completion:
        """Return the part that makes the features."""
        given, features = Given.of(self), copy.deepcopy(self.features)
        if features is None:
            return RandomFeatures(USUAL_FEATURES)
        if isinstance(features, type):
            given.reject("features", "an object, not a class")
        if isinstance(features, Expansion | Nystrom):
            return features
        if not (isinstance(features, Integral) and is_int(features)):
            given.reject("features", "None, an int, RandomFeatures or Nystrom")
        return RandomFeatures(int(features))

    def _read(self, X: Any) -> KernelBasis:
        """Return the samples with their kernel, and set attributes that describe X."""
        random_source(self.random_state)
        rows, given = images_to_rows(X)
        rows = checked_rows(self, rows)
        usual = type(self)._default_kernel()
        kernel = copy.deepcopy(Given.of(self).read("kernel", as_kernel, usual=usual))
        shape = shape_of_rows(kernel, self.image_shape, rows.shape[1], given)
        self.image_shape_, self._mean_squares = shape, mean_squares(rows)
        return KernelBasis(kernel, rows, np.arange(len(rows)), shape).resolved()

    def _labels(
        self, part: Expansion | Completion, basis: KernelBasis, y: Any
    ) -> NDArray[Any] | None:
        """Return checked labels if landmarks are chosen by them."""
        if getattr(part, "landmarks", None) != STRATIFIED:
            return None
        if y is None:
            expected = "without landmarks='stratified', which needs labels y in `fit`"
            Given.of(self).reject("features", expected, part)
        labels = as_labels(host_values(y, "y"))
        check_consistent_length(basis.rows, labels)
        return labels

    def _fitted(
        self,
        part: Expansion | Completion,
        basis: KernelBasis,
        labels: NDArray[Any] | None,
    ) -> tuple[Features, list[Fact]]:
        """Return the features, and facts about them."""
        resources = EstimatorResources(Compute.of(self))

        def fit_at(placement: Placement) -> tuple[Features, list[Fact]]:
            run = resources.run(placement)
            precise = resources.with_precision(basis, run)
            if isinstance(part, Expansion):
                drawn = expand(part, precise, resources.generator())
                drawn.require_room(run.config)
                return drawn, []
            problem = Problem.unlabelled(precise.rows, labels)
            completed = complete(
                part, OBSERVED_FRACTION, resources.generator(), problem, precise, run
            )
            return LandmarkFeatures.of(completed.gram, precise), completed.facts

        return compute_at(resources.placement(0), fit_at)
