"""Random features of kernels for vectors, and of sums and products of kernels.

A map is a frozen value: what was drawn are its fields. The formulas: docs/maths.rst,
"Random features".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from typing import Self

import torch
from torch import Generator, Tensor

from skconvgp._protocols import FeatureMap
from skconvgp._tensors import normals, random_ints
from skconvgp.kernels._base import Kernel
from skconvgp.kernels._columns import taken
from skconvgp.linalg import random_frames

__all__ = [
    "Concatenated",
    "ErfFeatures",
    "FourierFeatures",
    "LinearFeatures",
    "OfColumns",
    "Rescaled",
    "Scaled",
    "Sketch",
    "SketchedProduct",
    "normal_directions",
    "root_of",
]


def normal_directions(
    size: int, count: int, generator: Generator, *, orthogonal: bool
) -> Tensor:
    """Return standard normal columns (size, count).

    With `orthogonal`, columns are orthogonal to each other, as many at a time as can
    be; each column alone has the same distribution as without.

    References
    ----------
    Yu, Suresh, Choromanski, Holtmann-Rice and Kumar, "Orthogonal random features",
    2016.
    """
    normal = normals((size, count), generator)
    if not orthogonal or size == 1:
        return normal
    lengths = (normal * normal).sum(0).sqrt()
    return random_frames(size, count, generator) * lengths


def root_of(variance: float | Tensor, like: Tensor) -> Tensor:
    """Return the root of one variance, or of several, as a tensor of a kind."""
    if isinstance(variance, Tensor):
        return variance.sqrt().to(like)
    return like.new_tensor(math.sqrt(variance))


def _vectors(images: Tensor) -> Tensor:
    return images.reshape(len(images), -1)


@dataclass(frozen=True)
class FourierFeatures:
    """Cosines and sines of random frequencies, of a stationary kernel of variance 1.

    References
    ----------
    Rahimi and Recht, "Random features for large-scale kernel machines", 2007.
    Sutherland and Schneider, "On the error of random Fourier features", 2015
    (pairs have a smaller variance than cosines with random phases).
    """

    frequencies: Tensor  # (d, m), draws from the spectral density of the kernel

    @property
    def n_features(self) -> int:
        """Number of features of a sample: two for each frequency."""
        return 2 * self.frequencies.shape[1]

    @property
    def n_values(self) -> int:
        """Number of values that are held at once for each sample."""
        return 3 * self.n_features

    def __call__(self, images: Tensor) -> Tensor:
        """Return the features of images."""
        angles = _vectors(images) @ self.frequencies.to(images)
        return torch.cat([angles.cos(), angles.sin()], 1) / math.sqrt(angles.shape[1])


@dataclass(frozen=True)
class ErfFeatures:
    """Random hidden units with the error function as activation."""

    weights: Tensor  # (d, r)
    biases: Tensor  # (r,)

    @property
    def n_features(self) -> int:
        """Number of features of a sample: one for each unit."""
        return len(self.biases)

    @property
    def n_values(self) -> int:
        """Number of values that are held at once for each sample."""
        return 3 * self.n_features

    def __call__(self, images: Tensor) -> Tensor:
        """Return the features of images."""
        sums = _vectors(images) @ self.weights.to(images) + self.biases.to(images)
        return torch.erf(sums) / math.sqrt(self.n_features)


@dataclass(frozen=True)
class LinearFeatures:
    """The samples and a constant: the features of a linear kernel, without error."""

    size: int  # number d of values of a sample
    # Of the linear function, or of its parts that see a feature each, (d,).
    weight_variance: float | Tensor
    bias_variance: float

    @property
    def n_features(self) -> int:
        """Number of features of a sample."""
        return self.size + 1

    @property
    def n_values(self) -> int:
        """Number of values that are held at once for each sample."""
        return 2 * self.n_features

    def __call__(self, images: Tensor) -> Tensor:
        """Return the features of images."""
        vectors = _vectors(images)
        vectors = vectors * root_of(self.weight_variance, vectors)
        constant = vectors.new_full((len(vectors), 1), math.sqrt(self.bias_variance))
        return torch.cat([vectors, constant], 1)

    def mean_of_bits(self, probabilities: Tensor) -> Tensor:
        """Return the mean features (n, r) of bits that are 1 with probabilities."""
        return self(probabilities)


@dataclass(frozen=True)
class Concatenated:
    """Features of a sum of kernels: the features of all terms."""

    parts: tuple[FeatureMap, ...]

    @property
    def n_features(self) -> int:
        """Number of features of a sample."""
        return sum(part.n_features for part in self.parts)

    @property
    def n_values(self) -> int:
        """Number of values that are held at once for each sample."""
        return self.n_features + max(part.n_values for part in self.parts)

    def __call__(self, images: Tensor) -> Tensor:
        """Return the features of images."""
        return torch.cat([part(images) for part in self.parts], 1)


@dataclass(frozen=True)
class Scaled:
    """Features of a kernel that is multiplied by a number."""

    features: FeatureMap
    factor: float

    @property
    def n_features(self) -> int:
        """Number of features of a sample."""
        return self.features.n_features

    @property
    def n_values(self) -> int:
        """Number of values that are held at once for each sample."""
        return self.features.n_values

    def __call__(self, images: Tensor) -> Tensor:
        """Return the features of images."""
        return self.features(images) * math.sqrt(self.factor)


@dataclass(frozen=True)
class OfColumns:
    """Features of some columns of the samples."""

    features: FeatureMap
    columns: tuple[int, ...]

    @property
    def n_features(self) -> int:
        """Number of features of a sample."""
        return self.features.n_features

    @property
    def n_values(self) -> int:
        """Number of values that are held at once for each sample."""
        return self.features.n_values

    def __call__(self, images: Tensor) -> Tensor:
        """Return the features of images."""
        return self.features(taken(images, self.columns))


@dataclass(frozen=True)
class Sketch:
    """Sums of features with random signs, in as many random groups as are wanted."""

    features: FeatureMap
    groups: Tensor  # (r,), group of each feature
    signs: Tensor  # (r,), 1 or -1

    @classmethod
    def draw(cls, features: FeatureMap, size: int, generator: Generator) -> Self:
        """Return a sketch with so many groups."""
        count = (features.n_features,)
        groups = random_ints(size, count, generator)
        signs = 2.0 * random_ints(2, count, generator) - 1.0
        return cls(features, groups, signs.to(torch.float64))

    def spectrum(self, images: Tensor, size: int) -> Tensor:
        """Return the Fourier transform of the sums of images."""
        signed = self.features(images) * self.signs.to(images)
        sums = signed.new_zeros(len(signed), size)
        sums = sums.index_add(1, self.groups.to(images.device), signed)
        spectrum: Tensor = torch.fft.rfft(sums)
        return spectrum


@dataclass(frozen=True)
class SketchedProduct:
    """Features of a product of kernels: a sketch of all products of their features.

    References
    ----------
    Pham and Pagh, "Fast and scalable polynomial kernels via explicit feature maps",
    2013 (a convolution of sketches is a sketch of the products).
    """

    factors: tuple[Sketch, ...]
    size: int  # number of features

    @property
    def n_features(self) -> int:
        """Number of features of a sample."""
        return self.size

    @property
    def n_values(self) -> int:
        """Number of values that are held at once for each sample."""
        return 5 * self.size + max(one.features.n_values for one in self.factors)

    def __call__(self, images: Tensor) -> Tensor:
        """Return the features of images."""
        spectra = (factor.spectrum(images, self.size) for factor in self.factors)
        product: Tensor = torch.fft.irfft(reduce(torch.mul, spectra), n=self.size)
        return product


@dataclass(frozen=True)
class Rescaled:
    """Features whose squared length is the prior variance k(x, x)."""

    features: FeatureMap
    kernel: Kernel

    @property
    def n_features(self) -> int:
        """Number of features of a sample."""
        return self.features.n_features

    @property
    def n_values(self) -> int:
        """Number of values that are held at once for each sample."""
        return self.features.n_values

    def __call__(self, images: Tensor) -> Tensor:
        """Return the features of images."""
        features = self.features(images)
        squares = (features * features).sum(1)
        is_empty = squares <= 0.0  # nothing to scale
        variances = self.kernel.diag(self.kernel.prepare(images)).to(features)
        ratio = variances / torch.where(is_empty, 1.0, squares)
        return features * torch.where(is_empty, 0.0, ratio).sqrt()[:, None]
