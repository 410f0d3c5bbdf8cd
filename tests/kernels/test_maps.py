"""The value that layers pass on: covariances, and whatever else a layer carries."""

from dataclasses import dataclass, replace

import pytest
import torch

from skconvgp.kernels import Identity, Layer, Maps, ReLU, Sequential


@dataclass(repr=False)
class Carrying(Layer):
    """Third-party layer that doubles covariances and triples tangent kernels."""

    @property
    def is_spatial(self):
        return False

    def out_shape(self, shape):
        return shape

    def image_pass(self, var):
        return 2.0 * var, None

    def pair_pass(self, maps, one, two):
        return replace(maps, nngp=2.0 * maps.nngp, ntk=3.0 * maps.ntk)


@dataclass(repr=False)
class Plain(Carrying):
    """Third-party layer that knows of covariances alone."""

    def pair_pass(self, maps, one, two):
        return maps.with_nngp(maps.nngp)


def passed(network, maps):
    _, trace = network.image_pass(torch.ones(2, 2, 3))
    return network.pair_pass(maps, trace, trace)


@pytest.fixture
def maps():
    nngp = torch.rand(2, 2, 3, 3, generator=torch.Generator().manual_seed(0))
    return Maps(nngp, ntk=nngp + 1.0)


def test_a_network_passes_on_all_that_its_layers_carry(maps):
    found = passed(Sequential(Carrying(), Carrying()), maps)
    torch.testing.assert_close(found.nngp, 4.0 * maps.nngp)
    torch.testing.assert_close(found.ntk, 9.0 * maps.ntk)


def test_a_layer_of_covariances_alone_drops_a_tangent_kernel(maps):
    assert passed(Sequential(Carrying(), Plain()), maps).ntk is None


def test_which_positions_are_covered_is_passed_on(maps):
    every = replace(maps, covers="all")
    assert passed(Sequential(Carrying(), Identity()), every).covers == "all"
    assert passed(ReLU(), maps).covers == "equal"
