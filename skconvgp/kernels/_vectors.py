"""Closed-form kernels for vectors; images are flattened."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from skconvgp._typing import Bounds, ImageShape, Prepared, Scalar
from skconvgp.kernels._activations import erf_expectation
from skconvgp.kernels._base import Kernel, split
from skconvgp.kernels._checks import (
    require_positive,
    require_positive_int,
    require_variance,
)
from skconvgp.kernels._hyperparameters import DEFAULT_BOUNDS

__all__ = ["arcsine", "dot_product", "matern", "polynomial", "rbf"]

MATERN_NU = (0.5, 1.5, 2.5)
FARTHEST = 1e3  # distance, in lengthscales: no precision holds a covariance beyond


class _VectorKernel(Kernel):
    """A function of inner products and norms."""

    is_stationary: ClassVar[bool] = False

    @property
    def is_spatial(self) -> bool:
        """Whether the value depends on the layout of the pixels: never."""
        return False

    def check(self, image_shape: ImageShape) -> None:
        """Raise a ValueError that says which setting cannot be used."""
        self._check_settings()

    def n_positions(self, image_shape: ImageShape) -> int:
        """Return 1: there is no map."""
        return 1

    def prepare(self, images: Tensor) -> Prepared:
        """Flatten images (n, c, h, w); return vectors (d, n), squared norms (n,)."""
        vectors = images.reshape(images.shape[0], -1).T.contiguous()
        return vectors, (vectors * vectors).sum(0)

    def cross(self, one: Prepared, two: Prepared) -> Tensor:
        """Return the covariance (n1, n2) of two prepared sets."""
        (x, x2), (y, y2) = _vectors(one), _vectors(two)
        if self.is_stationary:  # distances from inner products lose fewer digits then
            centre = x.median(1, keepdim=True).values
            x, y = x - centre, y - centre
            x2, y2 = (x * x).sum(0), (y * y).sum(0)
        return self._value(x.mT @ y, x2[:, None], y2[None, :])

    def diag(self, one: Prepared) -> Tensor:
        """Return the prior variance (n,) of each prepared vector."""
        norms = _vectors(one)[1]
        return self._value(norms, norms, norms)

    @abstractmethod
    def _check_settings(self) -> None:
        """Raise a ValueError that says which setting cannot be used."""

    @abstractmethod
    def _value(self, inner: Tensor, norm1: Tensor, norm2: Tensor) -> Tensor:
        """Return the covariance from inner products and squared norms."""


@dataclass(repr=False)
class rbf(_VectorKernel):
    r"""Squared exponential, :math:`\exp(-\|x - x'\|^2 / 2\ell^2)`.

    Parameters
    ----------
    lengthscale : float, default=1.0
        Lengthscale, in units of the features.
    lengthscale_bounds : tuple of float or "fixed", default=(1e-4, 1e4)
        Bounds of `lengthscale` when it is learned.

    References
    ----------
    Rasmussen and Williams, "Gaussian processes for machine learning", 2006,
    equation 4.9.

    Examples
    --------
    >>> import skconvgp
    >>> from skconvgp.kernels import rbf
    >>> skconvgp.gram_matrix(rbf(lengthscale=2.0), [[0.0], [2.0]]).round(3)
    array([[1.   , 0.607],
           [0.607, 1.   ]])
    """

    is_stationary: ClassVar[bool] = True
    lengthscale: Scalar = 1.0
    lengthscale_bounds: Bounds = DEFAULT_BOUNDS

    def _check_settings(self) -> None:
        require_positive("lengthscale", self.lengthscale)

    def _value(self, inner: Tensor, norm1: Tensor, norm2: Tensor) -> Tensor:
        return torch.exp(
            -_squared_distance(inner, norm1, norm2) / self.lengthscale**2 / 2
        )


@dataclass(repr=False)
class matern(_VectorKernel):
    r"""Matern kernel with smoothness 1/2, 3/2 or 5/2.

    Parameters
    ----------
    lengthscale : float, default=1.0
        Lengthscale, in units of the features.
    nu : {0.5, 1.5, 2.5}, default=1.5
        Smoothness.
    lengthscale_bounds : tuple of float or "fixed", default=(1e-4, 1e4)
        Bounds of `lengthscale` when it is learned.

    References
    ----------
    Rasmussen and Williams, "Gaussian processes for machine learning", 2006,
    equations 4.14 to 4.17.

    Examples
    --------
    >>> import skconvgp
    >>> from skconvgp.kernels import matern
    >>> skconvgp.gram_matrix(matern(1.0, nu=0.5), [[0.0], [1.0]]).round(3)
    array([[1.   , 0.368],
           [0.368, 1.   ]])
    """

    is_stationary: ClassVar[bool] = True
    lengthscale: Scalar = 1.0
    nu: float = 1.5
    lengthscale_bounds: Bounds = DEFAULT_BOUNDS

    def _check_settings(self) -> None:
        require_positive("lengthscale", self.lengthscale)
        if self.nu not in MATERN_NU:
            raise ValueError(f"`nu` must be one of {MATERN_NU!r}, got {self.nu!r}.")

    def _value(self, inner: Tensor, norm1: Tensor, norm2: Tensor) -> Tensor:
        distance2 = _squared_distance(inner, norm1, norm2)
        same = distance2 <= 0.0  # the root has no derivative at 0
        distance = torch.where(same, 0.0, torch.where(same, 1.0, distance2).sqrt())
        scaled = distance * (math.sqrt(2.0 * self.nu) / self.lengthscale)
        scaled = scaled.clamp(max=FARTHEST)
        decay = torch.exp(-scaled)
        if self.nu == MATERN_NU[0]:
            return decay
        if self.nu == MATERN_NU[1]:
            return (1.0 + scaled) * decay
        return (1.0 + scaled + scaled * scaled / 3.0) * decay


@dataclass(repr=False)
class dot_product(_VectorKernel):
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

    def _check_settings(self) -> None:
        require_variance("bias_variance", self.bias_variance)

    def _value(self, inner: Tensor, norm1: Tensor, norm2: Tensor) -> Tensor:
        return inner + self.bias_variance


@dataclass(repr=False)
class polynomial(_VectorKernel):
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

    def _check_settings(self) -> None:
        require_variance("weight_variance", self.weight_variance)
        require_variance("bias_variance", self.bias_variance)
        require_positive_int("degree", self.degree)

    def _value(self, inner: Tensor, norm1: Tensor, norm2: Tensor) -> Tensor:
        return (inner * self.weight_variance + self.bias_variance) ** self.degree


@dataclass(repr=False)
class arcsine(_VectorKernel):
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

    def _check_settings(self) -> None:
        require_variance("weight_variance", self.weight_variance)
        require_variance("bias_variance", self.bias_variance)

    def _value(self, inner: Tensor, norm1: Tensor, norm2: Tensor) -> Tensor:
        c, a, b = (
            part * self.weight_variance + self.bias_variance
            for part in (inner, norm1, norm2)
        )
        return erf_expectation(c, a, b)


def _vectors(prepared: Prepared) -> tuple[Tensor, Tensor]:
    vectors, norms = split(prepared)
    assert isinstance(vectors, Tensor)
    assert isinstance(norms, Tensor)
    return vectors, norms


def _squared_distance(inner: Tensor, norm1: Tensor, norm2: Tensor) -> Tensor:
    return (norm1 + norm2 - 2.0 * inner).clamp(min=0.0)
