"""Networks with pools by the covariances of all positions of all images at once.

It needs (n h w)^2 numbers and a loop over the elements of windows; nothing in it knows
of displacements.
"""

import itertools
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from skconvgp.kernels import (
    AvgPool2d,
    Conv2d,
    Dense,
    Erf,
    Flatten,
    GlobalAvgPool2d,
    LeakyReLU,
    MaxNormalization,
    ReLU,
    Residual,
    Scale,
    Sequential,
    Sum,
)

Array = np.ndarray


def all_pairs_gram(network: Sequential, images: Tensor) -> Array:
    """Return the covariances (n, n) of images (n, c, h, w)."""
    pixels = images.numpy()
    n, c, h, w = pixels.shape
    flat = pixels.transpose(0, 2, 3, 1).reshape(n * h * w, c)
    gram, (h, w) = _through(network, flat @ flat.T / c, n, (h, w))
    assert (h, w) == (1, 1)
    return gram


@dataclass
class Twins:
    """Multiplies covariances between the first and the second half of the images."""

    factor: float


def tangent_gram(network: Sequential, images: Tensor) -> Array:
    """Return the neural tangent kernel (n, n) of images (n, c, h, w), off its diagonal.

    It is the derivative of the covariances of two networks by the correlation of their
    weights and biases, at equal networks, by Price's theorem.
    """
    n, step, ends = len(images), 1e-5, []
    for correlation in (1.0 + step, 1.0 - step):
        twins = _twinned(network, correlation)
        ends.append(all_pairs_gram(twins, torch.cat([images, images]))[:n, n:])
    return (ends[0] - ends[1]) / (2.0 * step)


def _twinned(layer, factor: float):
    """Return a network, two copies of which have correlated weights."""
    match layer:
        case Sequential() | Residual():
            return type(layer)(*(_twinned(one, factor) for one in layer.layers))
        case Sum():
            return Sum(*(_twinned(term, factor) for term in layer.parts))
        case Scale() | MaxNormalization():
            return layer.replace(kernel=_twinned(layer.kernel, factor))
        case Dense() | Conv2d():
            return Sequential(layer, Twins(factor))
    return layer


def _through(layer, gram: Array, n: int, shape: tuple[int, int]):
    """Pass covariances (n h w, n h w) through a layer, and the size of its maps."""
    match layer:
        case Sequential():
            for inner in layer.layers:
                gram, shape = _through(inner, gram, n, shape)
            return gram, shape
        case Residual():
            branch, shape = _through(Sequential(*layer.layers), gram, n, shape)
            return gram + branch, shape
        case Sum():
            branches = [_through(term, gram, n, shape) for term in layer.parts]
            return sum(branch for branch, _ in branches), branches[0][1]
        case Scale():
            gram, shape = _through(layer.kernel, gram, n, shape)
            return gram * layer.factor, shape
        case MaxNormalization():
            gram, shape = _through(layer.kernel, gram, n, shape)
            return gram / layer.scale, shape
    return _through_single(layer, gram, n, shape)


def _through_single(layer, gram: Array, n: int, shape: tuple[int, int]):
    match layer:
        case Twins():
            half = np.arange(len(gram)) * 2 < len(gram)
            return np.where(half[:, None] == half, gram, gram * layer.factor), shape
        case Dense():
            return layer.weight_variance * gram + layer.bias_variance, shape
        case Conv2d():
            taps, shape = _taps(layer.window, layer, shape)
            total = sum(_by_image(tap, gram, n) for tap in taps)
            return layer.bias_variance + layer.weight_variance / len(
                taps
            ) * total, shape
        case AvgPool2d():
            window = _pair(layer.window)
            taps, shape = _taps(window, layer, shape)
            return _by_image(sum(taps) / len(taps), gram, n), shape
        case Flatten():
            return _over_groups(gram, n, np.arange(shape[0] * shape[1])), (1, 1)
        case GlobalAvgPool2d():
            step = layer.lattice
            rows = np.arange(shape[0]) % step
            cols = np.arange(shape[1]) % step
            groups = (rows[:, None] * step + cols).reshape(-1)
            # An average has the weight of the group that all have on average.
            share = 1.0
            for size in shape:
                share *= min(step, size) / size
            total = _over_groups(gram, n, groups) * shape[0] * shape[1]
            return total * share / (shape[0] * shape[1]), (1, 1)
    return _activated(layer, gram), shape


def _over_groups(gram: Array, n: int, groups: Array) -> Array:
    """Return the sum of covariances within groups of positions, by their number."""
    is_same = groups[:, None] == groups
    pairs = gram.reshape(n, len(groups), n, len(groups))
    return np.einsum("ipjq,pq->ij", pairs, is_same) / len(groups)


def _activated(layer, gram: Array) -> Array:
    scale = np.sqrt(np.diag(gram))
    if isinstance(layer, Erf):
        wide = np.sqrt(1.0 + 2.0 * np.diag(gram))
        return 2.0 / np.pi * np.arcsin(2.0 * gram / np.outer(wide, wide))
    assert isinstance(layer, ReLU | LeakyReLU)
    rho = np.clip(gram / np.outer(scale, scale), -1.0, 1.0)
    angle = np.arccos(rho)
    relu = (np.sin(angle) + (np.pi - angle) * rho) / (2.0 * np.pi)
    slope = layer.slope
    unit = (1.0 - slope) ** 2 * relu + slope * rho
    return unit * np.outer(scale, scale)


def _by_image(matrix: Array, gram: Array, n: int) -> Array:
    each = np.kron(np.eye(n), matrix)
    return each @ gram @ each.T


def _taps(window, layer, shape):
    """Return a matrix of each element of a window, from positions to windows."""
    sizes, choices = [], []
    settings = zip(
        shape,
        window,
        _pair(layer.stride or window),
        _pair(layer.dilation),
        _pair(layer.padding),
        strict=True,
    )
    for size, kernel, stride, dilation, padding in settings:
        span = dilation * (kernel - 1)
        before = dilation * ((kernel - 1) // 2)
        total = span
        if padding == "valid":
            before = total = 0
        elif not isinstance(padding, str):
            before, total = padding, 2 * padding
        n_outputs = (size + total - span - 1) // stride + 1
        sizes.append(n_outputs)
        choices.append([])
        for element in range(kernel):
            matrix = np.zeros((n_outputs, size))
            for output in range(n_outputs):
                position = output * stride - before + element * dilation
                if padding == "circular":
                    matrix[output, position % size] = 1.0
                elif 0 <= position < size:
                    matrix[output, position] = 1.0
            choices[-1].append(matrix)
    return [np.kron(*pair) for pair in itertools.product(*choices)], tuple(sizes)


def _pair(value):
    return value if isinstance(value, tuple) else (value, value)


def waves(n: int, *shape: int) -> Tensor:
    """Return images (n, c, h, w) that any program can make without random numbers."""
    axes = (torch.arange(size, dtype=torch.float64) for size in (n, *shape))
    i, channel, row, col = torch.meshgrid(*axes, indexing="ij")
    return torch.sin(0.7 * i + 0.3 * row + 0.5 * col + 0.2 * channel)
