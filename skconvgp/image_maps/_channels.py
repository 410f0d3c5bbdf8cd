"""Channels of images: their scale, and whitening.

The formulas: docs/maths.rst, "Channels".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from skconvgp.engine import held, to_numpy
from skconvgp.image_maps._blocks import ImageBlocks
from skconvgp.image_maps._pixels import PixelMap
from skconvgp.linalg import own_products, symmetric_eigen, without_rounding

__all__ = ["ChannelComponents", "ChannelScaling", "ChannelZCA"]

FAINT = 1e-6  # share of the largest variance, below the steps of 8 bits
# Variances as a share of squared means, that rounding of single numbers may cause.
ROUNDING = 1e-14


@dataclass(frozen=True)
class ChannelScaling(PixelMap):
    """Divides each channel by a scale."""

    scale: Any  # (c,), > 0

    @classmethod
    def fit(cls, blocks: ImageBlocks, faint: float = 0.0) -> Self:
        """Return the map by the root mean squares of images.

        A channel of zeros keeps its values. A channel below a share `faint` of the
        largest one is rounding errors, and becomes zeros.
        """
        images = blocks.images
        c = images.shape[1]
        total = torch.zeros(c, dtype=torch.float64, device=blocks.device)
        for block in blocks:
            total += block.square().sum((0, 2, 3))
        scale = (total * c / images.numel()).sqrt()
        scale[scale < faint * scale.max()] = torch.inf
        return cls(to_numpy(torch.where(scale > 0.0, scale, 1.0)))

    def __call__(self, images: Tensor) -> Tensor:
        """Return scaled images (n, c, h, w)."""
        return images / self._scale(images)

    def inverse(self, images: Tensor) -> Tensor:
        """Return the images (n, c, h, w) that were scaled."""
        return images * self._scale(images)

    def _scale(self, images: Tensor) -> Tensor:
        return held(self.scale, images.device, images.dtype)[:, None, None]


@dataclass(frozen=True)
class ChannelZCA(PixelMap):
    r"""Logarithms of scaled channels, centred and weakly whitened.

    Channels are divided by their root mean square,
    :math:`\operatorname{sign}(x) \log(1 + |x| / \delta)` is taken, which is
    :math:`\log(x + \delta)` up to a constant for coefficients that are not negative,
    and the centred result is multiplied by
    :math:`U (\Lambda + \epsilon \bar\lambda I)^{-1/2} U^\top` for the covariance
    :math:`U \Lambda U^\top` of channels over all positions, whose mean eigenvalue is
    :math:`\bar\lambda`.
    """

    scaling: ChannelScaling
    offset: float | None  # delta; None takes no logarithms
    mean: Any  # (c,), of the channels
    whitening: Any  # (c, c)
    colouring: Any  # (c, c), inverse of the whitening

    @classmethod
    def fit(
        cls,
        blocks: ImageBlocks,
        offset: float | None,
        eps: float,
        faint: float = 0.0,
    ) -> ChannelZCA:
        """Return the map by the covariance of the channels of images.

        The scales are as of `ChannelScaling`.
        """
        return ChannelSpectrum.fit(blocks, offset, faint).whitening(eps)

    def __call__(self, images: Tensor) -> Tensor:
        """Return whitened images (n, c, h, w)."""
        values = _logarithms(self.scaling(images), self.offset)
        return _mix(self.whitening, values - self._mean(values))

    def for_prediction(self) -> Self:
        """Return the map in single precision."""
        return replace(self, whitening=self.whitening.astype(np.float32))

    def inverse(self, images: Tensor) -> Tensor:
        """Return the images (n, c, h, w) that were whitened."""
        values = _mix(self.colouring, images) + self._mean(images)
        if self.offset is not None:
            values = values.sign() * self.offset * torch.expm1(values.abs())
        return self.scaling.inverse(values)

    def _mean(self, images: Tensor) -> Tensor:
        return held(self.mean, images.device, images.dtype)[:, None, None]


@dataclass(frozen=True)
class ChannelSpectrum:
    """Mean of scaled channels and the eigenvalues of their covariance."""

    scaling: ChannelScaling
    offset: float | None  # as in `ChannelZCA`
    mean: Tensor  # (c,)
    values: Tensor  # (c,), in ascending order
    vectors: Tensor  # (c, c), a column for each

    @classmethod
    def fit(cls, blocks: ImageBlocks, offset: float | None, faint: float = 0.0) -> Self:
        """Return the spectrum of the channels of images."""
        scaling = ChannelScaling.fit(blocks, faint)
        mean, moment = _moments(
            blocks, lambda exact: _logarithms(scaling(exact), offset)
        )
        return cls(scaling, offset, mean, *symmetric_eigen(moment))

    def whitening(self, eps: float) -> ChannelZCA:
        """Return the map that whitens, with a share of the mean variance added."""
        root = self._root(eps)
        whitening = (self.vectors / root) @ self.vectors.mT
        return self._map(whitening, (self.vectors * root) @ self.vectors.mT)

    def components(self, eps: float, share: float) -> ChannelZCA:
        """Return the map to the components that keep a share of the variance.

        They are those of whitened channels, whose variances are l / (l + m) for
        eigenvalues l of the covariance and the added number m. There is no inverse.
        """
        added = eps * self.values.mean()
        variances = (1.0 - added / self._root(eps).square()).clamp(min=0.0).flip(0)
        explained = variances.cumsum(0) / variances.sum()
        n_kept = int((explained < share).sum()) + 1
        kept = (self.vectors / self._root(eps)).flip(1)[:, :n_kept]
        return self._map(kept.mT.contiguous(), self.vectors[:0])

    def _root(self, eps: float) -> Tensor:
        """Return deviations (c,) of channels to which noise is added."""
        shifted = without_rounding(self.values) + eps * self.values.mean()
        # Directions without variance are not stretched if nothing is added.
        return torch.where(shifted > 0.0, shifted, 1.0).sqrt()

    def _map(self, whitening: Tensor, colouring: Tensor) -> ChannelZCA:
        tables = map(to_numpy, (self.mean, whitening, colouring))
        return ChannelZCA(self.scaling, self.offset, *tables)


@dataclass(frozen=True)
class ChannelComponents(PixelMap):
    """Principal components of the channels of a pixel, of variance 1."""

    mean: Any = field(repr=False)  # (c,), of the channels
    # (k, c), as rows, without those of almost no variance.
    components: Any = field(repr=False)

    @classmethod
    def fit(cls, blocks: ImageBlocks) -> Self:
        """Return the map by the covariance of the channels of images."""
        mean, moment = _moments(blocks, lambda exact: exact)
        values, vectors = symmetric_eigen(moment)  # the largest variance is the last
        n_kept = max(1, int((values > FAINT * values[-1]).sum()))
        scale = torch.where(values > 0.0, values, 1.0).sqrt()
        components = (vectors / scale).mT[-n_kept:].contiguous()
        return cls(to_numpy(mean), to_numpy(components))

    def __call__(self, images: Tensor) -> Tensor:
        """Return the components (n, k, h, w) of images (n, c, h, w)."""
        mean = held(self.mean, images.device, images.dtype)[:, None, None]
        return _mix(self.components, images - mean)


def _moments(
    blocks: ImageBlocks, change: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    """Return mean (c,) and covariance (c, c) of the changed channels of images.

    Channels that differ by rounding errors alone have no variance.
    """
    c = blocks.images.shape[1]
    count = blocks.images.numel() // c
    total = torch.zeros(c, dtype=torch.float64, device=blocks.device)
    moment = torch.zeros(c, c, dtype=torch.float64, device=blocks.device)
    for block in blocks:
        values = change(block).movedim(1, 0).flatten(1)
        total += values.sum(1)
        moment += own_products(values)
    mean = total / count
    moment = moment / count - torch.outer(mean, mean)
    is_flat = moment.diagonal() <= ROUNDING * mean.square()
    moment[is_flat] = moment[:, is_flat] = 0.0
    return mean, moment


def _logarithms(values: Tensor, offset: float | None) -> Tensor:
    if offset is None:
        return values
    if not values.requires_grad:
        return values.abs().div_(offset).log1p_().copysign_(values)
    # Not signs of torch, the derivatives of which are 0 at 0.
    signs = torch.where(values < 0.0, -1.0, 1.0).to(values)
    return signs * torch.log1p(signs * values / offset)


def _mix(matrix: Any, images: Tensor) -> Tensor:
    """Return images (n, k, h, w) with a matrix (k, c) applied to their channels."""
    factor = held(matrix, images.device, images.dtype)
    mixed = factor @ images.flatten(2)
    return mixed.reshape(len(images), -1, *images.shape[2:])
