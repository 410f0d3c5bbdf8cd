r"""Filters of a scattering transform, as Kymatio 0.3 defines them.

The formulas: docs/maths.rst, "Scattering".
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from skconvgp._tensors import int_range

__all__ = ["FilterBank", "blocks_of", "filter_bank", "padded_size"]

WIDTH = 0.8  # of the Gaussian window, in pixels at the finest scale
FREQUENCY = 3.0 * math.pi / 4.0  # of the finest wavelet, in radians a pixel
REPEATS = 2  # copies of the image on each side over which filters are summed
CACHED = 8  # banks


class FilterBank(NamedTuple):
    """Filters for images that are padded to m x n pixels."""

    # Fourier transforms (4^(j - i), n_angles, m', n', 2) of the wavelets of scale j,
    # for images at every 2^i-th pixel, by (i, j). They are real, given once for each
    # part of a complex number, and in blocks of frequencies that become one at every
    # 2^j-th pixel.
    waves: dict[tuple[int, int], Tensor]
    # Matrices (h / 2^J, m / 2^i) that average columns of images at every 2^i-th pixel,
    # and keep every 2^J-th.
    rows: tuple[Tensor, ...]
    # Matrices (w / 2^J, n / 2^i) that average rows likewise.
    columns: tuple[Tensor, ...]


def padded_size(size: int, n_scales: int) -> int:
    """Return the number of pixels along a side that is padded."""
    step: int = 2**n_scales
    return (size // step + 2) * step


@lru_cache(maxsize=CACHED)
def filter_bank(
    size: tuple[int, int],
    n_scales: int,
    n_angles: int,
    device: torch.device,
    dtype: torch.dtype,
) -> FilterBank:
    """Return the filters for images that are padded to a size (m, n).

    J and L are `n_scales` and `n_angles`. The filters are computed in double precision,
    and then have the device and the precision that are given.
    """
    waves = {}
    for scale in range(n_scales):
        spectra = torch.stack(
            [_wave(size, scale, angle, n_angles) for angle in range(n_angles)]
        )
        for level in range(max(1, scale)):
            folded = _cut(_cut(spectra, level, -2), level, -1)
            step = 2 ** (scale - level)
            blocks = blocks_of(folded / step**2, step)[..., None].expand(*[-1] * 4, 2)
            waves[level, scale] = blocks.to(device, dtype).contiguous()
    sides = (
        tuple(
            _average(length, level, n_scales).to(device, dtype)
            for level in range(n_scales)
        )
        for length in size
    )
    return FilterBank(waves, *sides)


def blocks_of(spectra: Tensor, step: int) -> Tensor:
    """Return spectra (..., m, n) as blocks (step^2, ..., m / step, n / step).

    At every `step`-th pixel, frequencies of all blocks become one.
    """
    *others, m, n = spectra.shape
    split = spectra.reshape(*others, step, m // step, step, n // step)
    return split.movedim((-4, -2), (0, 1)).flatten(0, 1)


def _wave(size: tuple[int, int], scale: int, angle: int, n_angles: int) -> Tensor:
    """Return the Fourier transform (m, n) of a Morlet wavelet, which is real."""
    theta = (int(n_angles / 2 - 1) - angle) * math.pi / n_angles
    slant = 4.0 / n_angles
    width, frequency = WIDTH * 2.0**scale, FREQUENCY / 2.0**scale
    cos, sin = math.cos(theta), math.sin(theta)
    rows, columns = (
        torch.arange(
            -REPEATS * length, (REPEATS + 1) * length, dtype=torch.float64, device="cpu"
        )
        for length in size
    )
    along = rows[:, None] * cos + columns * sin
    across = columns * cos - rows[:, None] * sin
    window = torch.exp(-(along**2 + (slant * across) ** 2) / (2.0 * width**2))
    copies = 2 * REPEATS + 1

    def periodic(values: Tensor) -> Tensor:
        split = values.reshape(copies, size[0], copies, size[1])
        return split.sum((0, 2)) * slant / (2.0 * math.pi * width**2)

    wave = periodic(torch.polar(window, frequency * along))
    envelope = periodic(window)
    spectra: Tensor = torch.fft.fft2(wave - wave.sum() / envelope.sum() * envelope)
    return spectra.real


def _average(length: int, level: int, n_scales: int) -> Tensor:
    """Return the map (k, length / 2^level) to averages at every 2^J-th pixel.

    The first and the last average lie in the padding, and are left out.
    """
    width = WIDTH * 2.0 ** (n_scales - 1)
    reach = torch.arange(
        -REPEATS * length, (REPEATS + 1) * length, dtype=torch.float64, device="cpu"
    )
    window = torch.exp(-(reach**2) / (2.0 * width**2)).reshape(-1, length).sum(0)
    spectrum = torch.fft.fft(window / math.sqrt(2.0 * math.pi * width**2)).real
    window = torch.fft.ifft(_cut(spectrum, level, -1)).real
    kept = int_range(length // 2**level)
    step = 2 ** (n_scales - level)
    shifts = kept[::step][:, None] - kept
    averages: Tensor = window[shifts % len(window)]
    return averages[1:-1]


def _cut(spectrum: Tensor, level: int, dim: int) -> Tensor:
    """Return a spectrum without frequencies that every 2^level-th pixel cannot hold."""
    length, factor = spectrum.shape[dim], 2**level
    if level == 0:
        return spectrum
    kept = length // factor
    first = length // (2 * factor)
    low = spectrum.narrow(dim, 0, first)
    high = spectrum.narrow(dim, first + length - kept, kept - first)
    return torch.cat([low, high], dim)
