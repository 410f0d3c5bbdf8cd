"""Encoders: networks whose outputs are the logits of bits."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import torch
from torch import Generator, Tensor, nn

from skconvgp._typing import FloatArray, ImageShape
from skconvgp.engine import to_tensor

__all__ = [
    "ENCODERS",
    "LEAST_SIDE",
    "LINEAR",
    "RESNET",
    "Encoder",
    "ModuleEncoder",
    "NamedEncoder",
    "seeded",
]

# Sides of images that "lenet" and "resnet" can halve as often as they do.
LEAST_SIDE = 8
LINEAR, RESNET = "linear", "resnet"
# LeNet: channels, sides of windows, and the side from which images are not padded.
CHANNELS, WINDOW, UNPADDED_SIDE = (6, 16), 5, 32
# The residual encoder halves a map with windows of 4 x 4, once for each number.
WIDTHS, SLOPE = (32, 64, 128), 0.2
AS_TORCH = math.sqrt(5.0)  # the slope that stands for torch's own deviations


class Encoder(Protocol):
    """A network from samples to logits."""

    @property
    def is_spatial(self) -> bool:
        """Whether it reads images, and not rows."""
        ...

    def logits(self, values: dict[str, Tensor], inputs: Tensor, /) -> Tensor:
        """Return logits (n, n_bits) of rows (n, d) or images (n, c, h, w)."""
        ...


@dataclass(frozen=True)
class NamedEncoder:
    """An encoder of this package, which is made from its name when it is used."""

    name: str  # a key of `ENCODERS`
    image_shape: ImageShape
    n_bits: int
    offset: FloatArray  # (d,), subtracted from the values of a sample first
    scale: float  # by which the differences are divided

    @property
    def is_spatial(self) -> bool:
        """Whether it reads images, and not rows."""
        return self.name != LINEAR

    def start(self, generator: Generator) -> dict[str, Tensor]:
        """Return random parameters, in double precision."""
        skeleton = _skeleton(self.name, self.image_shape, self.n_bits)
        module = copy.deepcopy(skeleton).to(torch.float32).to_empty(device="cpu")
        _draw(module, SLOPES[self.name], generator)
        values = module.to(torch.float64).named_parameters()
        return {name: one.detach() for name, one in values}

    def balanced(self, values: dict[str, Tensor], logits: Tensor) -> dict[str, Tensor]:
        """Return parameters for which each logit has mean 0 and deviation 1.

        `logits` (n, n_bits) holds the logits of samples with the parameters `values`.
        The last layer changes. Bits are then 1 for about half of the samples, and tell
        them apart from the start.
        """
        deviation = logits.std(0, correction=0)
        factor = torch.where(deviation > 0.0, 1.0 / deviation, 1.0)
        weight, bias = list(values)[-2:]
        return values | {
            weight: values[weight] * factor[:, None],
            bias: (values[bias] - logits.mean(0)) * factor,
        }

    def logits(self, values: dict[str, Tensor], inputs: Tensor) -> Tensor:
        """Return logits (n, n_bits) of rows (n, d) or images (n, c, h, w)."""
        offset = to_tensor(self.offset, inputs.device, inputs.dtype)
        scaled = (inputs - offset.reshape(inputs.shape[1:])) / self.scale
        skeleton = _skeleton(self.name, self.image_shape, self.n_bits)
        return _call(skeleton, values, scaled)


@dataclass(frozen=True)
class ModuleEncoder:
    """A module of torch as an encoder."""

    module: nn.Module  # its parameters are replaced when it is used
    is_spatial: bool  # whether it reads images, not rows

    def logits(self, values: dict[str, Tensor], inputs: Tensor) -> Tensor:
        """Return logits (n, n_bits) of rows (n, d) or images (n, c, h, w)."""
        return _call(self.module, values, inputs)


def seeded(make: Callable[[], object], seed: int) -> object:
    """Return the result of a user's function, with torch seeded for it alone.

    Modules draw their parameters from the generator that all threads share: there is
    no other way to seed them. Its state is set back.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return make()


def _call(module: nn.Module, values: dict[str, Tensor], inputs: Tensor) -> Tensor:
    logits: Tensor = torch.func.functional_call(module, values, (inputs,))
    return logits


@lru_cache(maxsize=16)
def _skeleton(name: str, shape: ImageShape, n_bits: int) -> nn.Module:
    """Return a module without memory for its parameters."""
    with torch.device("meta"):
        return ENCODERS[name](shape, n_bits)


def _linear(shape: ImageShape, n_bits: int) -> nn.Module:
    channels, height, width = shape
    return nn.Linear(channels * height * width, n_bits)


def _lenet(shape: ImageShape, n_bits: int) -> nn.Module:
    padding = 2 if min(shape[1:]) < UNPADDED_SIDE else 0
    first, second = CHANNELS
    maps = nn.Sequential(
        nn.Conv2d(shape[0], first, WINDOW, padding=padding),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(first, second, WINDOW, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
    )
    return _closed(maps, shape, n_bits)


def _residual(shape: ImageShape, n_bits: int) -> nn.Module:
    layers: list[nn.Module] = []
    channels = shape[0]
    for width in WIDTHS:
        layers += [nn.Conv2d(channels, width, 4, stride=2, padding=1)]
        layers += [nn.LeakyReLU(SLOPE), _ResidualBlock(width)]
        channels = width
    return _closed(nn.Sequential(*layers, nn.Flatten()), shape, n_bits)


class _ResidualBlock(nn.Module):
    """Two convolutions, whose result, at first 0, is added to their input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1)
        self.second = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, maps: Tensor) -> Tensor:
        """Return maps of the same shape."""
        change = self.second(nn.functional.leaky_relu(self.first(maps), SLOPE))
        return nn.functional.leaky_relu(maps + change, SLOPE)


def _closed(maps: nn.Sequential, shape: ImageShape, n_bits: int) -> nn.Module:
    """Return the layers and a linear one, of the size that follows from the images."""
    weight = next(maps.parameters())
    with torch.no_grad():
        size = maps(
            torch.zeros(1, *shape, device=weight.device, dtype=weight.dtype)
        ).shape[1]
    return nn.Sequential(maps, nn.Linear(size, n_bits))


def _draw(module: nn.Module, slope: float, generator: Generator) -> None:
    """Draw parameters with which signals keep their scale (He et al., 2015).

    Torch's own deviations, which the linear encoder has, are 0.4 of these: images of
    digits would leave the residual encoder as logits that deviate by 0.03. Residual
    blocks begin as the identity.
    """
    for layer in module.modules():
        if not isinstance(layer, nn.Conv2d | nn.Linear):
            continue
        assert layer.bias is not None
        if slope == AS_TORCH:
            nn.init.kaiming_uniform_(layer.weight, a=slope, generator=generator)
            reach = 1.0 / math.sqrt(layer.weight[0].numel())
            nn.init.uniform_(layer.bias, -reach, reach, generator=generator)
        else:
            nn.init.kaiming_normal_(layer.weight, a=slope, generator=generator)
            nn.init.zeros_(layer.bias)
    for layer in module.modules():
        if isinstance(layer, _ResidualBlock):
            nn.init.zeros_(layer.second.weight)


ENCODERS: dict[str, Callable[[ImageShape, int], nn.Module]] = {
    LINEAR: _linear,
    "lenet": _lenet,
    RESNET: _residual,
}
# Slopes of the activations, which deviations of parameters follow.
SLOPES = {LINEAR: AS_TORCH, "lenet": 0.0, RESNET: SLOPE}
