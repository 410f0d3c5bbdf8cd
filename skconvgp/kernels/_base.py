"""Kernel, the covariance function of a tile, and the algebra of kernels.

A kernel is evaluated in two halves. ``prepare`` computes, once for each image,
everything that depends on one image only; ``cross`` turns two prepared sets into the
covariances of all their pairs. Loops, devices and memory limits are the engine's part.
"""

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from numbers import Real
from operator import add, mul
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Generator, Tensor

from skconvgp._ambient import named_recursion
from skconvgp._parts import Part, distinct
from skconvgp._settings import as_float
from skconvgp._tensors import native
from skconvgp._typing import (
    Bounds,
    FloatArray,
    ImageShape,
    MapShape,
    Prepared,
    Scalar,
)
from skconvgp.kernels._capabilities import (
    is_turn_invariant,
    require_mirrored,
    sample_network,
)
from skconvgp.kernels._checks import plain_value, require_variance
from skconvgp.kernels._columns import plain_columns, require_columns, taken
from skconvgp.kernels._from_data import settings_from_data
from skconvgp.kernels._hyperparameters import (
    DEFAULT_BOUNDS,
    Hyperparameter,
    assign_hyperparameters,
    collect_hyperparameters,
)
from skconvgp.kernels._map_layer import Maps, map_layer
from skconvgp.kernels._segments import leaves, require_no_pool, strides_of

__all__ = [
    "Kernel",
    "OnColumns",
    "Product",
    "Scale",
    "Sum",
    "Wrapped",
    "require_kernels",
    "split",
]


class Kernel(Part, ABC):
    """Covariance function on images (or on vectors, which are 1x1 images)."""

    __array_ufunc__ = None  # numpy's numbers leave the product to the kernel

    @abstractmethod
    def check(self, image_shape: ImageShape) -> None:
        """Raise a ValueError that says why images of this shape cannot be used."""

    @property
    @abstractmethod
    def is_spatial(self) -> bool:
        """Whether the value depends on how the pixels are laid out in the image."""

    @abstractmethod
    def n_positions(self, image_shape: ImageShape) -> int:
        """Return the number of positions of the map of one pair; 1 without a map."""

    def n_position_pairs(self, image_shape: ImageShape) -> int:
        """Return the pairs of positions whose covariances a pair of images needs.

        It measures the time of a pair. Without pools it is `n_positions`.
        """
        return self.n_positions(image_shape)

    @abstractmethod
    def prepare(self, images: Tensor) -> Prepared:
        """Compute all that depends on one image only, for images (n, c, h, w)."""

    @abstractmethod
    def cross(self, one: Prepared, two: Prepared) -> Tensor:
        """Return the covariance (n1, n2) of two prepared sets of images."""

    @abstractmethod
    def diag(self, one: Prepared) -> Tensor:
        """Return the prior variance (n,) of each prepared image."""

    @property
    @named_recursion()
    def hyperparameters(self) -> tuple[Hyperparameter, ...]:
        """All hyperparameters, free and fixed, nested kernels included."""
        return tuple(collect_hyperparameters(self))

    @property
    def theta(self) -> FloatArray:
        """Logarithms of the free hyperparameters, shape (p,)."""
        values = [plain_value(free.value) for free in self._free]
        return np.log(np.array(values, dtype=np.float64))

    @property
    def bounds(self) -> FloatArray:
        """Logarithms of the bounds of the free hyperparameters, shape (p, 2)."""
        pairs = [free.bounds for free in self._free]
        return np.log(np.array(pairs, dtype=np.float64).reshape(-1, 2))

    def with_theta(self, theta: FloatArray | Tensor) -> Self:
        """Return a copy with the free hyperparameters at ``exp(theta)``.

        Parameters
        ----------
        theta : ndarray or Tensor of shape (p,)
            Logarithms. A tensor keeps the copy differentiable by it.

        Returns
        -------
        kernel : Kernel
            The copy.
        """
        free = self._free
        if len(theta) != len(free):
            raise ValueError(
                f"`theta` must have {len(free)} values, one for each free "
                f"hyperparameter of {self!r}, got {len(theta)}."
            )
        values: list[Scalar]
        if isinstance(theta, Tensor):
            values = list(torch.exp(theta).unbind())
        else:
            values = [float(value) for value in np.exp(theta)]
        kernel = copy.deepcopy(self)
        assign_hyperparameters(kernel, free, values)
        return kernel

    @named_recursion()
    def resolve(self, X: Any) -> Self:
        """Return a copy whose settings that follow from data are numbers.

        Parameters
        ----------
        X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
            Training samples, without any of weight 0.

        Returns
        -------
        kernel : Kernel
            The copy; the kernel itself if no setting follows from data.
        """
        if not isinstance(X, Tensor):  # torch accepts no negative strides
            X = torch.from_numpy(native(np.array(X, order="C")))
        X = X.detach()
        values = dict(settings_from_data(self, X))
        return self.replace(**values) if values else self

    @named_recursion()
    def replace(self, **params: object) -> Self:
        """Return a copy with other settings; names as ``set_params`` takes them."""
        return copy.deepcopy(self).set_params(**params)

    def on(self, columns: int | Sequence[int]) -> "OnColumns":
        """Return this kernel of some columns of the samples.

        Sums of such kernels are additive models: see :class:`OnColumns`.

        Parameters
        ----------
        columns : int or sequence of int
            Positions of the columns, from 0; of images, in the order c, h, w.

        Returns
        -------
        kernel : OnColumns
            The kernel.

        Examples
        --------
        >>> from skconvgp.kernels import rbf
        >>> rbf().on(0) + rbf().on([1, 2])
        Sum(OnColumns(kernel=rbf(), columns=(0,)), OnColumns(kernel=rbf(), columns=(1, 2)))
        """  # noqa: E501  (a doctest's output)
        return OnColumns(self, plain_columns(columns))

    @property
    def _free(self) -> tuple[Hyperparameter, ...]:
        return tuple(item for item in self.hyperparameters if item.is_free)

    def __add__(self, other: object) -> "Sum":
        """Sum of two kernels."""
        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: object) -> "Kernel":
        """Product with a kernel, or a kernel scaled by a number."""
        if isinstance(other, Kernel):
            return Product(self, other)
        if isinstance(other, Real):
            return Scale(self, factor=as_float(+other))
        return NotImplemented

    def __rmul__(self, other: object) -> "Kernel":
        """Kernel scaled by a number."""
        return self * other if isinstance(other, Real) else NotImplemented


class _Several(Kernel):
    """A kernel that is made of others."""

    parts: tuple[Kernel, ...]

    def check(self, image_shape: ImageShape) -> None:
        """Raise a ValueError that says why images of this shape cannot be used."""
        require_kernels(self, self.parts)
        for part in self.parts:
            part.check(image_shape)

    def check_flips(self, shape: ImageShape) -> None:
        """Raise a ValueError that says why flips change one of the kernels."""
        for part in self.parts:
            require_mirrored(part, shape)

    def is_turn_invariant(self, shape: ImageShape) -> bool:
        """Whether turns and flips of both images are known to change nothing."""
        return all(is_turn_invariant(part, shape) for part in self.parts)

    @property
    def is_spatial(self) -> bool:
        """Whether one of the kernels is."""
        return any(getattr(part, "is_spatial", True) for part in self.parts)

    def n_positions(self, image_shape: ImageShape) -> int:
        """Return the most positions that one of the kernels has."""
        return max(part.n_positions(image_shape) for part in self.parts)

    def n_position_pairs(self, image_shape: ImageShape) -> int:
        """Return the pairs of positions that all kernels need."""
        return sum(part.n_position_pairs(image_shape) for part in self.parts)

    def prepare(self, images: Tensor) -> Prepared:
        """Prepare the images for each kernel."""
        return tuple(part.prepare(images) for part in self.parts)


@dataclass(repr=False, init=False)
class Sum(_Several):
    """Sum of kernels; inside a network, sum of independent branches.

    Parameters
    ----------
    *terms : Kernel
        Kernels or branches that are added. In a network all must give maps of the same
        size, and each should end in an affine layer: only then is the sum the limit of
        a network (otherwise it is still a valid kernel).

    Examples
    --------
    >>> from skconvgp.kernels import convnet, rbf
    >>> convnet(depth=2) + rbf(lengthscale=5.0)
    Sum(convnet(depth=2), rbf(lengthscale=5.0))
    """

    part_name: ClassVar[str] = "term"
    is_homogeneous: ClassVar[bool] = True
    parts: tuple[Kernel, ...]

    def __init__(self, *terms: Kernel) -> None:
        self.parts = distinct(terms)

    def sample(self, images: Tensor, *, width: int, generator: Generator) -> Tensor:
        """Draw all branches, and add their outputs for images (n, c, h, w)."""
        branches = [
            sample_network(term, images, width=width, generator=generator)
            for term in self.parts
        ]
        return torch.stack(branches).sum(0)

    def cross(self, one: Prepared, two: Prepared) -> Tensor:
        """Add the covariances (n1, n2) of the terms."""
        parts = zip(self.parts, split(one), split(two), strict=True)
        return reduce(add, (term.cross(a, b) for term, a, b in parts))

    def diag(self, one: Prepared) -> Tensor:
        """Add the prior variances (n,) of the terms."""
        parts = zip(self.parts, split(one), strict=True)
        return reduce(add, (term.diag(first) for term, first in parts))

    @property
    def map_strides(self) -> tuple[int, int]:
        """Rows and columns of its input for each of its output, in all branches."""
        strides = [strides_of(term) for term in self.parts]
        if len(set(strides)) != 1:
            raise ValueError(
                "in front of a pool the branches of a Sum must have the same strides, "
                f"got {strides!r}."
            )
        return strides[0]

    def leaves(self, shape: MapShape) -> Iterator[tuple[Any, MapShape]]:
        """Yield the layers of all branches, each with the size of its input."""
        for term in self.parts:
            yield from leaves(term, shape)

    def out_shape(self, shape: MapShape) -> MapShape:
        """Return the common size of the maps after all branches."""
        require_kernels(self, self.parts)
        shapes = [map_layer(term).out_shape(shape) for term in self.parts]
        if len(set(shapes)) != 1:
            require_no_pool(self, shape)
            raise ValueError(
                f"branches of a Sum must give maps of one size, got {shapes!r}."
            )
        return shapes[0]

    def image_pass(self, var: Tensor) -> tuple[Tensor, Prepared]:
        """Pass variance maps (h, w, n) through all branches."""
        passes = [map_layer(term).image_pass(var) for term in self.parts]
        return reduce(add, (out for out, _ in passes)), tuple(t for _, t in passes)

    def pair_pass(self, maps: Maps, one: Prepared, two: Prepared) -> Maps:
        """Pass covariance maps through all branches."""
        parts = zip(self.parts, split(one), split(two), strict=True)
        passed = [map_layer(term).pair_pass(maps, a, b) for term, a, b in parts]
        return reduce(Maps.plus, passed)


@dataclass(repr=False, init=False)
class Product(_Several):
    """Product of kernels.

    Parameters
    ----------
    *factors : Kernel
        Kernels that are multiplied.

    Examples
    --------
    >>> from skconvgp.kernels import convnet, rbf
    >>> convnet(depth=2) * rbf(lengthscale=5.0)
    Product(convnet(depth=2), rbf(lengthscale=5.0))
    """

    part_name: ClassVar[str] = "factor"
    parts: tuple[Kernel, ...]

    def __init__(self, *factors: Kernel) -> None:
        self.parts = distinct(factors)

    def cross(self, one: Prepared, two: Prepared) -> Tensor:
        """Multiply the covariances (n1, n2) of the factors."""
        parts = zip(self.parts, split(one), split(two), strict=True)
        return reduce(mul, (factor.cross(a, b) for factor, a, b in parts))

    def diag(self, one: Prepared) -> Tensor:
        """Multiply the prior variances (n,) of the factors."""
        parts = zip(self.parts, split(one), strict=True)
        return reduce(mul, (factor.diag(first) for factor, first in parts))


class Wrapped(Kernel):
    """A kernel that is made of one other; inside a network, a layer of a layer."""

    kernel: Kernel

    def check_flips(self, shape: ImageShape) -> None:
        """Raise a ValueError that says why flips change the inner kernel."""
        require_mirrored(self.kernel, shape)

    def is_turn_invariant(self, shape: ImageShape) -> bool:
        """Whether turns and flips of both images are known to change nothing."""
        return is_turn_invariant(self.kernel, shape)

    @property
    def is_spatial(self) -> bool:
        """Whether the inner kernel is."""
        return bool(getattr(self.kernel, "is_spatial", True))

    def n_positions(self, image_shape: ImageShape) -> int:
        """Return the positions of the map of one pair of the inner kernel."""
        return self.kernel.n_positions(image_shape)

    def n_position_pairs(self, image_shape: ImageShape) -> int:
        """Return the pairs of positions that a pair of images needs."""
        return self.kernel.n_position_pairs(image_shape)

    @property
    def map_strides(self) -> tuple[int, int]:
        """Rows and columns of its input for each of its output."""
        return strides_of(self.kernel)

    def leaves(self, shape: MapShape) -> Iterator[tuple[Any, MapShape]]:
        """Yield the layers that the inner layer consists of."""
        return leaves(self.kernel, shape)


@dataclass(repr=False)
class Scale(Wrapped):
    """A kernel multiplied by a positive number.

    Parameters
    ----------
    kernel : Kernel
        Kernel that is scaled; inside a network, a layer.
    factor : float, default=1.0
        Factor of the covariances.
    factor_bounds : tuple of float or "fixed", default=(1e-4, 1e4)
        Bounds of `factor` when it is learned.

    Examples
    --------
    >>> from skconvgp.kernels import rbf
    >>> 2.0 * rbf(3.0)
    Scale(kernel=rbf(lengthscale=3.0), factor=2.0)
    """

    kernel: Kernel
    factor: Scalar = 1.0
    factor_bounds: Bounds = DEFAULT_BOUNDS

    is_homogeneous: ClassVar[bool] = True

    def check(self, image_shape: ImageShape) -> None:
        """Raise a ValueError that says why images of this shape cannot be used."""
        require_variance("factor", self.factor)
        require_kernels(self, (self.kernel,))
        self.kernel.check(image_shape)

    def sample(self, images: Tensor, *, width: int, generator: Generator) -> Tensor:
        """Draw the layer, and scale its output for images (n, c, h, w)."""
        out = sample_network(self.kernel, images, width=width, generator=generator)
        return out * math.sqrt(plain_value(self.factor))

    def prepare(self, images: Tensor) -> Prepared:
        """Prepare the images for the scaled kernel."""
        return self.kernel.prepare(images)

    def cross(self, one: Prepared, two: Prepared) -> Tensor:
        """Scale the covariance (n1, n2)."""
        return self.kernel.cross(one, two) * self.factor

    def diag(self, one: Prepared) -> Tensor:
        """Scale the prior variances (n,)."""
        return self.kernel.diag(one) * self.factor

    def out_shape(self, shape: MapShape) -> MapShape:
        """Return the size of the map after the scaled layer."""
        require_variance("factor", self.factor)
        return map_layer(self.kernel).out_shape(shape)

    def image_pass(self, var: Tensor) -> tuple[Tensor, Prepared]:
        """Pass variance maps (h, w, n) through the layer and scale them."""
        out, trace = map_layer(self.kernel).image_pass(var)
        return out * self.factor, trace

    def pair_pass(self, maps: Maps, one: Prepared, two: Prepared) -> Maps:
        """Pass covariance maps through the layer and scale them."""
        out = map_layer(self.kernel).pair_pass(maps, one, two)
        return out.linear(lambda maps: maps * self.factor)


@dataclass(repr=False, eq=False)
class OnColumns(Kernel):
    r"""A kernel of some columns of the samples, :math:`k(x_S, x'_S)`.

    Sums of such kernels are additive models: functions that are sums of functions of
    few variables each. ``kernel.on(columns)`` makes one.

    Parameters
    ----------
    kernel : Kernel
        Kernel of vectors. Settings of it that follow from data, as a "median", follow
        from these columns.
    columns : int or sequence of int
        Positions of the columns, from 0, each one once; of images, in the order c, h,
        w.

    References
    ----------
    Duvenaud, Nickisch and Rasmussen, "Additive Gaussian processes", 2011, section 2.

    Examples
    --------
    >>> from skconvgp import gram_matrix
    >>> from skconvgp.kernels import dot_product, rbf
    >>> kernel = rbf(1.0).on(0) + dot_product().on(1)
    >>> gram_matrix(kernel, [[0.0, 1.0], [0.0, 2.0]])
    array([[3., 4.],
           [4., 6.]])
    """

    kernel: Kernel
    columns: int | Sequence[int]

    def check(self, image_shape: ImageShape) -> None:
        """Raise a ValueError that says why images of this shape cannot be used."""
        require_kernels(self, (self.kernel,))
        require_columns(self.columns, image_shape)
        self.kernel.check(self.seen(image_shape))

    @property
    def is_spatial(self) -> bool:
        """Whether the value depends on the layout of the pixels: never."""
        return False

    def settings_from(self, images: Tensor) -> dict[str, object]:
        """Return the kernel, if settings of it follow from these columns of images."""
        require_columns(self.columns, (images[0].numel(), 1, 1))
        resolved = self.kernel.resolve(taken(images, self.positions))
        return {} if resolved is self.kernel else {"kernel": resolved}

    def n_positions(self, image_shape: ImageShape) -> int:
        """Return the positions of the map of one pair of the inner kernel."""
        return self.kernel.n_positions(self.seen(image_shape))

    def prepare(self, images: Tensor) -> Prepared:
        """Prepare the columns of images (n, c, h, w)."""
        return self.kernel.prepare(taken(images, self.positions))

    def cross(self, one: Prepared, two: Prepared) -> Tensor:
        """Return the covariance (n1, n2) of two prepared sets."""
        return self.kernel.cross(one, two)

    def diag(self, one: Prepared) -> Tensor:
        """Return the prior variance (n,) of each prepared sample."""
        return self.kernel.diag(one)

    def seen(self, _: ImageShape) -> ImageShape:
        """Return the shape of the columns of images of a shape."""
        return len(self.positions), 1, 1

    @property
    def positions(self) -> tuple[int, ...]:
        """Positions of the columns."""
        found: tuple[int, ...] = plain_columns(self.columns)
        return found


def split(prepared: Prepared) -> tuple[Prepared, ...]:
    """Return the branches of a prepared tree."""
    assert isinstance(prepared, tuple)
    return prepared


def require_kernels(kernel: Kernel, parts: tuple[object, ...]) -> None:
    """Raise unless there are parts, all of them kernels."""
    if not parts:
        raise ValueError(f"{kernel!r} needs at least one kernel.")
    for part in parts:
        if not isinstance(part, Kernel):
            raise ValueError(  # noqa: TRY004  (a wrong setting, not a wrong type)
                f"{kernel!r} must be made of kernels, got {part!r}."
            )
