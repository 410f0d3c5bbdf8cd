"""Random features of networks: outputs or last hidden maps of finite networks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Generator, Tensor

from skconvgp._tensors import normals, random_ints
from skconvgp._typing import ImageShape
from skconvgp.kernels._architectures import Network
from skconvgp.kernels._base import Scale, Sum
from skconvgp.kernels._capabilities import sample_network
from skconvgp.kernels._checks import plain_value
from skconvgp.kernels._combinators import Residual, Sequential
from skconvgp.kernels._linear import Conv2d, Dense, Flatten

__all__ = ["NetworkFeatures", "NetworkSettings", "network_features"]

MAPS_HELD = 4  # temporaries of the largest map, in copies of it
WEIGHTS_HELD = 3  # drawn weights, in the precision of images, times their deviation
# Weights of a readout that are drawn at once. It decides which numbers a seed gives.
SLICE = 2**16


@dataclass(frozen=True)
class NetworkSettings:
    """How finite networks are drawn."""

    # "draw" draws the readout too: features are outputs of the network. "exact" takes
    # the expectation over the readout: features are the last hidden maps. "auto" is
    # "exact" if these have a single position, and for networks without a readout.
    readout: str = "auto"
    # Channels of hidden layers. With "exact", the last affine layer before the readout
    # has as many as make the number of features, if its channels are free.
    width: int = 64
    n_networks: int = 1  # whose features are concatenated


@dataclass(frozen=True)
class NetworkFeatures:
    """Features of samples by random networks, which are drawn again from a seed."""

    layers: tuple[object, ...]  # all layers before the readout
    readout: Dense | None  # None if features are the last maps
    widths: tuple[int, ...]  # channels after each of the layers
    n_drawn: int  # readouts for each network; 0 for the exact readout
    n_hidden: int  # values of the last hidden maps of a sample
    n_networks: int
    n_values: int  # number of values held at once for each sample
    # Number of values held besides, whatever the number of samples: the weights of a
    # layer, and its unfolded maps of one sample.
    n_shared: int
    seed: int  # of the weights

    @property
    def n_features(self) -> int:
        """Number of features of a sample."""
        return self.n_networks * (self.n_drawn or self.n_hidden + self._has_bias)

    def __call__(self, images: Tensor) -> Tensor:
        """Return the features of images."""
        generator = torch.Generator().manual_seed(self.seed)
        features = [self._of_one(images, generator) for _ in range(self.n_networks)]
        return torch.cat(features, 1) / math.sqrt(self.n_networks)

    @property
    def _has_bias(self) -> bool:
        return self.readout is not None and plain_value(self.readout.bias_variance) > 0

    def _of_one(self, images: Tensor, generator: Generator) -> Tensor:
        maps = _sample_chain(self.layers, images, self.widths, generator).flatten(1)
        if self.readout is None:
            return maps / math.sqrt(self.n_hidden)
        deviation = math.sqrt(plain_value(self.readout.common_weight) / self.n_hidden)
        bias_deviation = math.sqrt(plain_value(self.readout.bias_variance))
        if not self.n_drawn:
            bias = maps.new_full((len(maps), int(self._has_bias)), bias_deviation)
            return torch.cat([maps * deviation, bias], 1)
        drawn = maps.new_zeros(len(maps), self.n_drawn)
        for part in torch.split(maps, max(1, SLICE // self.n_drawn), 1):
            shape = part.shape[1], self.n_drawn
            drawn.addmm_(part, normals(shape, generator).to(maps))
        bias = normals((self.n_drawn,), generator).to(maps)
        drawn = drawn * deviation + bias * bias_deviation
        return drawn / math.sqrt(self.n_drawn)


def network_features(
    network: object,
    image_shape: ImageShape,
    n_features: int,
    generator: Generator,
    settings: NetworkSettings,
) -> NetworkFeatures:
    """Return about `n_features` features of samples by random networks of finite width.

    The generator draws the seed. Raises a `TypeError` if a layer has no finite twin,
    and a `ValueError` if "exact" makes more features than are asked for with a single
    channel.
    """
    layers = _flat(network)
    final = layers[-1] if layers else None
    is_readout = isinstance(final, Dense) and final.weighing is None
    readout = cast(Dense, final) if is_readout else None
    layers = layers[:-1] if readout else layers
    if not _starts_affine(layers):
        layers.insert(0, Conv2d(1))  # makes the channels normal, as the kernel has them
    last = _last_affine(layers)
    # A narrow network shows how many positions maps have, and raises for strange ones.
    narrow = _narrow_maps(layers, image_shape)
    n_positions = narrow[-1].numel()
    share = math.ceil(n_features / settings.n_networks)
    is_shaped = _has_affine(layers)
    is_single = n_positions == 1 or not is_shaped
    is_exact = settings.readout == "exact" or (
        readout is None or (settings.readout == "auto" and is_single)
    )
    if settings.readout == "exact" and share < n_positions:
        raise ValueError(
            "readout='exact' makes a feature of each position of the last hidden map, "
            f"in each channel: of {n_positions}, and {share} are asked for. Raise "
            f"`n_features` to a multiple of {n_positions * settings.n_networks}, or "
            "use readout='draw'."
        )
    widths = [settings.width] * len(layers)
    if last is not None and is_exact:
        widths[last] = max(1, share // n_positions)
    n_last = widths[-1 if last is None else last] if is_shaped else 1
    pixels = image_shape[1] * image_shape[2]
    n_drawn = 0 if is_exact else share
    n_shared = _values_of_one(layers, narrow, widths)
    return NetworkFeatures(
        tuple(layers),
        readout,
        tuple(widths),
        n_drawn=n_drawn,
        n_hidden=n_positions * n_last,
        n_networks=settings.n_networks,
        n_values=MAPS_HELD * max(widths, default=1) * pixels + 3 * n_features,
        n_shared=n_shared + (2 * max(SLICE, n_drawn) if n_drawn else 0),
        seed=int(random_ints(2**62, (), generator)),
    )


def _sample_chain(
    layers: Sequence[object],
    images: Tensor,
    widths: Sequence[int],
    generator: Generator,
) -> Tensor:
    for layer, width in zip(layers, widths, strict=True):
        images = sample_network(layer, images, width=width, generator=generator)
    return images


def _narrow_maps(layers: Sequence[object], image_shape: ImageShape) -> list[Tensor]:
    """Return the maps of a black image before and after each layer of one channel."""
    maps = [torch.zeros(1, *image_shape, dtype=torch.float64, device="cpu")]
    generator = torch.Generator()
    for layer in layers:
        maps.append(sample_network(layer, maps[-1], width=1, generator=generator))
    return maps


def _values_of_one(
    layers: Sequence[object], narrow: Sequence[Tensor], widths: Sequence[int]
) -> int:
    """Return the most weights of a layer and values of its unfolded maps together."""
    largest, factor = 0, 1
    for i, (layer, width) in enumerate(zip(layers, widths, strict=True)):
        if not (area := _area(layer)):
            continue
        n_channels = max(narrow[i].shape[1] * factor, width)
        n_positions = narrow[i + 1].shape[2:].numel()
        factor = width
        weights = WEIGHTS_HELD * area * n_channels * width
        largest = max(largest, area * n_channels * n_positions + weights)
    return largest


def _area(layer: object) -> int:
    """Return the most positions that a kernel of a layer has; 0 without weights."""
    match layer:
        case Conv2d():
            return math.prod(layer.window)
        case Dense():
            return 1
        case Scale():
            return _area(layer.kernel)
        case Sum():
            return max(_area(part) for part in layer.parts)
        case Residual() | Sequential():
            return max((_area(one) for one in layer.layers), default=0)
        case Network():
            return _area(layer.layers)
    return 0


def _flat(network: object) -> list[object]:
    """Return the layers of a network, also of chains within it."""
    match network:
        case Network():
            return _flat(network.layers)
        case Sequential(kind="ntk"):
            raise TypeError(
                f"{network!r} is a neural tangent kernel, which is not the covariance "
                "of outputs of finite networks."
            )
        case Sequential():
            return [one for layer in network.layers for one in _flat(layer)]
    return [network]


def _has_affine(layers: Sequence[object]) -> bool:
    shaping = Conv2d | Dense | Sum | Scale | Residual
    return any(isinstance(layer, shaping) for layer in layers)


def _starts_affine(layers: Sequence[object]) -> bool:
    """Return whether the first layer that is no `Flatten` mixes channels."""
    first = next((one for one in layers if not isinstance(one, Flatten)), None)
    match first:
        case Scale():
            return _starts_affine(_flat(first.kernel))
        case Sum():
            return all(_starts_affine(_flat(branch)) for branch in first.parts)
    return first is None or isinstance(first, Conv2d | Dense)


def _last_affine(layers: Sequence[object]) -> int | None:
    """Return the index of the layer that makes the last channels, if they are free."""
    shaping = Sequential | Residual | Sum | Scale | Conv2d | Dense
    for i in reversed(range(len(layers))):
        if isinstance(layers[i], shaping):
            return i if isinstance(layers[i], Conv2d | Dense) else None
    return None
