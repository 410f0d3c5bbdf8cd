"""Feature maps of kernels: from a kernel to random features.

A kernel with the method ``feature_map(image_shape, n_features, generator, *,
orthogonal)`` draws its features itself. Networks are drawn as finite networks, and
sums, products and multiples follow from their parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Generator

from skconvgp._protocols import FeatureMap
from skconvgp._typing import ImageShape
from skconvgp.kernels._base import Kernel, OnColumns, Product, Scale, Sum
from skconvgp.kernels._checks import plain_value
from skconvgp.kernels._map_layer import MapLayer
from skconvgp.kernels._network_features import (
    NetworkFeatures,
    NetworkSettings,
    network_features,
)
from skconvgp.kernels._optical import OpticalFeatures
from skconvgp.kernels._spectral import (
    Concatenated,
    ErfFeatures,
    FourierFeatures,
    LinearFeatures,
    OfColumns,
    Rescaled,
    Scaled,
    Sketch,
    SketchedProduct,
)

__all__ = [
    "FEATURE_MAPS",
    "HasFeatures",
    "KernelSource",
    "drawn_values",
    "feature_map",
    "shared_values",
]

# Classes that maps of the kernels of this package consist of.
FEATURE_MAPS: tuple[type, ...] = (
    Concatenated,
    ErfFeatures,
    FourierFeatures,
    LinearFeatures,
    NetworkFeatures,
    OfColumns,
    OpticalFeatures,
    Rescaled,
    Scaled,
    Sketch,
    SketchedProduct,
)

LEAST_FEATURES = 2
# Of random numbers for each feature and pixel: frames, and products to make them.
DRAWN_COPIES = 4
KNOWN = (
    "rbf, matern, arcsine, dot_product, polynomial, optical, networks of layers with a "
    "finite twin, and sums, products, multiples and columns of these have some"
)


@runtime_checkable
class HasFeatures(Protocol):
    """A kernel that draws its random features itself."""

    def feature_map(
        self,
        image_shape: ImageShape,
        n_features: int,
        generator: Generator,
        *,
        orthogonal: bool,
    ) -> FeatureMap:
        """Return a map of images (n, c, h, w) to about so many features."""
        ...


def feature_map(
    kernel: Kernel,
    image_shape: ImageShape,
    n_features: int,
    generator: Generator,
    *,
    readout: str = "auto",
    width: int = 64,
    n_networks: int = 1,
    orthogonal: bool = True,
    exact_diag: bool = True,
) -> FeatureMap:
    """Return about `n_features` random features of a kernel.

    The settings of the kernel are all numbers, and the image shape is of the images as
    the kernel sees them. The generator is one on the host. `readout`, `width` and
    `n_networks` are as in `NetworkSettings`. With `orthogonal`, frequencies of vector
    kernels are orthogonal. With `exact_diag`, the squared length of the features is the
    prior variance k(x, x). Raises a `TypeError` for a kernel without random features,
    and a `ValueError` if there would be fewer than two features.
    """
    if n_features < LEAST_FEATURES:
        raise ValueError(
            f"{kernel!r} needs at least {LEAST_FEATURES} random features, got "
            f"{n_features}: raise `n_features`."
        )
    kernel.check(image_shape)
    settings = NetworkSettings(readout, width, n_networks)
    drawn = _draw(kernel, image_shape, n_features, generator, settings, orthogonal)
    return Rescaled(drawn, kernel) if exact_diag else drawn


def shared_values(features: FeatureMap) -> int:
    """Return the number of values that a map holds whatever the number of samples.

    Networks draw their weights anew in each call; other maps have theirs.
    """
    match features:
        case NetworkFeatures():
            return features.n_shared
        case Concatenated():
            return max(map(shared_values, features.parts))
        case SketchedProduct():
            return max(shared_values(one.features) for one in features.factors)
        case OfColumns() | Rescaled() | Scaled():
            return shared_values(features.features)
    return 0


def drawn_values(kernel: Kernel, image_shape: ImageShape, n_features: int) -> int:
    """Return how many numbers are held at most while features are drawn.

    Networks, whose weights are drawn in each call, are left out.
    """
    match kernel:
        case HasFeatures():
            return DRAWN_COPIES * math.prod(image_shape) * n_features
        case Sum():
            share = -(-n_features // len(kernel.parts))
            parts = (drawn_values(one, image_shape, share) for one in kernel.parts)
            return sum(parts)
        case Product():
            parts = (drawn_values(one, image_shape, n_features) for one in kernel.parts)
            return sum(parts) + DRAWN_COPIES * len(kernel.parts) * n_features
        case Scale():
            return drawn_values(kernel.kernel, image_shape, n_features)
        case OnColumns():
            return drawn_values(kernel.kernel, kernel.seen(image_shape), n_features)
    return n_features


@dataclass(frozen=True)
class KernelSource:
    """A kernel of which features are drawn, and the shape of its images."""

    kernel: Kernel  # with numbers for all settings
    image_shape: ImageShape  # of the images as the kernel sees them
    # Called with the kernel, the shape and the number of features before these are
    # drawn; raises an error if they are too many.
    require_room: Callable[[Kernel, ImageShape, int], None]

    def feature_map(
        self,
        n_features: int,
        generator: Generator,
        *,
        readout: str = "auto",
        width: int = 64,
        n_networks: int = 1,
        orthogonal: bool = True,
        exact_diag: bool = True,
    ) -> FeatureMap:
        """Return random features of the kernel, as the function `feature_map` does."""
        self.require_room(self.kernel, self.image_shape, n_features)
        return feature_map(
            self.kernel,
            self.image_shape,
            n_features,
            generator,
            readout=readout,
            width=width,
            n_networks=n_networks,
            orthogonal=orthogonal,
            exact_diag=exact_diag,
        )


def _draw(
    kernel: Kernel,
    image_shape: ImageShape,
    n_features: int,
    generator: Generator,
    settings: NetworkSettings,
    orthogonal: bool,
) -> FeatureMap:
    def draw(part: Kernel, count: int, shape: ImageShape = image_shape) -> FeatureMap:
        return _draw(part, shape, count, generator, settings, orthogonal)

    match kernel:
        case HasFeatures():
            return kernel.feature_map(
                image_shape, n_features, generator, orthogonal=orthogonal
            )
        case Sum():
            share = max(LEAST_FEATURES, math.ceil(n_features / len(kernel.parts)))
            return Concatenated(tuple(draw(term, share) for term in kernel.parts))
        case Product():
            sketches = [
                Sketch.draw(draw(factor, n_features), n_features, generator)
                for factor in kernel.parts
            ]
            return SketchedProduct(tuple(sketches), n_features)
        case Scale():
            return Scaled(draw(kernel.kernel, n_features), plain_value(kernel.factor))
        case OnColumns():
            inner = draw(kernel.kernel, n_features, kernel.seen(image_shape))
            return OfColumns(inner, kernel.positions)
        case MapLayer():
            try:
                return network_features(
                    kernel, image_shape, n_features, generator, settings
                )
            except TypeError as error:
                raise TypeError(
                    f"{kernel!r} has no random features: {error} But {KNOWN}."
                ) from error
    raise TypeError(f"{kernel!r} has no random features: {KNOWN}.")
