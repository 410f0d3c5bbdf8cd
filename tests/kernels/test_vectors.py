"""Kernels for vectors against scikit-learn and direct formulas."""

import math

import numpy as np
import pytest
import torch
from sklearn.gaussian_process import kernels as sk

from skconvgp.kernels import (
    Dense,
    Erf,
    Flatten,
    Sequential,
    arcsine,
    dot_product,
    matern,
    polynomial,
    rbf,
)
from tests.helpers.kernels import ROOT_RTOL, assert_close, cross, diag, random_images

PAIRS = [
    (rbf(1.0), sk.RBF()),
    (rbf(lengthscale=0.4), sk.RBF(0.4)),
    (matern(lengthscale=2.0, nu=0.5), sk.Matern(2.0, nu=0.5)),
    (matern(lengthscale=2.0), sk.Matern(2.0, nu=1.5)),
    (matern(lengthscale=0.7, nu=2.5), sk.Matern(0.7, nu=2.5)),
    (dot_product(bias_variance=2.25), sk.DotProduct(sigma_0=1.5)),
    (2.0 * rbf(1.0) + dot_product(), 2.0 * sk.RBF() + sk.DotProduct()),
    (rbf(1.0) * matern(1.0), sk.RBF() * sk.Matern()),
]
IDS = [repr(kernel) for kernel, _ in PAIRS]


def vectors(n: int, seed: int = 0) -> torch.Tensor:
    return random_images(n, 4, 1, 1, seed=seed)


def flat(images: torch.Tensor) -> np.ndarray:
    return images.reshape(len(images), -1).numpy()


@pytest.mark.parametrize(("kernel", "twin"), PAIRS, ids=IDS)
def test_cross_covariance_matches_scikit_learn(kernel, twin):
    one, two = vectors(5), vectors(4, seed=1)
    expected = twin(flat(one), flat(two))
    assert_close(cross(kernel, one, two), expected, scale=expected.max())


@pytest.mark.parametrize(("kernel", "twin"), PAIRS, ids=IDS)
def test_gram_and_variances_match_scikit_learn(kernel, twin):
    one = vectors(5)
    # distances of equal vectors are roots of rounding errors
    rtol = ROOT_RTOL[torch.float64]
    assert_close(cross(kernel, one), twin(flat(one)), rtol=rtol, scale=2.0)
    assert_close(diag(kernel, one), twin.diag(flat(one)))


@pytest.mark.parametrize("degree", [1, 2, 5])
def test_polynomial(degree):
    one, two = vectors(5), vectors(4, seed=1)
    kernel = polynomial(degree=degree, weight_variance=0.3, bias_variance=1.7)
    expected = (1.7 + 0.3 * flat(one) @ flat(two).T) ** degree
    assert_close(cross(kernel, one, two), expected, scale=np.abs(expected).max())


def test_polynomial_of_first_degree_is_the_dot_product():
    one = vectors(5)
    linear = cross(dot_product(bias_variance=0.4), one)
    assert torch.equal(cross(polynomial(degree=1, bias_variance=0.4), one), linear)


def test_arcsine():
    one, two = vectors(5), vectors(4, seed=1)
    kernel = arcsine(weight_variance=0.3, bias_variance=1.7)
    inner = 1.7 + 0.3 * flat(one) @ flat(two).T
    norms = [1.7 + 0.3 * (flat(part) ** 2).sum(1) for part in (one, two)]
    sides = np.outer(*(1 + 2 * norm for norm in norms))
    expected = 2 / math.pi * np.arcsin(2 * inner / np.sqrt(sides))
    assert_close(cross(kernel, one, two), expected, scale=1.0)


def test_arcsine_is_a_network_with_one_layer_of_erf():
    one = vectors(5)
    kernel = arcsine(weight_variance=0.3, bias_variance=1.7)
    # weights of a layer have their variance divided by the number of features
    hidden = Dense(weight_variance=0.3 * 4, bias_variance=1.7)
    network = Sequential(Flatten(), hidden, Erf(), Dense())
    assert_close(cross(kernel, one), cross(network, one), scale=1.0)


@pytest.mark.parametrize("kernel", [*(k for k, _ in PAIRS), polynomial(), arcsine()])
def test_images_are_flattened(kernel):
    images = random_images(3, 2, 3, 4)
    rows = images.reshape(3, 24, 1, 1)
    assert torch.equal(cross(kernel, images), cross(kernel, rows))
    assert torch.equal(diag(kernel, images), diag(kernel, rows))
    assert kernel.n_positions((2, 3, 4)) == 1
    assert not kernel.is_spatial


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_matern_of_equal_vectors_has_finite_derivatives(nu):
    one = vectors(2).requires_grad_()
    kernel = matern(1.0, nu=nu)
    (diag(kernel, one).sum() + cross(kernel, one).sum()).backward()
    assert bool(one.grad.isfinite().all())
