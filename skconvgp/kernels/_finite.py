"""Random weights of finite networks, whose limit a kernel is."""

import math

import torch
from torch import Generator, Tensor

from skconvgp._tensors import normals
from skconvgp._typing import Scalar
from skconvgp.kernels._checks import plain_value

__all__ = ["sample_convolution"]


def sample_convolution(
    images: Tensor,
    width: int,
    generator: Generator,
    *,
    weight_variance: Scalar,
    bias_variance: Scalar,
    window: tuple[int, int] = (1, 1),
    padding: str | int = "same",
    stride: int = 1,
    dilation: int = 1,
) -> Tensor:
    """Draw weights of a convolution to `width` channels, and apply it to images."""
    n_channels = images.shape[1]
    fan_in = n_channels * math.prod(window)
    deviation = math.sqrt(plain_value(weight_variance) / fan_in)
    shape = (width, n_channels, *window)
    # In double precision: a seed gives the same network whatever that of images.
    weights = deviation * normals(shape, generator).to(images)
    bias_deviation = math.sqrt(plain_value(bias_variance))
    bias = bias_deviation * normals((width,), generator).to(images)
    # In double precision torch unfolds the maps; those of few images at a time then
    # take no more than the maps of all.
    n_rows = max(1, len(images) // math.prod(window))
    outputs = [
        torch.nn.functional.conv2d(part, weights, bias, stride, dilation=dilation)
        for part in torch.split(_padded(images, window, padding, dilation), n_rows)
    ]
    return torch.cat(outputs)


def _padded(
    images: Tensor, window: tuple[int, int], padding: str | int, dilation: int
) -> Tensor:
    if padding == "valid":
        return images
    if isinstance(padding, int):
        return torch.nn.functional.pad(images, (padding,) * 4)
    sides: list[int] = []
    for size in reversed(window):  # torch pads the last dimension first
        before = dilation * ((size - 1) // 2)
        sides += [before, dilation * (size - 1) - before]
    mode = "circular" if padding == "circular" else "constant"
    return torch.nn.functional.pad(images, sides, mode=mode)
