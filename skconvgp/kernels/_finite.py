"""Random networks of finite width, whose limit a kernel is."""

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor

from skconvgp._tensors import int_range, normals
from skconvgp.kernels._activations import (
    GELU,
    Abs,
    Erf,
    Identity,
    LeakyReLU,
    ReLU,
    Sin,
)
from skconvgp.kernels._architectures import Network
from skconvgp.kernels._base import Scale, Sum
from skconvgp.kernels._checks import plain_value
from skconvgp.kernels._combinators import Residual, Sequential
from skconvgp.kernels._elementwise import Elementwise
from skconvgp.kernels._linear import Conv2d, Dense, Flatten
from skconvgp.kernels._pooling import AvgPool2d, GlobalAvgPool2d
from skconvgp.kernels._saturating import Sigmoid, SiLU, Softplus, Tanh

__all__ = ["normal_numbers", "sample_network"]

SATURATING: dict[type, Callable[[Tensor], Tensor]] = {
    Tanh: torch.tanh,
    Sigmoid: torch.sigmoid,
    SiLU: torch.nn.functional.silu,
    Softplus: torch.nn.functional.softplus,
}


def sample_network(
    network: object, images: Tensor, *, width: int, generator: Generator
) -> Tensor:
    """Draw the weights of a finite network, and apply it to images (n, c, h, w).

    Every layer has `width` channels, the last included. The outputs (n, width, h, w) of
    a network that ends in an affine layer are `width` draws from the (nearly Gaussian)
    process at the images. The network is made of layers: of a named network, pass its
    ``layers``.
    """
    match network:
        case Network():
            chain = network.layers
            return sample_network(chain, images, width=width, generator=generator)
        case Sequential(kind="ntk"):
            raise TypeError(
                f"{network!r} has no finite twin: outputs of random networks have the "
                "covariances of kind='nngp'."
            )
        case Sequential():
            for layer in network.layers:
                images = sample_network(layer, images, width=width, generator=generator)
            return images
        case Residual():
            chain = Sequential(*network.layers)
            branch = sample_network(chain, images, width=width, generator=generator)
            return images + branch
        case Sum():
            branches = [
                sample_network(term, images, width=width, generator=generator)
                for term in network.parts
            ]
            return torch.stack(branches).sum(0)
        case Scale():
            out = sample_network(
                network.kernel, images, width=width, generator=generator
            )
            return out * math.sqrt(plain_value(network.factor))
        case Conv2d():
            return _convolve(network, images, width, generator)
        case Dense():
            as_conv = Conv2d(
                1,
                weight_variance=network.weight_variance,
                bias_variance=network.bias_variance,
            )
            return _convolve(as_conv, images, width, generator)
        case _:
            return _apply(network, images)


def _apply(layer: object, images: Tensor) -> Tensor:
    """Apply a layer without weights."""
    match layer:
        case AvgPool2d():
            rows, cols = layer.axes((images.shape[2], images.shape[3]))
            sums = rows.matrix(images) @ images @ cols.matrix(images).T
            return sums / (rows.kernel * cols.kernel)
        case GlobalAvgPool2d():
            by_row, by_col = (_lattice(images, layer.lattice, dim) for dim in (2, 3))
            return (by_row @ images @ by_col.T).reshape(images.shape[0], -1, 1, 1)
        case Flatten():
            return images.reshape(images.shape[0], -1, 1, 1)
        case _:
            return _activate(layer, images)


def _lattice(images: Tensor, lattice: int, dim: int) -> Tensor:
    """Return the averages over a lattice as a matrix (lattice, size)."""
    size = images.shape[dim]
    step = min(lattice, size)
    groups = int_range(size, images.device) % step
    is_member = groups == int_range(step, images.device)[:, None]
    return is_member.to(images.dtype) * (step / size)


def _convolve(conv: Conv2d, images: Tensor, width: int, generator: Generator) -> Tensor:
    n_channels = images.shape[1]
    window_h, window_w = conv.window
    shape = (width, n_channels, window_h, window_w)
    fan_in = n_channels * window_h * window_w
    deviation = math.sqrt(plain_value(conv.weight_variance) / fan_in)
    weights = deviation * normal_numbers(shape, generator).to(images)
    bias_deviation = math.sqrt(plain_value(conv.bias_variance))
    bias = bias_deviation * normal_numbers((width,), generator).to(images)
    # In double precision torch unfolds the maps; those of few images at a time then
    # take no more than the maps of all.
    n_rows = max(1, len(images) // (window_h * window_w))
    outputs = [
        torch.nn.functional.conv2d(
            part, weights, bias, stride=conv.stride, dilation=conv.dilation
        )
        for part in torch.split(_pad(conv, images), n_rows)
    ]
    return torch.cat(outputs)


def normal_numbers(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Return standard normal numbers in double precision.

    A seed then gives the same network whatever the precision of images.
    """
    return normals(shape, generator)


def _pad(conv: Conv2d, images: Tensor) -> Tensor:
    if conv.padding == "valid":
        return images
    if isinstance(conv.padding, int):
        return torch.nn.functional.pad(images, (conv.padding,) * 4)
    sides: list[int] = []
    for window in reversed(conv.window):  # torch pads the last dimension first
        before = conv.dilation * ((window - 1) // 2)
        sides += [before, conv.dilation * (window - 1) - before]
    mode = "circular" if conv.padding == "circular" else "constant"
    return torch.nn.functional.pad(images, sides, mode=mode)


def _activate(layer: object, maps: Tensor) -> Tensor:
    match layer:
        case ReLU() | LeakyReLU() | Abs():
            return maps.clamp(min=0.0) + layer.slope * maps.clamp(max=0.0)
        case Erf():
            return torch.erf(maps)
        case GELU():
            return torch.nn.functional.gelu(maps)
        case Sin():
            return torch.sin(maps)
        case Identity():
            return maps
        case Elementwise():
            return layer.function(maps)
        case Tanh() | Sigmoid() | SiLU() | Softplus():
            return SATURATING[type(layer)](maps)
    raise TypeError(f"{layer!r} has no finite twin.")
