"""Closed-form kernels of inner products of vectors; images are flattened."""

import math
from abc import abstractmethod
from dataclasses import dataclass

from torch import Generator, Tensor

from skconvgp._tensors import normals
from skconvgp._typing import Bounds, ImageShape, Prepared, Scalar
from skconvgp.kernels._activations import erf_expectation
from skconvgp.kernels._base import Kernel, split
from skconvgp.kernels._checks import (
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
)

__all__ = ["VectorKernel", "arcsine", "dot_product", "polynomial", "vectors_of"]

LARGEST_DEGREE = 1000


class VectorKernel(Kernel):
    """A function of inner products and norms."""

    @property
    def is_spatial(self) -> bool:
        """Whether the value depends on the layout of the pixels: never."""
        return False

    def check(self, image_shape: ImageShape) -> None:
        """Raise a ValueError that says which setting cannot be used."""
        self._check_settings()

    def check_flips(self, shape: ImageShape) -> None:
        """Accept every shape: flips keep inner products and norms."""

    def is_turn_invariant(self, shape: ImageShape) -> bool:
        """Whether turns and flips of both images are known to change nothing."""
        return True

    def n_positions(self, image_shape: ImageShape) -> int:
        """Return 1: there is no map."""
        return 1

    def prepare(self, images: Tensor) -> Prepared:
        """Flatten images (n, c, h, w); return vectors (d, n), squared norms (n,)."""
        vectors = images.reshape(images.shape[0], -1).T.contiguous()
        return vectors, (vectors * vectors).sum(0)

    def cross(self, one: Prepared, two: Prepared) -> Tensor:
        """Return the covariance (n1, n2) of two prepared sets."""
        (x, x2), (y, y2) = vectors_of(one), vectors_of(two)
        return self._value(x.mT @ y, x2[:, None], y2[None, :])

    def diag(self, one: Prepared) -> Tensor:
        """Return the prior variance (n,) of each prepared vector."""
        norms = vectors_of(one)[1]
        return self._value(norms, norms, norms)

    @abstractmethod
    def _check_settings(self) -> None:
        """Raise a ValueError that says which setting cannot be used."""

    @abstractmethod
    def _value(self, inner: Tensor, norm1: Tensor, norm2: Tensor) -> Tensor:
        """Return the covariance from inner products and squared norms."""


@dataclass(repr=False)
class dot_product(VectorKernel):
    r"""Linear kernel, :math:`\sigma_b^2 + x^\top x'`.

    Parameters
    ----------
    bias_variance : float, default=1.0
        Variance of the offset.
    bias_variance_bounds : tuple of float or "fixed", default=(1e-4, 1e4)
        Bounds of `bias_variance` when it is learned.

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
    bias_variance_bounds: Bounds = DEFAULT_BOUNDS

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
        return LinearFeatures(size, 1.0, plain_value(self.bias_variance))

    def _check_settings(self) -> None:
        require_variance("bias_variance", self.bias_variance)

    def _value(self, inner: Tensor, norm1: Tensor, norm2: Tensor) -> Tensor:
        return inner + self.bias_variance


@dataclass(repr=False)
class polynomial(VectorKernel):
    r"""Polynomial kernel, :math:`(\sigma_b^2 + \sigma_w^2 x^\top x')^p`.

    Parameters
    ----------
    degree : int, default=2
        Power p.
    weight_variance, bias_variance : float, default=1.0
        Variances of the linear function that is raised to the power.
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
    weight_variance: Scalar = 1.0
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
        weight, bias = map(plain_value, (self.weight_variance, self.bias_variance))
        linear = LinearFeatures(math.prod(image_shape), weight, bias)
        sketches = [
            Sketch.draw(linear, n_features, generator) for _ in range(self.degree)
        ]
        return SketchedProduct(tuple(sketches), n_features)

    def _check_settings(self) -> None:
        require_variance("weight_variance", self.weight_variance)
        require_variance("bias_variance", self.bias_variance)
        require_positive_int("degree", self.degree, LARGEST_DEGREE)

    def _value(self, inner: Tensor, norm1: Tensor, norm2: Tensor) -> Tensor:
        return (inner * self.weight_variance + self.bias_variance) ** self.degree


@dataclass(repr=False)
class arcsine(VectorKernel):
    r"""Arc-sine ("neural network") kernel: one infinite hidden layer of erf units.

    .. math:: \frac2\pi \arcsin\frac{2 c}{\sqrt{(1 + 2a)(1 + 2b)}}, \quad
              c = \sigma_b^2 + \sigma_w^2 x^\top x'

    with a and b the same for (x, x) and (x', x').

    Parameters
    ----------
    weight_variance, bias_variance : float, default=1.0
        Variances of the weights and the bias of the hidden units.
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

    weight_variance: Scalar = 1.0
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
        weight, bias = map(plain_value, (self.weight_variance, self.bias_variance))
        size = math.prod(image_shape)
        weights = normal_directions(size, n_features, generator, orthogonal=orthogonal)
        biases = normals((n_features,), generator)
        return ErfFeatures(weights * math.sqrt(weight), biases * math.sqrt(bias))

    def _check_settings(self) -> None:
        require_variance("weight_variance", self.weight_variance)
        require_variance("bias_variance", self.bias_variance)

    def _value(self, inner: Tensor, norm1: Tensor, norm2: Tensor) -> Tensor:
        c, a, b = (
            part * self.weight_variance + self.bias_variance
            for part in (inner, norm1, norm2)
        )
        return erf_expectation(c, a, b)


def vectors_of(prepared: Prepared) -> tuple[Tensor, Tensor]:
    """Return prepared vectors (d, n) and their squared norms (n,)."""
    vectors, norms = split(prepared)
    assert isinstance(vectors, Tensor)
    assert isinstance(norms, Tensor)
    return vectors, norms
