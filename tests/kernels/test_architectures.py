"""Named networks: what they expand to."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import torch

from skconvgp import gram_matrix
from skconvgp.kernels import (
    Conv2d,
    Dense,
    Flatten,
    Kernel,
    ReLU,
    Residual,
    Sequential,
    Sum,
    convnet,
    dense,
    residual_convnet,
    resnet32,
    three_layer_convnet,
)
from tests.helpers.kernels import assert_close, cross, deviations, random_images

NAMED = [
    convnet(depth=2, kernel_size=3),
    residual_convnet(depth=3, kernel_size=2),
    resnet32(),
    three_layer_convnet(),
    dense(depth=2),
]


def leaves(layer: Kernel) -> list[Kernel]:
    parts = getattr(layer, "parts", ())
    return [leaf for part in parts for leaf in leaves(part)] or [layer]


def with_full_convolution(network: Sequential, size: int) -> Sequential:
    """Replace the first `Flatten`, `Dense` by a valid convolution of full size."""
    layers = list(network.layers)
    first = next(i for i, layer in enumerate(layers) if isinstance(layer, Flatten))
    readout = layers[first + 1]
    full = Conv2d(
        size,
        padding="valid",
        weight_variance=readout.weight_variance,
        bias_variance=readout.bias_variance,
    )
    return Sequential(*layers[:first], full, *layers[first + 2 :])


def test_convnet_is_the_published_network():
    layers = convnet().layers.layers
    assert len(layers) == 7 * 2 + 2
    for conv, relu in zip(layers[:14:2], layers[1:14:2], strict=True):
        assert isinstance(relu, ReLU)
        assert (conv.kernel_size, conv.stride, conv.padding) == (7, 1, "same")
        assert conv.weight_variance == pytest.approx(136.71, rel=1e-14)
        assert conv.bias_variance == 7.86
    assert layers[14:] == (Flatten(), Dense(weight_variance=2.79, bias_variance=7.86))


def test_residual_convnet_is_the_published_network():
    layers = residual_convnet().layers.layers
    assert len(layers) == 8 + 4
    for block in layers[:8]:
        assert isinstance(block, Residual)
        assert isinstance(block.layers[1], ReLU)
        assert len(block.layers) == 2
    convs = [block.layers[0] for block in layers[:8]] + [layers[8]]
    for conv in convs:
        assert (conv.kernel_size, conv.stride, conv.padding) == (4, 1, "same")
        assert conv.weight_variance == pytest.approx(116.32, rel=1e-14)
        assert conv.bias_variance == 4.69
    readout = Dense(weight_variance=7.27, bias_variance=4.69)
    assert layers[9:] == (ReLU(), Flatten(), readout)


def test_resnet32_is_the_published_network():
    layers = resnet32().layers.layers
    assert layers[0] == Conv2d(3)
    assert layers[-4:] == (Flatten(), Dense(), ReLU(), Dense())
    groups = layers[1:-4]
    assert len(groups) == 3 * (2 + 4)
    for stride, start in ((1, 0), (2, 6), (2, 12)):
        relu, first, *rest = groups[start : start + 6]
        assert relu == ReLU()
        branch = Sequential(Conv2d(3, stride=stride), ReLU(), Conv2d(3))
        assert first == Sum(Conv2d(1, stride=stride), branch)
        assert rest == [Residual(ReLU(), Conv2d(3), ReLU(), Conv2d(3))] * 4
    counts = Counter(type(leaf) for leaf in leaves(resnet32().layers))
    # 1 + 30 + 3 projections; the published last two layers are the dense ones
    assert counts[Conv2d] == 34
    assert counts[Dense] == 2
    assert counts[ReLU] == 3 * (2 + 4 * 2) + 1
    assert resnet32().layers.out_shape((28, 28)) == (1, 1)
    assert Sequential(*layers[:-4]).out_shape((28, 28)) == (7, 7)


def test_three_layer_convnet():
    variances = {"weight_variance": 0.5 * 9, "bias_variance": 0.2}
    network = three_layer_convnet(weight_variance=0.5, bias_variance=0.2)
    assert network.layers == Sequential(
        Conv2d(3, **variances),
        ReLU(),
        Conv2d(3, stride=2, **variances),
        ReLU(),
        Flatten(),
        Dense(weight_variance=0.5, bias_variance=0.2),
    )
    assert Sequential(*network.layers.layers[:4]).out_shape((28, 28)) == (14, 14)


def test_dense_network():
    layer = Dense(weight_variance=1.5, bias_variance=0.3)
    network = dense(depth=2, weight_variance=1.5, bias_variance=0.3)
    assert network.layers == Sequential(Flatten(), layer, ReLU(), layer, ReLU(), layer)


@pytest.mark.parametrize(
    ("kernel", "size", "last_map"),
    [
        (convnet(depth=2, kernel_size=3), 6, 6),
        (residual_convnet(depth=3, kernel_size=2), 6, 6),
        (three_layer_convnet(), 6, 3),
        (resnet32(), 8, 2),
    ],
    ids=repr,
)
def test_readout_equals_the_published_full_convolution(kernel, size, last_map):
    images = random_images(3, 1, size, size)
    gram = cross(with_full_convolution(kernel.layers, last_map), images)
    assert_close(cross(kernel, images), gram, scale=deviations(gram))


@pytest.mark.parametrize("kernel", NAMED, ids=repr)
def test_network_equals_its_layers(kernel):
    images = random_images(3, 1, 5, 4)
    assert torch.equal(cross(kernel, images), cross(kernel.layers, images))


@pytest.mark.parametrize("kernel", NAMED, ids=repr)
def test_every_network_takes_single_pixels(kernel):
    kernel.check((5, 1, 1))
    assert cross(kernel, random_images(3, 5, 1, 1)).shape == (3, 3)


@pytest.mark.parametrize("kernel", NAMED, ids=repr)
def test_unshared_is_the_same_kernel(kernel):
    images = random_images(3, 1, 5, 4)
    own = kernel.unshared()
    assert kernel.shared_variances
    assert not own.shared_variances
    assert torch.equal(cross(own, images), cross(kernel, images))
    n_affine = sum(isinstance(leaf, Conv2d | Dense) for leaf in leaves(kernel.layers))
    assert len(own.weight_variance) == len(own.bias_variance) == n_affine
    assert own.unshared() == own


def test_unshared_convnet_has_sixteen_hyperparameters():
    kernel = convnet().unshared()
    assert len(kernel.theta) == 16
    assert len(convnet().theta) == 2
    labels = [item.label for item in kernel.hyperparameters]
    assert labels[0] == "weight_variance[0]"
    assert labels[-1] == "bias_variance[7]"
    assert kernel.weight_variance == pytest.approx([136.71] * 7 + [2.79], rel=1e-14)
    assert kernel.bias_variance == (7.86,) * 8


def test_variances_of_layers_are_used_in_order():
    weights, biases = (1.0, 2.0, 3.0), (0.1, 0.2, 0.3)
    for kernel in (convnet(depth=2), three_layer_convnet(), dense(depth=2)):
        own = kernel.replace(
            shared_variances=False, weight_variance=weights, bias_variance=biases
        )
        affine = [
            leaf for leaf in leaves(own.layers) if isinstance(leaf, Conv2d | Dense)
        ]
        assert tuple(layer.weight_variance for layer in affine) == weights
        assert tuple(layer.bias_variance for layer in affine) == biases


def test_variances_of_resnet_are_used_in_order():
    kernel = resnet32().unshared()
    n_layers = len(kernel.weight_variance)
    weights = tuple(float(i + 1) for i in range(n_layers))
    kernel = kernel.replace(weight_variance=weights)
    affine = [
        leaf for leaf in leaves(kernel.layers) if isinstance(leaf, Conv2d | Dense)
    ]
    used = [layer.weight_variance for layer in affine]
    assert all(one < two for one, two in pairwise(used))
    assert tuple(used) == weights


@pytest.mark.parametrize(
    "settings",
    [
        {"weight_variance": (1.0, 2.0, 3.0)},
        {"bias_variance": (1.0, 2.0, 3.0)},
        {"shared_variances": False},
        {"shared_variances": False, "weight_variance": (1.0, 2.0, 3.0)},
        {
            "shared_variances": False,
            "weight_variance": [1.0, 2.0, 3.0],
            "bias_variance": [1.0, 2.0, 3.0],
        },
    ],
)
def test_mixing_shared_and_own_variances_is_refused(settings):
    with pytest.raises(ValueError, match=r"must be a number with shared_variances="):
        convnet(depth=2, **settings).check((1, 4, 4))


def test_wrong_number_of_variances_is_refused():
    kernel = convnet(
        depth=2,
        shared_variances=False,
        weight_variance=(1.0, 2.0),
        bias_variance=(1.0, 2.0, 3.0),
    )
    message = r"`weight_variance` must have 3 values, readout last, got 2"
    with pytest.raises(ValueError, match=message):
        kernel.check((1, 4, 4))


def test_layers_are_built_once_for_given_settings():
    kernel, X = convnet(depth=2, kernel_size=3), np.ones((2, 1, 4, 4))
    assert convnet(depth=2, kernel_size=3).built is kernel.built
    before = gram_matrix(kernel, X)
    kernel.layers.set_params(layer0__weight_variance=1e3)  # of a chain of one's own
    np.testing.assert_array_equal(gram_matrix(kernel, X), before)
    kernel.set_params(weight_variance=5.0)
    assert kernel.built.get_params()["layer0__weight_variance"] == 45.0
    assert (gram_matrix(kernel, X) != before).all()
