"""Closed-form kernels of inner products of vectors; images are flattened."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import torch
from torch import Generator, Tensor

from skconvgp._tensors import normals, reals
from skconvgp._typing import Bounds, ImageShape, Prepared, Scalar, Value
from skconvgp.kernels._activations import erf_expectation
from skconvgp.kernels._base import Kernel, split
from skconvgp.kernels._checks import (
    SEQUENCES,
    as_items,
    numbers_of,
    plain_value,
    require_positive_int,
    require_variance,
)
from skconvgp.kernels._hyperparameters import DEFAULT_BOUNDS
from skconvgp.kernels._spectral import (
    ErfFeatures,
    LinearFeatures,
    Sketch,
    SketchedProduct,
    normal_directions,
    root_of,
)

__all__ = ["VectorKernel", "arcsine", "dot_product", "polynomial", "vectors_of"]

LARGEST_DEGREE = 1000


class VectorKernel(Kernel):
    """A function of inner products and norms."""

    per_feature: ClassVar[str] = ""  # setting that may have a number for each feature

    @property
    def is_spatial(self) -> bool:
        """Whether the value depends on the layout of the pixels: never."""
        return False

    def check(self, image_shape: ImageShape) -> None:
        """Raise a ValueError that says which setting cannot be used."""
        self._check_settings()
        n_features, given = math.prod(image_shape), len(as_items(self._numbers))
        if self._is_each and given != n_features:
            raise ValueError(
                f"`{self.per_feature}` must be a number or have one for each of the "
                f"{n_features} features of X, got {given}."
            )

    def check_flips(self, shape: ImageShape) -> None:
        """Raise unless numbers of pixels are the same at the left and right."""
        if not self._is_each:
            return
        numbers = reals([plain_value(one) for one in as_items(self._numbers)])
        numbers = numbers.reshape(shape)
        if not torch.equal(numbers, numbers.flip(-1)):
            raise ValueError(
                f"the {self.per_feature}s of {type(self).__name__}, one for each pixel,"
                " are not the same at the left and at the right of images of width "
                f"{shape[2]}."
            )

    def is_turn_invariant(self, shape: ImageShape) -> bool:
        """Whether turns and flips of both images are known to change nothing."""
        return not self._is_each

    def n_positions(self, image_shape: ImageShape) -> int:
        """Return 1: there is no map."""
        return 1

    def prepare(self, images: Tensor) -> Prepared:
        """Flatten images (n, c, h, w); return vectors (d, n), squared norms (n,)."""
        vectors = images.reshape(images.shape[0], -1).T.contiguous()
        if self._is_each:
            vectors = self._scaled(vectors, numbers_of(self._numbers, vectors)[:, None])
        return vectors, (vectors * vectors).sum(0)

    def cross(self, one: Prepared, two: Prepared) -> Tensor:
        """Return the covariance (n1, n2) of two prepared sets."""
        (x, x2), (y, y2) = vectors_of(one), vectors_of(two)
        return self._value(x.mT @ y, x2[:, None], y2[None, :])

    def diag(self, one: Prepared) -> Tensor:
        """Return the prior variance (n,) of each prepared vector."""
        norms = vectors_of(one)[1]
        return self._value(norms, norms, norms)

    @property
    def _numbers(self) -> Any:
        """The setting that may have a number for each feature; None without one."""
        return getattr(self, self.per_feature, None)

    @property
    def _is_each(self) -> bool:
        """Whether each feature has a number of its own."""
        return isinstance(self._numbers, SEQUENCES)

    def _scaled(self, vectors: Tensor, numbers: Tensor) -> Tensor:
        """Return vectors (d, n) whose features have been given their numbers (d, 1)."""
        return vectors * numbers.sqrt()

    @abstractmethod
    def _check_settings(self) -> None:
        """Raise a ValueError that says which setting cannot be used."""

    @abstractmethod
    def _value(self, inner: Tensor, norm1: Tensor, norm2: Tensor) -> Tensor:
        """Return the covariance from inner products and squared norms."""


class _WeightedKernel(VectorKernel):
    """A function of inner products of which each feature may have its own share."""

    per_feature: ClassVar[str] = "weight_variance"
    weight_variance: Value | None
    bias_variance: Scalar

    def _weight(self) -> Scalar:
        """Return the variance of the weights of prepared vectors."""
        if self._is_each or self.weight_variance is None:
            return 1.0
        return cast(Scalar, self.weight_variance)

    def _plain_weights(self) -> float | Tensor:
        """Return the variance of the weights as plain numbers."""
        if self._is_each:
            return reals([plain_value(one) for one in as_items(self.weight_variance)])
        return plain_value(self._weight())

    def _check_settings(self) -> None:
        require_variance("weight_variance", self.weight_variance, is_of_each=True)
        require_variance("bias_variance", self.bias_variance)


@dataclass(repr=False, eq=False)
class dot_product(_WeightedKernel):
    r"""Linear kernel, :math:`\sigma_b^2 + \sigma_w^2 x^\top x'`.

    With an array of weight variances it is :math:`\sigma_b^2 + x^\top \Sigma x'` with
    the diagonal matrix :math:`\Sigma` of the array.

    Parameters
    ----------
    bias_variance : float, default=1.0
        Variance of the offset.
    weight_variance : float or array-like of shape (d,), default=None
        Variance of the weights; an array has one for each feature (automatic relevance
        determination). None is 1, which is not learned.
    bias_variance_bounds, weight_variance_bounds : tuple of float or "fixed"
        Bounds of the variances when they are learned.

    References
    ----------
    Rasmussen and Williams, "Gaussian processes for machine learning", 2006,
    section 4.2.2.

    Examples
    --------
    >>> import skconvgp
    >>> from skconvgp.kernels import dot_product
    >>> skconvgp.gram_matrix(dot_product(), [[1.0], [2.0]])
    array([[2., 3.],
           [3., 5.]])
    """

    bias_variance: Scalar = 1.0
    weight_variance: Value | None = None
    bias_variance_bounds: Bounds = DEFAULT_BOUNDS
    weight_variance_bounds: Bounds = DEFAULT_BOUNDS

    def feature_map(
        self,
        image_shape: ImageShape,
        n_features: int,
        generator: Generator,
        *,
        orthogonal: bool,
    ) -> LinearFeatures:
        """Return the samples of a shape and a constant as features."""
        size = math.prod(image_shape)
        bias = plain_value(self.bias_variance)
        return LinearFeatures(size, self._plain_weights(), bias)

    def _check_settings(self) -> None:
        if self.weight_variance is None:
            require_variance("bias_variance", self.bias_variance)
        else:
            super()._check_settings()

    def _value(self, inner: Tensor, norm1: Tensor, norm2: Tensor) -> Tensor:
        return inner * self._weight() + self.bias_variance


@dataclass(repr=False, eq=False)
class polynomial(_WeightedKernel):
    r"""Polynomial kernel, :math:`(\sigma_b^2 + \sigma_w^2 x^\top x')^p`.

    Parameters
    ----------
    degree : int, default=2
        Power p.
    weight_variance : float or array-like of shape (d,), default=1.0
        Variance of the weights of the linear function that is raised to the power; an
        array has one for each feature.
    bias_variance : float, default=1.0
        Variance of its offset.
    weight_variance_bounds, bias_variance_bounds : tuple of float or "fixed"
        Bounds of the variances when they are learned.

    References
    ----------
    Rasmussen and Williams, "Gaussian processes for machine learning", 2006,
    section 4.2.2.

    Examples
    --------
    >>> import skconvgp
    >>> from skconvgp.kernels import polynomial
    >>> skconvgp.gram_matrix(polynomial(degree=2), [[1.0], [2.0]])
    array([[ 4.,  9.],
           [ 9., 25.]])
    """

    degree: int = 2
    weight_variance: Value | None = 1.0
    bias_variance: Scalar = 1.0
    weight_variance_bounds: Bounds = DEFAULT_BOUNDS
    bias_variance_bounds: Bounds = DEFAULT_BOUNDS

    def feature_map(
        self,
        image_shape: ImageShape,
        n_features: int,
        generator: Generator,
        *,
        orthogonal: bool,
    ) -> SketchedProduct:
        """Return random features of samples of a shape."""
        size, bias = math.prod(image_shape), plain_value(self.bias_variance)
        linear = LinearFeatures(size, self._plain_weights(), bias)
        sketches = [
            Sketch.draw(linear, n_features, generator) for _ in range(self.degree)
        ]
        return SketchedProduct(tuple(sketches), n_features)

    def _check_settings(self) -> None:
        super()._check_settings()
        require_positive_int("degree", self.degree, LARGEST_DEGREE)

    def _value(self, inner: Tensor, norm1: Tensor, norm2: Tensor) -> Tensor:
        return (inner * self._weight() + self.bias_variance) ** self.degree


@dataclass(repr=False, eq=False)
class arcsine(_WeightedKernel):
    r"""Arc-sine ("neural network") kernel: one infinite hidden layer of erf units.

    .. math:: \frac2\pi \arcsin\frac{2 c}{\sqrt{(1 + 2a)(1 + 2b)}}, \quad
              c = \sigma_b^2 + \sigma_w^2 x^\top x'

    with a and b the same for (x, x) and (x', x').

    Parameters
    ----------
    weight_variance : float or array-like of shape (d,), default=1.0
        Variance of the weights of the hidden units; an array has one for each feature
        (automatic relevance determination).
    bias_variance : float, default=1.0
        Variance of the bias of the hidden units.
    weight_variance_bounds, bias_variance_bounds : tuple of float or "fixed"
        Bounds of the variances when they are learned.

    References
    ----------
    Rasmussen and Williams, "Gaussian processes for machine learning", 2006,
    equation 4.29.

    Examples
    --------
    >>> import skconvgp
    >>> from skconvgp.kernels import arcsine
    >>> skconvgp.gram_matrix(arcsine(), [[0.0], [1.0]]).round(3)
    array([[0.465, 0.345],
           [0.345, 0.59 ]])
    """

    weight_variance: Value | None = 1.0
    bias_variance: Scalar = 1.0
    weight_variance_bounds: Bounds = DEFAULT_BOUNDS
    bias_variance_bounds: Bounds = DEFAULT_BOUNDS

    def feature_map(
        self,
        image_shape: ImageShape,
        n_features: int,
        generator: Generator,
        *,
        orthogonal: bool,
    ) -> ErfFeatures:
        """Return random features of samples of a shape."""
        size, bias = math.prod(image_shape), plain_value(self.bias_variance)
        weights = normal_directions(size, n_features, generator, orthogonal=orthogonal)
        weights = weights * root_of(self._plain_weights(), weights)[..., None]
        biases = normals((n_features,), generator)
        return ErfFeatures(weights, biases * math.sqrt(bias))

    def _value(self, inner: Tensor, norm1: Tensor, norm2: Tensor) -> Tensor:
        c, a, b = (
            part * self._weight() + self.bias_variance for part in (inner, norm1, norm2)
        )
        return erf_expectation(c, a, b)


def vectors_of(prepared: Prepared) -> tuple[Tensor, Tensor]:
    """Return prepared vectors (d, n) and their squared norms (n,)."""
    vectors, norms = split(prepared)
    assert isinstance(vectors, Tensor)
    assert isinstance(norms, Tensor)
    return vectors, norms
