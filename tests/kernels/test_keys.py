"""Equal settings are equal keys, and what they determine is computed once."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from skconvgp.kernels import (
    Conv2d,
    Dense,
    Elementwise,
    Flatten,
    GlobalAvgPool2d,
    PatchKernel,
    ReLU,
    Residual,
    Sequential,
    Sum,
    convnet,
    matern,
    rbf,
)
from skconvgp.kernels._keys import NoKeyError, by_settings, settings_key

KERNELS = [
    lambda: convnet(depth=2),
    lambda: convnet(depth=2, kind="ntk"),
    lambda: Sequential(Conv2d(3), ReLU(), Flatten(), Dense()),
    lambda: Sequential(Conv2d(3), Residual(ReLU(), Conv2d(3)), Flatten(), Dense()),
    lambda: Sequential(Flatten(), Dense(), Elementwise(torch.tanh), Dense()),
    lambda: 2.0 * rbf(3.0) + matern(np.array([1.0, 2.0])),
    lambda: 2.0 * rbf(3.0) + matern(np.array([1.0, 3.0])),
    lambda: rbf((1.0, 2.0)),
    lambda: rbf(1.0),
    lambda: rbf(True),
    lambda: Sum(rbf(1.0)),
    lambda: PatchKernel(patch_size=3),
    lambda: PatchKernel(patch_size=3).resolve(np.eye(8)[None] + np.zeros((9, 1, 1))),
]


def test_equal_kernels_share_a_key_and_others_do_not():
    keys = [settings_key(make()) for make in KERNELS]
    assert keys == [settings_key(make()) for make in KERNELS]
    assert len(set(keys)) == len(keys)


def test_a_key_follows_the_settings():
    network = Sequential(Flatten(), Dense())
    before = settings_key(network)
    network.set_params(layer1__weight_variance=2.0)
    assert settings_key(network) != before
    network.set_params(layer1__weight_variance=1.0)
    assert settings_key(network) == before


@dataclass(repr=False)
class Third(ReLU):
    size: float = 1.0


class Told(Third):
    def cache_key(self):
        return "version 1", self.size


def tanh(x):
    return torch.tanh(x)


@pytest.mark.parametrize(
    "kernel",
    [
        Third(),
        rbf(torch.tensor(1.0)),
        Sequential(Flatten(), Dense(), Elementwise(tanh), Dense()),
        Sequential(Flatten(), Dense(torch.tensor(1.0))),
    ],
)
def test_kernels_that_nobody_knows_have_no_key(kernel):
    with pytest.raises(NoKeyError):
        settings_key(kernel)


def test_a_class_of_a_third_party_tells_its_key():
    assert settings_key(Told(2.0)) == settings_key(Told(2.0)) != settings_key(Told(3.0))


def test_results_are_kept_for_a_kernel_as_it_was():
    seen = []

    @by_settings
    def layers(network, name):
        seen.append(name)
        return network.layers

    network = Sequential(Flatten(), Dense())
    first = layers(network, "a")
    assert layers(Sequential(Flatten(), Dense()), "a") is first
    network.set_params(layer1__weight_variance=2.0)
    assert first[1].weight_variance == 1.0
    assert layers(network, "a")[1].weight_variance == 2.0
    unknown = Sequential(Third())
    assert layers(unknown, "b") is unknown.layers is layers(unknown, "b")
    assert seen == ["a", "a", "b", "b"]


def test_a_network_that_gets_a_pool_has_one():
    network = Sequential(Conv2d(3), ReLU(), Flatten(), Dense())
    assert network.n_position_pairs((1, 4, 4)) == 16
    network.set_params(layer2=GlobalAvgPool2d())
    assert network.n_position_pairs((1, 4, 4)) > 16
    network.set_params(layer0__kernel_size=0)
    for _ in range(2):
        with pytest.raises(ValueError, match="kernel_size"):
            network.check((1, 4, 4))
