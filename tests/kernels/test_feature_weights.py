"""A weight variance for each feature, against scaled samples and scikit-learn."""

import copy
import pickle
import re

import numpy as np
import pytest
import torch
from sklearn.base import clone

from skconvgp import (
    ConvNetGPRegressor,
    KernelFeatures,
    KernelFlowsRegressor,
    gram_diag,
    gram_gradient,
    gram_matrix,
    gram_vjp,
)
from skconvgp.flows import Adam
from skconvgp.kernels import (
    Dense,
    Erf,
    Flatten,
    FlipAverage,
    LeakyReLU,
    OrbitAverage,
    ReLU,
    Residual,
    Sequential,
    Sum,
    Tanh,
    arcsine,
    dot_product,
    literal_max_normalization,
    polynomial,
    rbf,
)
from skconvgp.kernels._capabilities import sample_network
from skconvgp.kernels._feature_maps import feature_map

RNG = np.random.default_rng(0)
WEIGHTS = np.array([0.7, 3.0, 1.5, 0.2])
X, Y = RNG.normal(size=(9, 4)), RNG.normal(size=(5, 4))
EXACT = {"dtype": "float64"}


def network(weight_variance, kind="nngp", **settings):
    return Sequential(
        Flatten(),
        Dense(weight_variance, bias_variance=0.3, **settings),
        ReLU(),
        Dense(1.3, bias_variance=0.1),
        Tanh(),
        Dense(),
        kind=kind,
    )


# Kernels with such weights, and the same for samples that are scaled instead.
PAIRS = [
    (dot_product(0.4, WEIGHTS), dot_product(0.4)),
    (polynomial(3, WEIGHTS, 0.4), polynomial(3, 1.0, 0.4)),
    (arcsine(WEIGHTS, 0.4), arcsine(1.0, 0.4)),
    (2.0 * arcsine(tuple(WEIGHTS)), 2.0 * arcsine()),
    (network(WEIGHTS), network(1.0)),
    (network(list(WEIGHTS), kind="ntk"), network(1.0, kind="ntk")),
    (Dense(WEIGHTS, bias_variance=0.2), Dense(bias_variance=0.2)),
    (
        Sequential(network(WEIGHTS), Residual(Erf())),
        Sequential(network(1.0), Residual(Erf())),
    ),
]
each = pytest.mark.parametrize(("kernel", "twin"), PAIRS, ids=str)


@each
def test_weights_scale_the_features(kernel, twin):
    scaled, others = X * np.sqrt(WEIGHTS), Y * np.sqrt(WEIGHTS)
    for one, two in ((scaled, None), (scaled, others)):
        given = X, None if two is None else Y
        np.testing.assert_allclose(
            gram_matrix(kernel, *given, **EXACT),
            gram_matrix(twin, one, two, **EXACT),
            rtol=1e-9,
        )
    np.testing.assert_allclose(
        gram_diag(kernel, X, **EXACT), gram_diag(twin, scaled, **EXACT), rtol=1e-9
    )


def test_the_linear_kernel_has_a_diagonal_matrix():
    found = gram_matrix(dot_product(0.4, WEIGHTS), X, Y)
    np.testing.assert_allclose(found, 0.4 + X @ np.diag(WEIGHTS) @ Y.T, rtol=1e-12)
    weighted = gram_matrix(dot_product(0.4, 2.5), X, Y)
    np.testing.assert_allclose(weighted, 0.4 + 2.5 * X @ Y.T, rtol=1e-12)


def test_equal_weights_are_the_number():
    for kernel in (dot_product(0.3), arcsine(), polynomial(), network(1.0)):
        name = "layer1__weight_variance" if "Seq" in repr(kernel) else "weight_variance"
        each_one, common = (
            kernel.replace(**{name: value}) for value in (np.full(4, 1.7), 1.7)
        )
        np.testing.assert_allclose(
            gram_matrix(each_one, X, **EXACT), gram_matrix(common, X, **EXACT), 1e-12
        )


@each
def test_derivatives_are_finite_differences(kernel, twin):
    step, theta = 1e-5, kernel.theta
    weights = RNG.normal(size=(9, 5))
    gradient = gram_gradient(kernel, X, Y)[1]
    assert gradient.shape == (9, 5, len(theta))
    assert len(theta) == len(twin.theta) + 3 + isinstance(twin, dot_product)
    for i, shift in enumerate(step * np.eye(len(theta))):
        high, low = (
            gram_matrix(kernel.with_theta(theta + s), X, Y, **EXACT)
            for s in (shift, -shift)
        )
        slopes = (high - low) / (2 * step)
        np.testing.assert_allclose(gradient[..., i], slopes, atol=2e-8)
    pulled, by_inputs = gram_vjp(kernel, X, Y, weights)
    np.testing.assert_allclose(pulled, np.einsum("ij,ijp->p", weights, gradient))
    for feature in range(4):
        moved = step * np.eye(4)[feature]
        high, low = (gram_matrix(kernel, X + m, Y, **EXACT) for m in (moved, -moved))
        slope = (weights * (high - low)).sum(axis=1) / (2 * step)
        np.testing.assert_allclose(by_inputs[:, feature], slope, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kernel", [one for one, _ in PAIRS[:5]], ids=str)
def test_random_features_have_its_covariances(kernel):
    images = torch.as_tensor(X)[:, :, None, None]
    features = feature_map(
        kernel, (4, 1, 1), 20_000, torch.Generator().manual_seed(0), width=3000
    )(images)
    exact = gram_matrix(kernel, X, **EXACT)
    scale = np.sqrt(np.outer(np.diag(exact), np.diag(exact)))
    error = ((features @ features.T).numpy() - exact) / scale
    assert np.abs(error).max() < 0.1
    assert KernelFeatures(kernel, 30, random_state=0).fit_transform(X).shape[0] == 9


def test_finite_networks_have_its_covariances():
    images = torch.as_tensor(X).reshape(9, 2, 1, 2)
    flat = Sequential(Flatten(), Dense(WEIGHTS), LeakyReLU(0.1), Dense())
    generator = torch.Generator().manual_seed(0)
    drawn = sample_network(flat, images, width=4000, generator=generator)
    found = (drawn.flatten(1) @ drawn.flatten(1).T / 4000).numpy()
    exact = gram_matrix(flat, images.numpy(), **EXACT)
    np.testing.assert_allclose(found, exact, atol=0.1 * exact.max())


def test_hyperparameters_have_a_place_each():
    kernel = network(WEIGHTS, weight_variance_bounds=(0.1, 9.0))
    labels = [one.label for one in kernel.hyperparameters][:5]
    assert labels == [
        *(f"layer1__weight_variance[{i}]" for i in range(4)),
        "layer1__bias_variance",
    ]
    np.testing.assert_allclose(np.exp(kernel.bounds[:4]), [[0.1, 9.0]] * 4)
    assert len(dot_product().theta) == 1
    for one, _ in PAIRS:
        for twin in (clone(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
            assert twin == one
    assert arcsine(WEIGHTS) == arcsine(tuple(WEIGHTS)) != arcsine(WEIGHTS + 1.0)
    assert Dense(WEIGHTS) == Dense(list(WEIGHTS)) != Dense(1.0)


@pytest.mark.parametrize(
    "kernel",
    [
        arcsine(np.ones(2)),
        Sequential(Flatten(), Dense(np.ones(2), bias_variance=0.1), Erf(), Dense()),
    ],
    ids=str,
)
def test_searches_find_what_hardly_matters(kernel):
    x = RNG.normal(size=(60, 2))
    y = np.tanh(2.0 * x[:, 0]) + 0.05 * x[:, 1]
    gp = ConvNetGPRegressor(kernel, optimizer="evidence", noise_variance=1e-3).fit(x, y)
    start, found = kernel.theta, gp.kernel_.theta
    assert found[0] - found[1] > 2.0
    assert not np.allclose(found, start)
    flow = KernelFlowsRegressor(kernel, optimizer=Adam(20), random_state=0).fit(x, y)
    first, second = flow.kernel_.theta[:2]
    assert first > second


@pytest.mark.parametrize("kernel", [PAIRS[0][0], PAIRS[4][0]], ids=str)
def test_other_numbers_than_of_features_are_named(kernel):
    with pytest.raises(ValueError, match="each of the 3 features of X, got 4"):
        ConvNetGPRegressor(kernel).fit(X[:, :3], X[:, 0])


@pytest.mark.parametrize(
    "wrong", [(1.0, -1.0, 1.0, 1.0), np.ones((4, 1)), [np.nan] * 4, "four"], ids=str
)
def test_wrong_weights_are_named(wrong):
    for kernel in (arcsine(wrong), dot_product(1.0, wrong), network(wrong)):
        with pytest.raises(ValueError, match="`weight_variance` is a variance"):
            gram_matrix(kernel, X)


@pytest.mark.parametrize(
    "layers",
    [
        (Flatten(), Dense(), ReLU(), Dense(WEIGHTS)),
        (Flatten(), ReLU(), Dense(WEIGHTS)),
        (Flatten(), Sum(Dense(WEIGHTS), Dense()), ReLU(), Dense()),
        (Flatten(), 2.0 * Dense(WEIGHTS), ReLU(), Dense()),
    ],
    ids=str,
)
def test_other_layers_than_the_first_are_refused(layers):
    with pytest.raises(ValueError, match="only the first layer of a network can"):
        gram_matrix(Sequential(*layers), X)


def test_flips_and_turns_change_it():
    X_images = X.reshape(9, 1, 2, 2)
    for kernel in (network(WEIGHTS), arcsine(WEIGHTS)):
        with pytest.raises(ValueError, match="at the left and at the right"):
            FlipAverage(kernel).check((1, 2, 2))
        average = OrbitAverage(kernel, "quarter_turns")
        assert average.n_terms((1, 2, 2)) == 16
        turned = np.ascontiguousarray(np.rot90(X_images, axes=(2, 3)))
        np.testing.assert_allclose(
            gram_matrix(average, turned, X_images, **EXACT),
            gram_matrix(average, X_images, **EXACT),
        )
    FlipAverage(arcsine([1.0, 1.0, 2.0, 2.0])).check((1, 2, 2))


def test_the_fused_backend_says_why_it_does_not():
    gp = ConvNetGPRegressor(network(WEIGHTS)).fit(X, X[:, 0])
    assert gp.backend_ == "torch"
    with pytest.raises(ValueError, match=re.escape("has a number for each feature")):
        gram_matrix(network(WEIGHTS), X, backend="fused")
    images = torch.as_tensor(X).reshape(9, 1, 2, 2)
    with pytest.raises(ValueError, match="one weight variance for each layer"):
        literal_max_normalization(network(WEIGHTS), images, images)
    additive = network(WEIGHTS) + rbf(1.0)
    assert gram_matrix(additive, X).shape == (9, 9)
