"""What a layer of a third party may say of itself, beside how covariances pass."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch

from skconvgp.kernels import (
    Conv2d,
    Dense,
    Flatten,
    FlipAverage,
    Layer,
    MaxNormalization,
    ReLU,
    Sequential,
)
from skconvgp.kernels._capabilities import sample_network
from tests.helpers.kernels import assert_close, cross, random_images

SHAPE = (2, 4, 6)


@dataclass(repr=False)
class Plain(Layer):
    """Multiplies columns by numbers that are the same at the left and at the right."""

    @property
    def is_spatial(self):
        return True

    def out_shape(self, shape):
        return shape

    def columns(self, maps):
        places = torch.linspace(-1.0, 1.0, maps.shape[1], dtype=maps.dtype)
        return places.square().reshape(1, -1, *[1] * (maps.ndim - 2))

    def image_pass(self, var):
        return var * self.columns(var).square(), None

    def pair_pass(self, maps, one, two):
        return maps.linear(lambda c: c * self.columns(c).square())


class Telling(Plain):
    """Says what others need to know."""

    is_homogeneous: ClassVar[bool] = True

    def check_flips(self, shape):
        pass

    def function(self, maps):
        return maps * self.columns(maps[0, 0])[None, None]

    def cache_key(self):
        return "version 1"


class Cut(ReLU):
    """Inherits, and may compute something else."""


class Noisy(Plain):
    """Draws weights."""

    def sample(self, images, *, width, generator):
        shape = images.shape[0], width, *images.shape[2:]
        return torch.randn(shape, generator=generator)


def network(layer):
    return Sequential(Conv2d(3), layer, ReLU(), Flatten(), Dense())


def test_a_layer_that_knows_what_flips_do_is_averaged():
    images, kernel = random_images(4, *SHAPE), network(Telling())
    assert_close(cross(kernel, images.flip(-1)), cross(kernel, images))
    FlipAverage(kernel).check(SHAPE)
    with pytest.raises(ValueError, match=r"layer1.*Plain\(\) is not known"):
        FlipAverage(network(Plain())).check(SHAPE)


def test_a_layer_that_scales_is_normalized_exactly():
    images = random_images(4, *SHAPE)
    exact = MaxNormalization(network(Telling()), mode="exact", scale=4.0)
    exact.check(SHAPE)
    assert_close(cross(exact, images), cross(network(Telling()), images))
    for layer in (Plain(), Cut()):
        with pytest.raises(ValueError, match="piecewise linear"):
            MaxNormalization(network(layer), mode="exact").check(SHAPE)


def test_a_layer_with_a_function_or_with_weights_has_a_finite_twin():
    images = random_images(4, *SHAPE)
    settings = {"width": 2000, "generator": torch.Generator().manual_seed(0)}
    drawn = sample_network(network(Telling()), images, **settings).flatten(1)
    gram = cross(network(Telling()), images)
    assert_close(drawn @ drawn.T / 2000, gram, rtol=0.2)
    assert sample_network(network(Noisy()), images, **settings).shape[1] == 2000
    with pytest.raises(TypeError, match=r"Plain\(\) has no finite twin"):
        sample_network(network(Plain()), images, **settings)
