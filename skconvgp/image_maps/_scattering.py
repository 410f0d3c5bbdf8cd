"""Scattering: averages of moduli of wavelet transforms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

import torch
from torch import Tensor

from skconvgp._tensors import int_range
from skconvgp._threads import on_threads
from skconvgp._typing import ImageShape
from skconvgp.backends._scattering import ScatteringTables, can_scatter
from skconvgp.engine import slices
from skconvgp.image_maps._filters import (
    FilterBank,
    blocks_of,
    filter_bank,
    padded_size,
)

__all__ = ["Scattering", "compiled_tables"]

# Numbers that a processor holds at once: their spectra stay in its caches. A GPU is
# busy with more.
HELD_AT_ONCE, HELD_ON_GPU = 2**21, 2**27
# Images of one channel that a thread gives to the extension: several vectors of them.
COMPILED_AT_ONCE = 64
CACHED = 8  # tables of the extension
# Of the pixels: filters in blocks at all levels and the spectra they are cut from; a
# filter in the making, which is complex and repeats the image along both sides.
FILTER_COPIES, MAKING_COPIES = 4, 200


@dataclass(frozen=True)
class Scattering:
    """Scattering coefficients of images, each channel alone."""

    n_scales: int  # J: coefficients stand at every 2^J-th pixel
    n_angles: int  # L
    order: int  # 1 or 2: the largest number of wavelet transforms in a row

    @property
    def n_coefficients(self) -> int:
        """Number of coefficients of a channel."""
        scales, angles = self.n_scales, self.n_angles
        second = angles**2 * scales * (scales - 1) // 2 if self.order == 2 else 0
        return 1 + scales * angles + second

    def shape(self, image_shape: ImageShape) -> ImageShape:
        """Return the shape of the coefficients of an image."""
        channels, height, width = image_shape
        step = 2**self.n_scales
        return channels * self.n_coefficients, height // step, width // step

    def n_values(self, image_shape: ImageShape) -> int:
        """Return how many numbers are held at once for an image: spectra."""
        channels, *sizes = image_shape
        padded = math.prod(padded_size(size, self.n_scales) for size in sizes)
        return 2 * channels * self.n_angles * padded

    def n_filter_values(self, image_shape: ImageShape) -> int:
        """Return about how many numbers filters are, and how many make one of them."""
        padded = (padded_size(size, self.n_scales) for size in image_shape[1:])
        return math.prod(padded) * (
            FILTER_COPIES * self.n_scales * self.n_angles + MAKING_COPIES
        )

    def __call__(self, images: Tensor) -> Tensor:
        """Return coefficients (n, c', h', w') of images (n, c, h, w).

        They are proportional to an image, which is scaled by a power of 2 to values
        below 1: squares of others may overflow or vanish.
        """
        size = images.detach().abs().amax((1, 2, 3), keepdim=True)
        limits = torch.finfo(images.dtype)  # a unit and its inverse are numbers
        size = size.clamp(min=limits.tiny, max=limits.max / 4.0)
        mantissa, _ = torch.frexp(size)
        unit = size / mantissa
        height, width = images.shape[2:]
        padded = padded_size(height, self.n_scales), padded_size(width, self.n_scales)
        if can_scatter(images, padded):
            return self._compiled(images, unit)
        return self._by_torch(images / unit) * unit

    def _compiled(self, images: Tensor, units: Tensor) -> Tensor:
        """Return what `__call__` does, by the compiled extension."""
        n, channels, height, width = images.shape
        tables = compiled_tables((height, width), self)
        given, of_each = (
            images.flatten(0, 1),
            units.flatten().repeat_interleave(channels),
        )
        shape = self.shape((1, height, width))
        out = torch.empty((len(given), *shape), dtype=torch.float32, device="cpu")

        def write(part: slice) -> None:
            tables.write(given[part], of_each[part], out[part])

        on_threads(write, slices(len(given), COMPILED_AT_ONCE))
        return out.reshape(n, -1, *shape[1:])

    def _by_torch(self, images: Tensor) -> Tensor:
        """Return coefficients (n, c', h', w') of images (n, c, h, w) below 1."""
        shape, is_cpu = cast(ImageShape, tuple(images.shape[1:])), images.is_cpu
        at_once = HELD_AT_ONCE if is_cpu else HELD_ON_GPU
        parts = torch.split(images, max(1, at_once // self.n_values(shape)))
        if not is_cpu:
            return torch.cat([self._scattered(part) for part in parts])
        return torch.cat(on_threads(self._scattered, parts))

    def _scattered(self, images: Tensor) -> Tensor:
        """Return coefficients (n, c', h', w') of images (n, c, h, w), all at once."""
        n, _, height, width = images.shape
        sizes = padded_size(height, self.n_scales), padded_size(width, self.n_scales)
        bank = filter_bank(
            sizes, self.n_scales, self.n_angles, images.device, images.dtype
        )
        padded = images.flatten(0, 1)
        for dim, (length, size) in enumerate(zip(images.shape[2:], sizes, strict=True)):
            positions = _reflected_on(length, size, images.device)
            padded = padded.index_select(1 + dim, positions)
        found = torch.cat(self._coefficients(padded, bank), 1)
        return found.reshape(n, -1, *found.shape[-2:])

    def _coefficients(self, padded: Tensor, bank: FilterBank) -> list[Tensor]:
        """Return the coefficients (b, k, h', w') of each order of padded (b, m, n)."""

        def averages(moduli: Tensor, level: int) -> Tensor:
            return bank.rows[level] @ moduli @ bank.columns[level].mT

        spectra = torch.fft.fft2(padded)
        first, second = [averages(padded, 0)[:, None]], []
        for scale in range(self.n_scales):
            moduli = _moduli(spectra, bank.waves[0, scale], 2**scale)
            first.append(averages(moduli, scale))
            coarser = range(scale + 1, self.n_scales if self.order == 2 else 0)
            for of_moduli in torch.fft.fft2(moduli).unbind(1) if coarser else ():
                for j in coarser:
                    wave, step = bank.waves[scale, j], 2 ** (j - scale)
                    second.append(averages(_moduli(of_moduli, wave, step), j))
        return first + second


def _moduli(spectra: Tensor, waves: Tensor, step: int) -> Tensor:
    """Return moduli (b, l, m / step, n / step) of images filtered by l wavelets.

    `spectra` (b, m, n) are Fourier transforms of the images. `waves`, of shape (step^2,
    l, m / step, n / step, 2), are those of the wavelets in blocks of frequencies,
    divided by their number, for real and imaginary parts. The moduli are those of every
    `step`-th pixel, where frequencies of all blocks add up.
    """
    blocks = torch.view_as_real(blocks_of(spectra, step))[:, :, None]
    filtered = blocks[0] * waves[0]
    for block, of_wave in zip(blocks[1:], waves[1:], strict=True):
        filtered.addcmul_(block, of_wave)
    return _modulus(torch.fft.ifft2(torch.view_as_complex(filtered)))


def _modulus(values: Tensor) -> Tensor:
    """Return the modulus of complex numbers, which may be overwritten.

    With derivatives only if they are asked for: that of `abs` is 0 at 0; it takes three
    times as long.
    """
    if values.requires_grad:
        return values.abs()
    squares = torch.view_as_real(values).square_()
    return (squares[..., 0] + squares[..., 1]).sqrt_()


def reflected(length: int, size: int) -> Tensor:
    """Return which pixel each is of a side that is padded by reflection."""
    positions = int_range(size) - (size - length) // 2
    period = max(1, 2 * (length - 1))
    positions = positions % period
    return torch.minimum(positions, period - positions)


@lru_cache(maxsize=CACHED)
def _reflected_on(length: int, size: int, device: torch.device) -> Tensor:
    return reflected(length, size).to(device)


@lru_cache(maxsize=CACHED)
def compiled_tables(size: tuple[int, int], scattering: Scattering) -> ScatteringTables:
    """Return what the extension needs to scatter images (h, w) of a size."""
    n_scales = scattering.n_scales
    height, width = (padded_size(length, n_scales) for length in size)
    double, cpu = torch.float64, torch.device("cpu")
    bank = filter_bank((height, width), n_scales, scattering.n_angles, cpu, double)
    scales = [(i, j) for j in range(n_scales) for i in range(max(1, j))]
    return ScatteringTables(
        size,
        reflected(size[0], height),
        reflected(size[1], width),
        bank.rows,
        bank.columns,
        [bank.waves[pair][..., 0] for pair in scales],
        scattering.order,
    )
