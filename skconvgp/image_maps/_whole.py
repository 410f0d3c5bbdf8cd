"""Whole images: contrast, whitening of pixels, and a smaller size.

The formulas: docs/maths.rst, "Channels".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from skconvgp._threads import threads_for
from skconvgp.engine import held, pool_images, require_memory, to_numpy
from skconvgp.image_maps._blocks import ImageBlocks
from skconvgp.image_maps._pixels import PixelMap
from skconvgp.linalg import standardized, symmetric_eigen, without_rounding

__all__ = ["Contrast", "PixelZCA", "Pooling"]

SQUARES = 4  # matrices that an eigendecomposition holds, its results included


@dataclass(frozen=True)
class Contrast(PixelMap):
    """Subtracts the mean of each image, and divides by its deviation."""

    added: float  # the divisor is the square root of the variance plus this number

    @classmethod
    def fit(cls, blocks: ImageBlocks, eps: float) -> Self:
        """Return the map that adds `eps` times the mean variance of images."""
        total = sum(float(_flat(block).var(1, correction=0).sum()) for block in blocks)
        return cls(eps * total / len(blocks.images))

    def __call__(self, images: Tensor) -> Tensor:
        """Return images (n, c, h, w) of mean 0; constant ones become zeros."""
        return standardized(images, self.added, (1, 2, 3))


@dataclass(frozen=True)
class PixelZCA(PixelMap):
    """Whitens the pixels of images that are centred and scaled to length 1."""

    mean: Any  # (d,), of the scaled images
    vectors: Any  # (d, m), eigenvectors of their covariance
    gains: Any  # (m,), factors of the parts along the eigenvectors
    gain: float  # factor of the part across them

    @classmethod
    def fit(cls, blocks: ImageBlocks, eps: float) -> Self:
        """Return the map that adds `eps` mean eigenvalues to each eigenvalue.

        Raises a TileMemoryError, before any work, if there is no memory for matrices.
        """
        n, d = len(blocks.images), blocks.images[0].numel()
        _require_matrices(n, d, blocks.device)
        mean = torch.zeros(d, dtype=torch.float64, device=blocks.device)
        for block in blocks:
            mean += _unit(block).sum(0) / n
        of_either = _spectrum_by_pixels if d <= n else _spectrum_by_images
        values, vectors = of_either(blocks, mean)
        added = eps * float(values.sum()) / d
        # Directions without variance are not stretched if nothing is added.
        shifted = values + added
        gains = torch.where(shifted > 0.0, shifted, 1.0).rsqrt()
        gain = added**-0.5 if added > 0.0 else 1.0
        return cls(to_numpy(mean), to_numpy(vectors), to_numpy(gains), gain)

    def __call__(self, images: Tensor) -> Tensor:
        """Return whitened images (n, c, h, w)."""
        mean, vectors, gains = (
            held(values, images.device, images.dtype)
            for values in (self.mean, self.vectors, self.gains)
        )
        centred = _unit(images).to(images.dtype) - mean
        along = (centred @ vectors) * (gains - self.gain)
        return (self.gain * centred + along @ vectors.mT).reshape(images.shape)


@dataclass(frozen=True)
class Pooling(PixelMap):
    """Averages squares of pixels; those at the lower and right edge may be smaller."""

    factor: int  # side of the squares

    def __call__(self, images: Tensor) -> Tensor:
        """Return smaller images (n, c, h', w')."""
        return pool_images(images, self.factor)


def _require_matrices(n: int, d: int, device: torch.device) -> None:
    """Raise a TileMemoryError unless the matrices of a fit have memory."""
    side = min(n, d)
    needed = (SQUARES * side**2 + side * d) * torch.float64.itemsize
    what = f"The whitening of {d} values by {n} images"
    require_memory(needed, device, what, "use fewer images, or smaller ones.")


def _spectrum_by_pixels(blocks: ImageBlocks, mean: Tensor) -> tuple[Tensor, Tensor]:
    """Return eigenvalues (d,) and eigenvectors (d, d) of the covariance of pixels."""
    moment = torch.zeros(len(mean), len(mean), dtype=mean.dtype, device=mean.device)
    for block in blocks:
        centred = _unit(block) - mean
        with threads_for(len(moment) * centred.numel()):
            moment.addmm_(centred.mT, centred, alpha=1.0 / len(blocks.images))
    values, vectors = symmetric_eigen(moment)
    return without_rounding(values), vectors


def _spectrum_by_images(blocks: ImageBlocks, mean: Tensor) -> tuple[Tensor, Tensor]:
    """Return eigenvalues (m,) > 0 and eigenvectors (d, m) by products of images."""
    n = len(blocks.images)
    gram = torch.zeros(n, n, dtype=mean.dtype, device=mean.device)
    for i, rows in enumerate(blocks.parts):
        centred = _unit(blocks[rows]) - mean
        for columns in blocks.parts[: i + 1]:
            products = centred @ (_unit(blocks[columns]) - mean).mT / n
            gram[rows, columns], gram[columns, rows] = products, products.mT
    values, of_images = symmetric_eigen(gram)
    values = without_rounding(values)
    kept = values > 0.0
    values, of_images = values[kept], of_images[:, kept]
    of_images /= (n * values).sqrt()
    vectors = torch.zeros(len(mean), len(values), dtype=mean.dtype, device=mean.device)
    for rows in blocks.parts:
        vectors.addmm_((_unit(blocks[rows]) - mean).mT, of_images[rows])
    return values, vectors


def _flat(images: Tensor) -> Tensor:
    return images.to(torch.float64).flatten(1)


def _unit(images: Tensor) -> Tensor:
    """Return images as rows (n, d) of mean 0 and length 1, in double precision."""
    rows = _flat(images)
    rows = rows - rows.mean(1, keepdim=True)
    # Derivatives of the length at 0 are not finite.
    squares = rows.square().sum(1, keepdim=True)
    return rows / torch.where(squares > 0.0, squares, 1.0).sqrt()
