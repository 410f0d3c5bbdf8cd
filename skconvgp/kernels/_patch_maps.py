"""Patches of images, and the maps that are applied to each patch first."""

from __future__ import annotations

import copy
from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from skconvgp._parts import Part
from skconvgp._resident import once
from skconvgp._tensors import int_range, reals
from skconvgp.kernels._capabilities import capability
from skconvgp.kernels._checks import require_variance
from skconvgp.linalg import standardized, symmetric_eigen

__all__ = [
    "PatchContrast",
    "PatchMap",
    "PatchWhitening",
    "cut_patches",
    "require_mirrored_map",
    "take_patches",
]

# Deviations of flat patches, as a share of their size, that rounding may cause.
ROUNDING = 8.0 * torch.finfo(torch.float64).eps


def cut_patches(images: Tensor, size: tuple[int, int], stride: int) -> Tensor:
    """Return all patches (n, h', w', c, ph, pw) of images (n, c, h, w)."""
    height, width = size
    cut = images.unfold(2, height, stride).unfold(3, width, stride)
    return cut.permute(0, 2, 3, 1, 4, 5)


def take_patches(cut: Tensor, spots: Tensor) -> Tensor:
    """Return patches (n, k, c, ph, pw) at indices (n, k) among those of each image.

    `cut` (n, ..., c, ph, pw) are the patches of each image, of any number of axes.
    """
    indices: list[Tensor] = []
    for length in reversed(cut.shape[1:-3]):
        indices.insert(0, spots % length)
        spots = spots // length
    return cut[(int_range(len(cut), cut.device)[:, None], *indices)]


class PatchMap(Part):
    """A map of a patch, of which `fit` learns the constants from training patches."""

    learned: ClassVar[tuple[str, ...]]

    def __repr__(self) -> str:
        """Show the settings; of learned constants, that there are some."""
        if not self.is_fitted:
            return super().__repr__()
        plain = copy.copy(self)
        vars(plain).update(dict.fromkeys(self.learned))
        return f"<fitted {plain!r}>"

    @property
    def is_fitted(self) -> bool:
        """Whether the constants are known."""
        return getattr(self, self.learned[0]) is not None

    @abstractmethod
    def check(self) -> None:
        """Raise a ValueError that says which setting cannot be used."""

    @abstractmethod
    def fit(self, patches: Tensor) -> Self:
        """Return a copy with constants learned from patches (m, c, ph, pw)."""

    @abstractmethod
    def apply(self, patches: Tensor) -> Tensor:
        """Return mapped patches (m, c, ph, pw); the constants must be known."""


@dataclass(repr=False, eq=False)
class PatchContrast(PatchMap):
    r"""Contrast normalisation of a patch.

    .. math:: x \mapsto \frac{x - \bar x}{\sqrt{s^2 + \epsilon\, v}}

    with the mean :math:`\bar x` and the variance :math:`s^2` of the values of a patch,
    and the mean variance :math:`v` of training patches.

    Parameters
    ----------
    eps : float, default=0.1
        Share of the mean variance that is added, so that noise in flat patches is not
        raised to full contrast.
    floor : float or None, default=None
        :math:`\epsilon\, v`. None until an estimator has set it in `fit`.

    References
    ----------
    Coates, Ng and Lee, "An analysis of single-layer networks in unsupervised feature
    learning", 2011, section 3.

    Examples
    --------
    >>> from skconvgp.kernels import PatchContrast, PatchKernel
    >>> PatchKernel(normalization=PatchContrast(eps=0.3))
    PatchKernel(normalization=PatchContrast(eps=0.3))
    """

    learned = ("floor",)
    flips: ClassVar[bool] = True  # the map of a flipped patch is the flipped map
    eps: float = 0.1
    floor: float | None = None

    def check(self) -> None:
        """Raise a ValueError if `eps` is not a finite number >= 0."""
        require_variance("eps", self.eps)

    def fit(self, patches: Tensor) -> Self:
        """Return a copy with the floor of these patches (m, c, ph, pw)."""
        return type(self)(self.eps, variance_floor(patches, self.eps))

    def apply(self, patches: Tensor) -> Tensor:
        """Return patches (m, c, ph, pw) of mean 0 and variance near 1."""
        assert self.floor is not None
        return normalize_contrast(patches, self.floor)


@dataclass(repr=False, eq=False)
class PatchWhitening(PatchMap):
    r"""Contrast normalisation of a patch, then a rotation-free whitening (ZCA).

    .. math:: x \mapsto V (\Lambda + \epsilon I)^{-1/2} V^\top (c(x) - m)

    with the contrast normalisation c, and the mean m and the covariance
    :math:`V \Lambda V^\top` of normalised training patches.

    Parameters
    ----------
    eps : float, default=0.1
        Added to the eigenvalues of the covariance, whose mean is near 1.
    contrast : float, default=0.1
        `eps` of :class:`PatchContrast`.
    flips : bool, default=False
        Whether the constants are learned from the training patches and from their
        left-right flips together. The map of a flipped patch is then the flipped map,
        as :class:`FlipAverage` needs it.
    mean : ndarray of shape (d,) or None, default=None
        Mean m. None until an estimator has set it in `fit`.
    matrix : ndarray of shape (d, d) or None, default=None
        Matrix of the map, :math:`V (\Lambda + \epsilon I)^{-1/2} V^\top`; see `mean`.
    floor : float or None, default=None
        Number that contrast normalisation adds to variances; see `mean`.

    References
    ----------
    Coates, Ng and Lee, "An analysis of single-layer networks in unsupervised feature
    learning", 2011, section 3.

    Examples
    --------
    >>> from skconvgp.kernels import PatchKernel, PatchWhitening
    >>> PatchKernel(normalization=PatchWhitening(eps=0.3))
    PatchKernel(normalization=PatchWhitening(eps=0.3))
    """

    learned = ("matrix", "mean", "floor")
    eps: float = 0.1
    _: KW_ONLY
    contrast: float = 0.1
    flips: bool = False
    mean: Any = None
    matrix: Any = None
    floor: float | None = None

    def check(self) -> None:
        """Raise a ValueError if a setting is not a finite number >= 0."""
        require_variance("eps", self.eps)
        require_variance("contrast", self.contrast)

    def fit(self, patches: Tensor) -> Self:
        """Return a copy with the constants of these patches (m, c, ph, pw)."""
        patches = patches.to(torch.float64)
        if self.flips:
            patches = torch.cat([patches, patches.flip(-1)])
        floor = variance_floor(patches, self.contrast)
        vectors = normalize_contrast(patches, floor).flatten(1)
        mean = vectors.mean(0)
        centred = vectors - mean
        values, rotation = symmetric_eigen(centred.mT @ centred / len(vectors))
        smallest = torch.finfo(values.dtype).eps * max(float(values[-1]), 1.0)
        scales = (values.clamp(min=0.0) + self.eps).clamp(min=smallest).rsqrt()
        return type(self)(
            self.eps,
            contrast=self.contrast,
            flips=self.flips,
            mean=np.array(mean.tolist()),
            matrix=np.array(((rotation * scales) @ rotation.mT).tolist()),
            floor=floor,
        )

    def apply(self, patches: Tensor) -> Tensor:
        """Return whitened patches (m, c, ph, pw)."""
        assert self.floor is not None
        vectors = normalize_contrast(patches, self.floor).flatten(1)
        key = vectors.device, vectors.dtype
        mean, matrix = once(self, key, lambda: self._constants(vectors))
        return ((vectors - mean) @ matrix).reshape(patches.shape)

    def _constants(self, like: Tensor) -> list[Tensor]:
        """Return the mean and the matrix with the device and precision of a tensor."""
        return [reals(np.asarray(one)).to(like) for one in (self.mean, self.matrix)]


def require_mirrored_map(kernel: object, patch_map: PatchMap) -> None:
    """Raise a ValueError unless flips of patches are mapped to flips."""
    flips = capability(patch_map, "flips")
    if flips is None:
        raise ValueError(
            f"whether flips change the patches that {patch_map!r} maps is not known."
        )
    if not flips:
        raise ValueError(
            f"{patch_map!r} of {kernel!r} is learned from patches, whose flips it "
            "treats in another way: take normalization=PatchWhitening(flips=True), "
            "'contrast', 'center' or None."
        )


def center(patches: Tensor) -> Tensor:
    """Return patches (m, c, ph, pw) of mean 0."""
    return patches - patches.mean((1, 2, 3), keepdim=True)


def normalize_contrast(patches: Tensor, floor: float) -> Tensor:
    """Return patches (m, c, ph, pw) of mean 0 and variance near 1."""
    return standardized(patches, floor, (1, 2, 3))


def variance_floor(patches: Tensor, eps: float) -> float:
    """Return a share of the mean variance of patches, > 0 also if all are flat.

    It is then that of rounding errors or, if all patches are black, the unit of pixels.
    """
    exact = patches.to(torch.float64)
    mean = float(center(exact).square().mean())
    rounding = ROUNDING**2 * float(exact.square().mean())
    return max(eps * mean, rounding) or 1.0
