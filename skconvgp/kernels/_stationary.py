"""Closed-form kernels of distances of vectors; images are flattened."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Generator, Tensor

from skconvgp._tensors import normals
from skconvgp._typing import Bounds, ImageShape, Prepared, Scalar, Value
from skconvgp.kernels._checks import (
    as_items,
    numbers_of,
    plain_value,
    require_positive,
    require_resolved,
)
from skconvgp.kernels._from_data import MEDIAN, median_distance
from skconvgp.kernels._hyperparameters import DEFAULT_BOUNDS
from skconvgp.kernels._spectral import FourierFeatures, normal_directions
from skconvgp.kernels._vectors import VectorKernel, vectors_of

__all__ = ["matern", "rbf"]

MATERN_NU = (0.5, 1.5, 2.5)
FARTHEST = 1e3  # lengthscales; covariances at larger distances underflow


class _StationaryKernel(VectorKernel):
    """A function of the distance in units of the lengthscale."""

    per_feature: ClassVar[str] = "lengthscale"
    lengthscale: Value | str
    lengthscale_bounds: Bounds

    def settings_from(self, images: Tensor) -> dict[str, object]:
        """Return the lengthscale, if it follows from images or vectors (n, ...)."""
        if not self._follows_data:
            return {}
        return {"lengthscale": median_distance(images.reshape(len(images), -1))}

    def prepare(self, images: Tensor) -> Prepared:
        """Flatten images (n, c, h, w); return vectors (d, n), squared norms (n,)."""
        require_resolved(self, "lengthscale", self.lengthscale)
        return super().prepare(images)

    def _scaled(self, vectors: Tensor, numbers: Tensor) -> Tensor:
        """Return vectors (d, n) in units of the lengthscales (d, 1)."""
        return vectors / numbers

    def cross(self, one: Prepared, two: Prepared) -> Tensor:
        """Return the covariance (n1, n2) of two prepared sets."""
        x, y = vectors_of(one)[0], vectors_of(two)[0]
        centre = x.median(1, keepdim=True).values  # so that distances lose fewer digits
        x, y = x - centre, y - centre
        x2, y2 = (x * x).sum(0), (y * y).sum(0)
        return self._value(x.mT @ y, x2[:, None], y2[None, :])

    def feature_map(
        self,
        image_shape: ImageShape,
        n_features: int,
        generator: Generator,
        *,
        orthogonal: bool,
    ) -> FourierFeatures:
        """Return random features of samples of a shape, of an even number."""
        require_resolved(self, "lengthscale", self.lengthscale)
        size, count = math.prod(image_shape), n_features // 2
        frequencies = normal_directions(size, count, generator, orthogonal=orthogonal)
        frequencies = frequencies * self._frequency_scales(count, generator)
        if self._is_each:
            frequencies = (
                frequencies / numbers_of(self.lengthscale, frequencies)[:, None]
            )
        return FourierFeatures(frequencies / plain_value(self._common))

    def _check_settings(self) -> None:
        if self._follows_data:
            return
        if isinstance(self.lengthscale, str) or not as_items(self.lengthscale):
            raise ValueError(
                "`lengthscale` must be a finite number > 0, one for each feature or "
                f"'median', got {self.lengthscale!r}."
            )
        for item in as_items(self.lengthscale):
            require_positive("lengthscale", item)

    @abstractmethod
    def _frequency_scales(self, count: int, generator: Generator) -> Tensor:
        """Return factors (count,) that turn normal into the kernel's frequencies."""

    @property
    def _follows_data(self) -> bool:
        return isinstance(self.lengthscale, str) and self.lengthscale == MEDIAN

    @property
    def _common(self) -> Scalar:
        """The lengthscale of prepared vectors."""
        return 1.0 if self._is_each else cast(Scalar, self.lengthscale)


@dataclass(repr=False, eq=False)
class rbf(_StationaryKernel):
    r"""Squared exponential, :math:`\exp(-\|x - x'\|^2 / 2\ell^2)`.

    Parameters
    ----------
    lengthscale : "median", float or array-like of shape (d,), default="median"
        Lengthscale, in units of the features; an array has one for each feature.
        "median" is the median distance of training samples, which estimators set in
        `fit`.
    lengthscale_bounds : tuple of float or "fixed", default=(1e-4, 1e4)
        Bounds of `lengthscale` when it is learned.

    Notes
    -----
    For "median", equal samples count once, and samples of weight 0 are ignored. If
    there are more than 1000 different samples, 1000 of them are compared; the choice
    does not depend on their order. Where all are equal, it is 1. Without an estimator,
    ``kernel.resolve(X_train)`` has the number.

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
    >>> rbf().resolve([[0.0], [2.0], [6.0]])
    rbf(lengthscale=4.0)
    """

    lengthscale: Value | str = MEDIAN
    lengthscale_bounds: Bounds = DEFAULT_BOUNDS

    def _frequency_scales(self, count: int, generator: Generator) -> Tensor:
        return torch.ones(count, dtype=torch.float64, device="cpu")

    def _value(self, inner: Tensor, norm1: Tensor, norm2: Tensor) -> Tensor:
        return torch.exp(-_squared_distance(inner, norm1, norm2) / self._common**2 / 2)


@dataclass(repr=False, eq=False)
class matern(_StationaryKernel):
    r"""Matern kernel with smoothness 1/2, 3/2 or 5/2.

    Parameters
    ----------
    lengthscale : "median", float or array-like of shape (d,), default="median"
        Lengthscale, in units of the features; an array has one for each feature.
        "median" is the median distance of training samples, which estimators set in
        `fit`.
    nu : {0.5, 1.5, 2.5}, default=1.5
        Smoothness.
    lengthscale_bounds : tuple of float or "fixed", default=(1e-4, 1e4)
        Bounds of `lengthscale` when it is learned.

    Notes
    -----
    For "median", equal samples count once, and samples of weight 0 are ignored. If
    there are more than 1000 different samples, 1000 of them are compared; the choice
    does not depend on their order. Where all are equal, it is 1. Without an estimator,
    ``kernel.resolve(X_train)`` has the number.

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

    lengthscale: Value | str = MEDIAN
    nu: float = 1.5
    lengthscale_bounds: Bounds = DEFAULT_BOUNDS

    def _check_settings(self) -> None:
        super()._check_settings()
        if self.nu not in MATERN_NU:
            raise ValueError(f"`nu` must be one of {MATERN_NU!r}, got {self.nu!r}.")

    def _frequency_scales(self, count: int, generator: Generator) -> Tensor:
        # The spectral density is a multivariate t distribution, and 2 nu is whole.
        degrees = round(2.0 * self.nu)
        shape = (degrees, count)
        normal = normals(shape, generator)
        return (degrees / (normal * normal).sum(0)).sqrt()

    def _value(self, inner: Tensor, norm1: Tensor, norm2: Tensor) -> Tensor:
        distance2 = _squared_distance(inner, norm1, norm2)
        same = distance2 <= 0.0  # the square root has no derivative at 0
        distance = torch.where(same, 0.0, torch.where(same, 1.0, distance2).sqrt())
        scaled = distance * (math.sqrt(2.0 * self.nu) / self._common)
        scaled = scaled.clamp(max=FARTHEST)
        decay = torch.exp(-scaled)
        if self.nu == MATERN_NU[0]:
            return decay
        if self.nu == MATERN_NU[1]:
            return (1.0 + scaled) * decay
        return (1.0 + scaled + scaled * scaled / 3.0) * decay


def _squared_distance(inner: Tensor, norm1: Tensor, norm2: Tensor) -> Tensor:
    return (norm1 + norm2 - 2.0 * inner).clamp(min=0.0)
