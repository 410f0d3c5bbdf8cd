"""Kernels of some columns, and additive models made of them."""

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
    gram_gradient,
    gram_matrix,
    gram_vjp,
)
from skconvgp.flows import Adam
from skconvgp.kernels import (
    FlipAverage,
    OnColumns,
    convnet,
    dense,
    dot_product,
    matern,
    rbf,
)
from skconvgp.kernels._feature_maps import feature_map

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(9, 5)), RNG.normal(size=(6, 5))
PARTS = [
    (rbf(1.3), [4, 1]),
    (matern([1.0, 2.0, 3.0], nu=2.5), (0, 2, 3)),
    (dot_product(0.3), [2]),
    (dense(depth=1), range(1, 4)),
]
ADDITIVE = rbf(1.3).on([4, 1]) + 0.5 * matern(2.0).on(0) * dot_product().on([2, 3])


@pytest.mark.parametrize(("kernel", "columns"), PARTS, ids=repr)
def test_values_are_those_of_the_columns(kernel, columns):
    own, given = kernel.on(columns), list(columns)
    kind = {"dtype": "float64", "backend": "torch"}
    for one, two in ((X, X), (X, Y)):
        expected = gram_matrix(kernel, one[:, given], two[:, given], **kind)
        np.testing.assert_array_equal(gram_matrix(own, one, two, **kind), expected)


def test_columns_of_images_are_in_the_order_of_rows():
    images = RNG.normal(size=(4, 2, 3, 2))
    kernel = convnet(depth=1, kernel_size=3) + rbf(2.0).on([0, 7, 11])
    expected = gram_matrix(convnet(depth=1, kernel_size=3), images, dtype="float64")
    expected += gram_matrix(rbf(2.0), images.reshape(4, 12)[:, [0, 7, 11]])
    np.testing.assert_allclose(gram_matrix(kernel, images, dtype="float64"), expected)


def test_derivatives_are_finite_differences():
    step, theta = 1e-5, ADDITIVE.theta
    weights = RNG.normal(size=(9, 6))
    pulled, by_inputs = gram_vjp(ADDITIVE, X, Y, weights)
    gradient = gram_gradient(ADDITIVE, X, Y)[1]
    assert gradient.shape == (9, 6, 4)
    for i, shift in enumerate(step * np.eye(4)):
        high, low = (
            gram_matrix(ADDITIVE.with_theta(theta + s), X, Y) for s in (shift, -shift)
        )
        np.testing.assert_allclose(
            gradient[..., i], (high - low) / (2 * step), atol=1e-8
        )
    np.testing.assert_allclose(pulled, np.einsum("ij,ijp->p", weights, gradient))
    for feature in range(5):
        moved = step * np.eye(5)[feature]
        high, low = (gram_matrix(ADDITIVE, X + m, Y) for m in (moved, -moved))
        slope = (weights * (high - low)).sum(axis=1) / (2 * step)
        np.testing.assert_allclose(by_inputs[:, feature], slope, atol=1e-8)


def test_a_median_is_that_of_the_columns():
    kernel = rbf().on([1, 3]) + rbf()
    resolved = kernel.resolve(X)
    assert resolved == rbf().resolve(X[:, [1, 3]]).on([1, 3]) + rbf().resolve(X)
    assert resolved.resolve(X) is resolved
    gp = ConvNetGPRegressor(kernel).fit(X, X[:, 0])
    assert gp.kernel_ == resolved


def test_settings_are_those_of_the_kernel():
    kernel = rbf(2.0).on([1, 3])
    assert repr(kernel) == "OnColumns(kernel=rbf(lengthscale=2.0), columns=(1, 3))"
    assert [one.label for one in kernel.hyperparameters] == ["kernel__lengthscale"]
    for twin in (
        clone(kernel),
        pickle.loads(pickle.dumps(kernel)),
        OnColumns(rbf(2.0), np.array([1, 3])),
    ):
        assert twin == kernel
    assert kernel != rbf(2.0).on([3, 1])
    assert rbf(2.0).on(1) == rbf(2.0).on((1,))
    assert kernel.replace(columns=[0]).columns == [0]


def test_additive_models_learn_sums_of_functions():
    x = RNG.uniform(-2.0, 2.0, size=(200, 4))
    y = np.sin(2.0 * x[:, 0]) + x[:, 1] ** 2 - np.cos(3.0 * x[:, 2]) + np.tanh(x[:, 3])
    additive = rbf().on(0) + rbf().on(1) + rbf().on(2) + rbf().on(3)
    errors = [
        np.abs(
            ConvNetGPRegressor(kernel, optimizer="evidence", noise_variance=1e-4)
            .fit(x[:60], y[:60])
            .predict(x[60:])
            - y[60:]
        ).mean()
        for kernel in (additive, rbf())
    ]
    assert errors[0] < 0.3 * errors[1]
    # An objective that is named decides alone, and not the left-out samples.
    flow = KernelFlowsRegressor(
        additive, optimizer=Adam(5), objective="loo_nlpd", random_state=0
    ).fit(x, y)
    assert not np.isclose(flow.kernel_.theta, additive.resolve(x).theta).any()


def test_random_features_are_those_of_the_columns():
    kernel = rbf(1.3).on([4, 1]) + 2.0 * dot_product(0.3).on(2) + dense(1).on([0, 3])
    images = torch.as_tensor(X)[:, :, None, None]
    features = feature_map(
        kernel, (5, 1, 1), 60_000, torch.Generator().manual_seed(0), width=2000
    )
    approximate = (features(images) @ features(images).T).numpy()
    exact = gram_matrix(kernel, X, dtype="float64")
    np.testing.assert_allclose(approximate, exact, atol=0.05)
    np.testing.assert_allclose(np.diag(approximate), np.diag(exact))
    assert KernelFeatures(kernel, 30, random_state=0).fit_transform(X).shape[0] == 9


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (5, "positions from 0 to 4, as X has 5 features, got (5,)"),
        (-1, "got -1"),
        ([], "got ()"),
        ([0, 1.0], "got (0, 1.0)"),
        ([True], "got (True,)"),
        ("age", "list(X.columns).index(name)"),
        (["age"], "list(X.columns).index(name)"),
        (slice(2), "got slice"),
        ([1, 2, 1], "names a column twice: (1, 2, 1)"),
    ],
)
def test_wrong_columns_are_named(columns, words):
    for kernel in (rbf(1.0).on(columns), rbf().on(columns)):
        with pytest.raises(ValueError, match=re.escape(words)):
            ConvNetGPRegressor(kernel).fit(X, X[:, 0])


def test_kernels_that_do_not_fit_are_named():
    with pytest.raises(ValueError, match="each of the 2 features of X, got 3"):
        gram_matrix(rbf([1.0, 1.0, 1.0]).on([0, 1]), X)
    with pytest.raises(ValueError, match="must be made of kernels, got None"):
        gram_matrix(OnColumns(None, 0), X)
    with pytest.raises(ValueError, match=r"flips change.*OnColumns.*not known"):
        FlipAverage(rbf(1.0).on(0)).check((1, 2, 2))
