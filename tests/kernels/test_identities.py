"""What must hold for every network of a kind."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from skconvgp.kernels import (
    Abs,
    Conv2d,
    Dense,
    Flatten,
    Identity,
    LeakyReLU,
    ReLU,
    Residual,
    Scale,
    Sequential,
    Sum,
    convnet,
    dense,
    residual_convnet,
    resnet32,
    three_layer_convnet,
)
from tests.helpers.kernels import QUICK, assert_close, cross, deviations, random_images

NAMED = [
    convnet(depth=2, kernel_size=3),
    residual_convnet(depth=2, kernel_size=2),
    resnet32(),
    three_layer_convnet(),
    dense(depth=2),
]
VARIANCES = st.floats(0.05, 20.0)


@pytest.mark.parametrize("kernel", NAMED, ids=repr)
@given(weight=VARIANCES, bias=VARIANCES)
@QUICK
def test_bias_variance_is_an_input_scale_and_an_amplitude(kernel, weight, bias):
    images = random_images(3, 1, 4, 4)
    one = kernel.replace(weight_variance=weight, bias_variance=bias)
    other = kernel.replace(weight_variance=weight, bias_variance=1.0)
    gram = cross(one, images)
    scaled = bias * cross(other, images / bias**0.5)
    assert_close(scaled, gram, scale=deviations(gram))


@pytest.mark.parametrize("kernel", NAMED, ids=repr)
@given(factor=st.floats(1e-3, 1e3))
@QUICK
def test_networks_without_bias_are_homogeneous(kernel, factor):
    images = random_images(3, 1, 4, 4)
    kernel = kernel.replace(bias_variance=0.0)
    gram = factor**2 * cross(kernel, images)
    assert_close(cross(kernel, factor * images), gram, scale=deviations(gram))


@pytest.mark.parametrize(
    ("kernel", "n_factors"),
    [(convnet(depth=2, kernel_size=3), 3), (dense(depth=3), 4), (NAMED[3], 3)],
    ids=repr,
)
def test_weight_variance_without_bias_is_an_amplitude(kernel, n_factors):
    images = random_images(3, 1, 4, 4)
    gram = cross(kernel.replace(bias_variance=0.0, weight_variance=1.0), images)
    scaled = cross(kernel.replace(bias_variance=0.0, weight_variance=1.5), images)
    assert_close(scaled, 1.5**n_factors * gram, scale=deviations(scaled))


def test_leaky_relu_contains_relu_abs_and_identity():
    images = random_images(4, 2, 3, 3)
    for slope, layer in ((0.0, ReLU()), (-1.0, Abs()), (1.0, Identity())):
        leaky, plain = (
            cross(Sequential(Conv2d(2), activation, Flatten()), images)
            for activation in (LeakyReLU(slope=slope), layer)
        )
        assert_close(leaky, plain, scale=deviations(plain))


def test_residual_is_a_sum_with_the_identity():
    images = random_images(4, 2, 3, 3)
    layers = (Conv2d(3, bias_variance=0.1), ReLU(), Conv2d(2))
    short = Sum(Identity(), Sequential(*layers))
    one = cross(Sequential(Conv2d(2), Residual(*layers), Flatten()), images)
    two = cross(Sequential(Conv2d(2), short, Flatten()), images)
    assert torch.equal(one, two)


def test_scale_inside_a_network_is_a_larger_variance():
    images = random_images(4, 2, 3, 3)
    one = Sequential(Scale(Conv2d(3, bias_variance=0.2), 3.0), ReLU(), Flatten())
    two = Sequential(
        Conv2d(3, weight_variance=3.0, bias_variance=0.6), ReLU(), Flatten()
    )
    gram = cross(two, images)
    assert_close(cross(one, images), gram, scale=deviations(gram))


def test_nested_chains_are_flat():
    images = random_images(4, 2, 3, 3)
    layers = (Conv2d(3), ReLU(), Flatten(), Dense(bias_variance=0.3))
    nested = Sequential(Sequential(*layers[:2]), Sequential(*layers[2:]))
    assert torch.equal(cross(nested, images), cross(Sequential(*layers), images))


def test_only_layers_that_see_positions_are_spatial():
    assert not dense().is_spatial
    assert not Sequential(Flatten(), Dense()).is_spatial
    for kernel in (*NAMED[:4], Sequential(Conv2d(1)), Residual(Conv2d(1))):
        assert kernel.is_spatial
    assert Sum(Conv2d(1), Identity()).is_spatial
    assert Scale(Conv2d(1)).is_spatial
    assert not Scale(Dense()).is_spatial


@pytest.mark.parametrize("kernel", NAMED, ids=repr)
def test_layout_matters_exactly_to_spatial_kernels(kernel):
    images = random_images(3, 2, 4, 4)
    order = torch.randperm(16, generator=torch.Generator().manual_seed(0))
    mixed = images.flatten(2)[..., order].reshape(images.shape)
    gram, gram_mixed = cross(kernel, images), cross(kernel, mixed)
    differs = not torch.allclose(gram, gram_mixed, rtol=1e-9)
    assert differs == kernel.is_spatial
