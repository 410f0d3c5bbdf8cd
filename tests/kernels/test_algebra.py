"""Sums, products, multiples; equality and repr."""

import numpy as np
import pytest
import torch

from skconvgp.kernels import (
    GELU,
    Abs,
    Conv2d,
    Dense,
    Flatten,
    LeakyReLU,
    Product,
    ReLU,
    Residual,
    Scale,
    Sequential,
    Sum,
    convnet,
    dot_product,
    matern,
    rbf,
)
from tests.helpers.kernels import assert_close, cross, diag, random_images

NETWORK = convnet(depth=1, kernel_size=2)
IMAGES = random_images(4, 1, 3, 3)
OTHERS = random_images(3, 1, 3, 3, seed=1)


def test_sum_adds_covariances():
    kernel = NETWORK + rbf(lengthscale=3.0) + dot_product()
    assert isinstance(kernel, Sum)
    terms = (NETWORK, rbf(lengthscale=3.0), dot_product())
    grams = sum(cross(term, IMAGES, OTHERS) for term in terms)
    assert_close(cross(kernel, IMAGES, OTHERS), grams)
    assert_close(diag(kernel, IMAGES), sum(diag(term, IMAGES) for term in terms))


def test_product_multiplies_covariances():
    kernel = NETWORK * rbf(lengthscale=3.0)
    assert isinstance(kernel, Product)
    gram = cross(NETWORK, IMAGES, OTHERS) * cross(rbf(lengthscale=3.0), IMAGES, OTHERS)
    assert_close(cross(kernel, IMAGES, OTHERS), gram)
    assert_close(diag(kernel, IMAGES), diag(NETWORK, IMAGES))


@pytest.mark.parametrize("factor", [2, 2.5, np.float64(2.5), np.float32(2.5)])
def test_numbers_scale_from_both_sides(factor):
    for kernel in (factor * NETWORK, NETWORK * factor):
        assert kernel == Scale(NETWORK, factor=float(factor))
        gram = float(factor) * cross(NETWORK, IMAGES, OTHERS)
        assert_close(cross(kernel, IMAGES, OTHERS), gram)
        assert_close(diag(kernel, IMAGES), float(factor) * diag(NETWORK, IMAGES))


@pytest.mark.parametrize("other", ["rbf", None, [1.0], 1j])
def test_other_things_do_not_combine(other):
    for combine in (
        lambda: NETWORK + other,
        lambda: other + NETWORK,
        lambda: NETWORK * other,
        lambda: other * NETWORK,
    ):
        with pytest.raises(TypeError, match=r"unsupported|can't multiply|can only"):
            combine()


def test_numbers_do_not_add():
    with pytest.raises(TypeError, match="unsupported operand"):
        NETWORK + 1.0


def test_combinations_are_as_spatial_as_their_parts():
    assert (NETWORK + rbf(1.0)).is_spatial
    assert (rbf(1.0) * NETWORK).is_spatial
    assert (2.0 * NETWORK).is_spatial
    assert not (2.0 * (rbf(1.0) + matern(1.0)) * rbf(1.0)).is_spatial


def test_positions_of_combinations_are_the_most_of_their_parts():
    shape = (1, 4, 5)
    assert NETWORK.n_positions(shape) == 20
    assert rbf(1.0).n_positions(shape) == 1
    for kernel in (NETWORK + rbf(1.0), rbf(1.0) * NETWORK, 2.0 * NETWORK):
        assert kernel.n_positions(shape) == 20


def test_sum_of_networks_is_the_network_of_the_sum():
    one, two = Conv2d(3, padding="valid"), Conv2d((3, 3), padding="valid")
    inside = Sequential(Sum(one, two), ReLU(), Dense())
    outside = one + two
    assert torch.equal(cross(outside, IMAGES), cross(Sequential(Sum(one, two)), IMAGES))
    inside.check((1, 3, 3))


@pytest.mark.parametrize(
    ("kernel", "shown"),
    [
        (ReLU(), "ReLU()"),
        (LeakyReLU(), "LeakyReLU()"),
        (LeakyReLU(slope=0.5), "LeakyReLU(slope=0.5)"),
        (Conv2d((3, 2), stride=2), "Conv2d(kernel_size=(3, 2), stride=2)"),
        (convnet(), "convnet()"),
        (convnet(depth=2, bias_variance=1.0), "convnet(depth=2, bias_variance=1.0)"),
        (
            rbf(2.0) + 2.0 * matern(3.0, nu=0.5),
            "Sum(rbf(lengthscale=2.0), Scale(kernel=matern(lengthscale=3.0, nu=0.5), "
            "factor=2.0))",
        ),
        (
            rbf(2.0) * dot_product(),
            "Product(rbf(lengthscale=2.0), dot_product())",
        ),
        (
            Sequential(Residual(GELU(), Conv2d(3)), Dense(bias_variance=1.0)),
            "Sequential(Residual(GELU(), Conv2d(kernel_size=3)), "
            "Dense(bias_variance=1.0))",
        ),
        (
            rbf(2.0, lengthscale_bounds="fixed"),
            "rbf(lengthscale=2.0, lengthscale_bounds='fixed')",
        ),
    ],
)
def test_repr_shows_what_differs_from_the_defaults(kernel, shown):
    assert repr(kernel) == shown


def test_equality_compares_parts():
    assert Sequential(ReLU(), Flatten()) == Sequential(ReLU(), Flatten())
    assert Sequential(ReLU()) != Sequential(Abs())
    assert Sequential(ReLU()) != Sequential(ReLU(), ReLU())
    assert Sequential(Conv2d(3)) != Sequential(Conv2d(3, bias_variance=0.1))
    assert Residual(ReLU()) != Residual(Abs())
    assert Residual(ReLU()) != Sequential(ReLU())
    assert Sum(rbf(1.0), matern(1.0)) != Sum(matern(1.0), rbf(1.0))
    assert Sum(rbf(1.0), matern(1.0)) != Product(rbf(1.0), matern(1.0))
    assert Scale(rbf(1.0)) != Scale(rbf(1.0), factor=2.0)
    assert convnet() != convnet(depth=2)
    assert ReLU() != Abs()
