"""The neural tangent kernel of networks."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from skconvgp.kernels import (
    GELU,
    Abs,
    AvgPool2d,
    Conv2d,
    Dense,
    Elementwise,
    Erf,
    Flatten,
    FlipAverage,
    GlobalAvgPool2d,
    Identity,
    Layer,
    LeakyReLU,
    MaxNormalization,
    ReLU,
    Residual,
    Scale,
    Sequential,
    Sigmoid,
    SiLU,
    Sin,
    Softplus,
    Sum,
    Tanh,
    convnet,
    convnet_gap,
    dense,
    literal_max_normalization,
    myrtle,
    residual_convnet,
    resnet32,
    three_layer_convnet,
)
from skconvgp.kernels._capabilities import sample_network
from skconvgp.kernels._feature_maps import feature_map
from tests.helpers.all_pairs import tangent_gram, waves
from tests.helpers.kernels import assert_close, cross, diag, random_images
from tests.helpers.published_pools import PUBLISHED, TANGENTS


@pytest.mark.parametrize("name", TANGENTS)
def test_published_program_gives_the_same_values(name):
    network, _, size = PUBLISHED[name]
    network = Sequential(*network.layers, kind="ntk")
    images, expected = waves(3, 3, size, size), TANGENTS[name]
    assert_close(cross(network, images[:1], images)[0], expected, rtol=1e-11)
    assert_close(diag(network, images[:1]), expected[:1], rtol=1e-11)


def conv(size=3, **settings) -> Conv2d:
    return Conv2d(size, weight_variance=2.0, bias_variance=0.1, **settings)


def closed(*layers) -> Sequential:
    return Sequential(*layers, Dense(1.5, bias_variance=0.2), kind="ntk")


NETWORKS = [
    closed(conv(), LeakyReLU(0.2), conv(stride=2), Erf(), Flatten(), Dense(), ReLU()),
    closed(
        conv(padding="circular"), Residual(ReLU(), conv(dilation=2)),
        Sum(conv(1), Sequential(conv((1, 2)), Scale(ReLU(), 1.5), conv())), Flatten(),
    ),
    closed(
        conv(padding="circular"), Erf(), GlobalAvgPool2d(2), Dense(), LeakyReLU(0.2),
    ),
    closed(
        Residual(conv(), ReLU(), conv()), AvgPool2d(2, stride=1, padding=1),
        MaxNormalization(conv(), mode="fixed", scale=3.0), ReLU(), Flatten(),
    ),
]  # fmt: skip


@pytest.mark.parametrize("network", NETWORKS, ids=repr)
def test_kernel_is_the_change_when_weights_become_less_alike(network):
    images = random_images(2, 2, 4, 3)
    found, expected = cross(network, images), tangent_gram(network, images)
    assert_close(found[0, 1], expected[0, 1], rtol=1e-6)
    assert_close(found[1, 0], expected[1, 0], rtol=1e-6)
    assert_close(diag(network, images), torch.diagonal(found), rtol=1e-12)
    assert (torch.linalg.eigvalsh(found) > 0.0).all()


ACTIVATIONS = [
    *(ReLU(), LeakyReLU(0.3), Abs(), Erf(), GELU(), Sin(), Identity()),
    *(Tanh(), Sigmoid(), SiLU(), Softplus()),
]
POINTS = [(0.6, 2.0, 0.7), (-0.8, 1.5, 0.9), (0.0, 1.0, 2.0)]


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=repr)
def test_derivatives_of_activations(activation):
    c, a, b = torch.tensor(POINTS, dtype=torch.float64).T
    high, low = (activation.expectation(c + step, a, b) for step in (1e-5, -1e-5))
    assert_close(
        activation.derivative(c, a, b), (high - low) / 2e-5, rtol=1e-8, scale=1
    )
    inputs = [x.clone().requires_grad_() for x in (c, a, b)]
    assert torch.autograd.gradcheck(activation.derivative, inputs)


def test_series_agrees_with_the_closed_form():
    layers = conv(), Tanh(), Flatten()
    series = closed(*layers).replace(layer1=Elementwise(torch.tanh))
    images = random_images(3, 1, 3, 3)
    assert_close(cross(series, images), cross(closed(*layers), images), rtol=1e-6)
    assert_close(diag(series, images), diag(closed(*layers), images), rtol=1e-6)


@pytest.mark.parametrize(
    "network",
    [convnet(3, 3, kind="ntk"), convnet_gap(3, lattice=3, kind="ntk")],
    ids=repr,
)
def test_equal_images_are_exact_in_single_precision(network):
    images = random_images(3, 1, 6, 6)
    exact = torch.diagonal(cross(network, images))
    single = torch.diagonal(cross(network, images.float()))
    assert_close(single, exact, rtol=2e-6)
    assert_close(diag(network, images.float()), exact, rtol=2e-6)


@pytest.mark.parametrize(
    "network",
    [
        convnet(2, 3, 0.3, 0.2, kind="ntk"),
        convnet(1, 3, 0.3, 0.2, pooling="local", radius=1, kind="ntk"),
    ],
    ids=repr,
)
def test_derivatives_by_hyperparameters(network):
    images = random_images(2, 1, 3, 3)
    theta = torch.tensor(network.theta, requires_grad=True)
    learned = network.with_theta(theta)
    total = cross(learned, images)[0].sum() + diag(learned, images)[1]
    (found,) = torch.autograd.grad(total, theta)
    for i in range(len(theta)):
        ends = []
        for step in (1e-5, -1e-5):
            moved = network.theta + step * np.eye(len(theta))[i]
            at = network.with_theta(moved)
            ends.append(cross(at, images)[0].sum() + diag(at, images)[1])
        assert_close(found[i], (ends[0] - ends[1]) / 2e-5, rtol=1e-6)


@pytest.mark.parametrize(
    "network", [convnet, residual_convnet, resnet32, three_layer_convnet, dense, myrtle]
)
def test_named_networks_pass_their_kind_on(network):
    kernel = network(kind="ntk")
    assert kernel.layers.kind == "ntk"
    assert kernel.unshared().kind == "ntk"
    assert kernel.layers.replace(kind="nngp") == network().layers
    kernel.check((1, 8, 8))


def test_kernels_made_of_tangent_kernels():
    images = random_images(2, 1, 3, 3)
    network = convnet(1, 3, kind="ntk")
    expected = cross(network, images)
    assert_close(cross(2.0 * network + network, images), 3.0 * expected)
    exact = MaxNormalization(network, mode="exact", scale=4.0)
    assert_close(cross(exact, images), expected, rtol=1e-12)
    flipped = (expected + cross(network, images, images.flip(-1))) / 2
    assert_close(cross(FlipAverage(network), images), flipped, rtol=1e-12)
    assert_close(diag(FlipAverage(network), images), torch.diagonal(flipped))


@dataclass(repr=False)
class Opaque(Layer):
    is_spatial = False

    def out_shape(self, shape):
        return shape

    def image_pass(self, var):
        return var, None

    def pair_pass(self, maps, one, two):
        return maps.with_nngp(maps.nngp)


@pytest.mark.parametrize(
    ("network", "words"),
    [
        (convnet(kind="NTK"), "`kind` must be 'nngp' or 'ntk', got 'NTK'"),
        (closed(Opaque(), Flatten()), "Opaque.* has no neural tangent kernel"),
        (closed(convnet(kind="ntk")), "set `kind` of the whole network alone"),
        (closed(Scale(convnet(kind="ntk"))), "set `kind` of the whole network alone"),
    ],
    ids=["word", "opaque", "nested", "scaled"],
)
def test_networks_that_cannot_be_computed_say_why(network, words):
    with pytest.raises(ValueError, match=words):
        network.check((1, 4, 4))


def test_what_takes_covariances_refuses_tangent_kernels():
    network = convnet(1, 3, kind="ntk")
    images, generator = random_images(2, 1, 4, 4), torch.Generator()
    with pytest.raises(ValueError, match="take kind='nngp'"):
        literal_max_normalization(network.layers, images, images)
    with pytest.raises(TypeError, match="no finite twin"):
        sample_network(network, images, width=4, generator=generator)
    with pytest.raises(TypeError, match="not the covariance"):
        feature_map(network, (1, 4, 4), 8, generator)
