"""Kernels against wide random networks: what they are the limit of."""

import pytest
import torch
from torch import Tensor

from skconvgp.kernels import (
    GELU,
    Abs,
    Conv2d,
    Dense,
    Elementwise,
    Erf,
    Flatten,
    Identity,
    Kernel,
    LeakyReLU,
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
    dense,
    resnet32,
    three_layer_convnet,
)
from skconvgp.kernels._capabilities import sample_network
from tests.helpers.kernels import last_maps, name, random_images

WIDTH, DRAWS = 200, 100
# Means of DRAWS independent networks are compared with their standard error; 5 of
# them leave one false alarm in millions. The bias of finite width, of order
# depth / WIDTH, is allowed for beside it.
STANDARD_ERRORS, BIAS = 5.0, 1.5 / WIDTH

CONV = {"weight_variance": 1.6, "bias_variance": 0.2}

NETWORKS = {
    "same": Sequential(Conv2d(3, **CONV), ReLU(), Conv2d(3, **CONV)),
    "valid": Sequential(
        Conv2d(3, padding="valid", **CONV), ReLU(), Conv2d(2, padding="valid")
    ),
    "padding": Sequential(Conv2d(3, padding=2, **CONV), ReLU(), Conv2d(2, padding=1)),
    "circular": Sequential(
        Conv2d(3, padding="circular", **CONV),
        ReLU(),
        Conv2d(4, padding="circular", **CONV),
    ),
    "even": Sequential(Conv2d(4, **CONV), ReLU(), Conv2d(2, **CONV)),
    "stride": Sequential(Conv2d(3, stride=2, **CONV), ReLU(), Conv2d(2, stride=2)),
    "dilation": Sequential(
        Conv2d(3, dilation=2, **CONV), ReLU(), Conv2d(2, dilation=3)
    ),
    "oblong": Sequential(Conv2d((1, 4), **CONV), ReLU(), Conv2d((3, 2), stride=2)),
    "residual": Sequential(
        Conv2d(3, **CONV), Residual(ReLU(), Conv2d(3, **CONV)), Flatten(), Dense(**CONV)
    ),
    "sum": Sequential(
        Sum(Conv2d(3, **CONV), Conv2d((1, 2)), Conv2d(1)), ReLU(), Conv2d(1)
    ),
    "scale": Sequential(
        Conv2d(3, **CONV), ReLU(), Scale(Conv2d(3, **CONV), factor=2.5)
    ),
    "dense": Sequential(Flatten(), Dense(**CONV), ReLU(), Dense(**CONV)),
    "resnet block": Sequential(
        Conv2d(3, **CONV),
        ReLU(),
        Sum(
            Conv2d(1, stride=2),
            Sequential(Conv2d(3, stride=2, **CONV), ReLU(), Conv2d(3)),
        ),
        Residual(ReLU(), Conv2d(3), ReLU(), Conv2d(3)),
    ),
    "three_layer_convnet": three_layer_convnet(weight_variance=0.2).layers,
    "named dense": dense(depth=2).layers,
}
ACTIVATIONS = [
    Abs(),
    LeakyReLU(slope=0.2),
    Erf(),
    GELU(),
    Sin(),
    Identity(),
    Tanh(),
    Sigmoid(),
    SiLU(),
    Softplus(),
    Elementwise(torch.tanh),
]


def assert_is_the_limit(network: Kernel, images: Tensor) -> None:
    generator = torch.Generator().manual_seed(0)
    grams = []
    for _ in range(DRAWS):
        out = sample_network(
            network, images.float(), width=WIDTH, generator=generator
        ).double()
        grams.append(torch.einsum("nkhw,mkhw->hwnm", out, out) / WIDTH)
    sample = torch.stack(grams)
    error = sample.std(0) / DRAWS**0.5
    expected = last_maps(network, images)
    assert sample.shape[1:] == expected.shape
    var = expected.diagonal(dim1=-2, dim2=-1)
    scale = (var.unsqueeze(-1) * var.unsqueeze(-2)).sqrt()
    excess = (sample.mean(0) - expected).abs() - STANDARD_ERRORS * error - BIAS * scale
    assert float(excess.max()) <= 0.0
    # the comparison means something: the error is a small part of the covariance
    assert float((error / scale).mean()) < 0.02


# Its layers are those of "residual", and of the others.
NAMES = [name for name in NETWORKS if name != "resnet block"]
NAMES.append(pytest.param("resnet block", marks=pytest.mark.slow))


@pytest.mark.parametrize("name", NAMES)
def test_network_is_the_limit_of_wide_networks(name):
    assert_is_the_limit(NETWORKS[name], random_images(3, 2, 4, 5))


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=name)
def test_activation_is_the_limit_of_wide_networks(activation):
    network = Sequential(Conv2d(2, **CONV), activation, Conv2d(2, **CONV))
    assert_is_the_limit(network, random_images(3, 2, 3, 3))


def test_sampled_networks_are_repeatable_and_differ():
    network, images = NETWORKS["residual"], random_images(2, 1, 4, 4)
    draws = [
        sample_network(
            network, images, width=5, generator=torch.Generator().manual_seed(seed)
        )
        for seed in (0, 0, 1)
    ]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert draws[0].shape == (2, 5, 1, 1)


def test_resnet_can_be_sampled():
    generator = torch.Generator().manual_seed(0)
    images = random_images(2, 1, 8, 8)
    out = sample_network(resnet32().layers, images, width=3, generator=generator)
    assert out.shape == (2, 3, 1, 1)


def test_layer_without_finite_twin_is_refused():
    with pytest.raises(TypeError, match="has no finite twin"):
        sample_network(
            "relu", random_images(1, 1, 1, 1), width=1, generator=torch.Generator()
        )
