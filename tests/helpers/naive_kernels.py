"""Covariance maps by literal loops and textbook formulas, in numpy only.

Maps have shape (h, w, n, n): all pairs of n images at each position. Nothing here
uses the package; the golden values are made with it, and tests compare with it.
"""

import math
from collections.abc import Callable

import numpy as np

Maps = np.ndarray


def input_maps(images: np.ndarray) -> Maps:
    """Return the mean over channels of products, for images (n, c, h, w)."""
    n, n_channels, height, width = images.shape
    maps = np.zeros((height, width, n, n))
    for row in range(height):
        for col in range(width):
            pixels = images[:, :, row, col]
            maps[row, col] = pixels @ pixels.T / n_channels
    return maps


def starts_and_offsets(
    size: int, window: int, stride: int, padding: str | int, dilation: int
) -> tuple[list[int], list[int]]:
    """Return the positions that are kept and the offsets of their windows."""
    if padding in ("same", "circular"):
        # odd: -(k // 2) .. k // 2; even: -k / 2 + 1 .. k / 2
        first = -(window // 2) if window % 2 else -window // 2 + 1
        offsets = [dilation * (first + i) for i in range(window)]
        return list(range(0, size, stride)), offsets
    border = 0 if padding == "valid" else padding
    offsets = [dilation * i for i in range(window)]
    last = size - 1 + border - offsets[-1]
    return list(range(-border, last + 1, stride)), offsets


def convolve(
    maps: Maps,
    window: tuple[int, int],
    *,
    weight: float,
    bias: float,
    stride: int = 1,
    padding: str | int = "same",
    dilation: int = 1,
) -> Maps:
    """Sum the window around each position that is kept; zero outside the image."""
    height, width, *rest = maps.shape
    rows, row_offsets = starts_and_offsets(height, window[0], stride, padding, dilation)
    cols, col_offsets = starts_and_offsets(width, window[1], stride, padding, dilation)
    out = np.full((len(rows), len(cols), *rest), bias, dtype=float)
    for i, row in enumerate(rows):
        for j, col in enumerate(cols):
            for row_offset in row_offsets:
                for col_offset in col_offsets:
                    y, x = row + row_offset, col + col_offset
                    if padding == "circular":
                        y, x = y % height, x % width
                    if 0 <= y < height and 0 <= x < width:
                        out[i, j] += weight / (window[0] * window[1]) * maps[y, x]
    return out


def dense(maps: Maps, *, weight: float, bias: float) -> Maps:
    """Return bias + weight * c."""
    return bias + weight * maps


def flatten(maps: Maps) -> Maps:
    """Return the mean over positions, as a map of size 1x1."""
    return maps.reshape(-1, *maps.shape[2:]).mean(0)[None, None]


def activate(
    maps: Maps, dual: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
) -> Maps:
    """Apply an expectation V(c, a, b); a and b are the diagonals of the maps."""
    var = np.diagonal(maps, axis1=-2, axis2=-1)
    a, b = np.broadcast_arrays(var[..., :, None], var[..., None, :])
    return dual(maps, a, b)


def leaky_relu(
    c: np.ndarray, a: np.ndarray, b: np.ndarray, slope: float = 0.0
) -> np.ndarray:
    """Return V of max(x, 0) + slope * min(x, 0)."""
    norm = np.sqrt(a) * np.sqrt(b)
    cosine = np.clip(np.divide(c, norm, out=np.zeros_like(c), where=norm > 0), -1, 1)
    angle = np.arccos(cosine)
    half = (1 - slope) ** 2 * (np.sin(angle) - angle * cosine)
    return norm * (half + math.pi * (1 + slope**2) * cosine) / (2 * math.pi)


def erf(c: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return V of the error function."""
    return np.arcsin(2 * c / np.sqrt((1 + 2 * a) * (1 + 2 * b))) * (2 / math.pi)


def gelu(c: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return V of x Phi(x)."""
    delta = np.sqrt((1 + a) * (1 + b) - c * c)
    fraction = (c * c + a * b * delta**2) / ((1 + a) * (1 + b) * delta)
    return c / 4 + (c * np.arctan(c / delta) + fraction) / (2 * math.pi)


def sin(c: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return V of the sine."""
    return np.exp(-(a + b) / 2) * np.sinh(c)


def wave_images(n: int, height: int, width: int, n_channels: int) -> np.ndarray:
    """Return x_i[c, h, w] = sin(0.7 i + 0.3 h + 0.5 w + 0.2 c), shape (n, c, h, w)."""
    i, c, h, w = np.ogrid[:n, :n_channels, :height, :width]
    return np.sin(0.7 * i + 0.3 * h + 0.5 * w + 0.2 * c)
