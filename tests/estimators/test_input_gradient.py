"""Derivatives of latent means by the inputs, against differences."""

import numpy as np
import pytest

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    NystromCompletedGP,
    gram_matrix,
)
from skconvgp.completion import (
    CoarseKernel,
    EnsembleNystrom,
    NearestNeighbors,
    Nystrom,
    SubsetOfData,
)
from skconvgp.kernels import convnet, dense, rbf
from tests.helpers.estimators import blobs, digits, tiny_network

EXACT = {"dtype": "float64", "random_state": 0}
STEP = 1e-5


def models():
    images, labels = digits(40)
    points, three = blobs(30)
    coarse = CoarseKernel(kernel=tiny_network())
    return {
        "images": (ConvNetGPClassifier(tiny_network(), **EXACT), images, labels),
        "rows": (
            ConvNetGPClassifier(tiny_network(), image_shape=(8, 8), **EXACT),
            images.reshape(40, 64),
            labels,
        ),
        "vectors": (ConvNetGPClassifier(rbf(1.0), **EXACT), points, three),
        "flattened": (ConvNetGPClassifier(dense(2), **EXACT), images, labels),
        "outputs": (ConvNetGPRegressor(rbf(1.0), **EXACT), points, 3.0 + 2.0 * points),
        "completed": (
            ConvNetGPClassifier(rbf(1.0), completion=Nystrom(10), **EXACT),
            points,
            three,
        ),
        "ensemble": (
            ConvNetGPClassifier(rbf(1.0), completion=EnsembleNystrom(2, 6), **EXACT),
            points,
            three,
        ),
        "subset": (
            ConvNetGPClassifier(rbf(1.0), completion=SubsetOfData(), **EXACT),
            points,
            three,
        ),
        "coarse": (
            ConvNetGPClassifier(convnet(depth=2), completion=coarse, **EXACT),
            images,
            labels,
        ),
        "sum": (
            ConvNetGPClassifier(
                convnet(depth=2),
                completion=CoarseKernel(depth=1, exact=Nystrom(10)),
                **EXACT,
            ),
            images,
            labels,
        ),
        "landmarks": (
            NystromCompletedGP(rbf(1.0), n_landmarks=10, **EXACT),
            points,
            three,
        ),
        "dirichlet": (
            ConvNetGPClassifier(rbf(1.0), likelihood="dirichlet", **EXACT),
            points,
            three,
        ),
    }


@pytest.mark.parametrize("name", models())
def test_derivatives_are_those_of_differences(name):
    model, X, y = models()[name]
    model.fit(X, y)
    some = X[:3]
    direction = np.random.default_rng(0).normal(size=some.shape)
    ahead, behind = (
        model.predict_latent(some + sign * STEP * direction) for sign in (1.0, -1.0)
    )
    expected = ((ahead - behind) / (2.0 * STEP)).reshape(3, -1)
    gradient = model.latent_gradient(some)
    assert gradient.shape == (3, expected.shape[1], *X.shape[1:])
    found = (gradient * direction[:, None]).reshape(3, expected.shape[1], -1).sum(2)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found, expected, atol=1e-6 * scale)


@pytest.mark.parametrize("name", ["images", "outputs"])
def test_weights_add_up_the_latent_functions(name):
    model, X, y = models()[name]
    gradient = model.fit(X, y).latent_gradient(X[:4])
    weights = np.random.default_rng(1).normal(size=gradient.shape[:2])
    expected = np.einsum("ik,ik...->i...", weights, gradient)
    found = model.latent_gradient(X[:4], weights=weights)
    np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max())


def test_weights_of_another_shape_are_refused():
    X, y = blobs(30)
    gp = ConvNetGPClassifier(rbf(1.0)).fit(X, y)
    with pytest.raises(ValueError, match=r"shape \(2, 3\), got \(2, 2\)"):
        gp.latent_gradient(X[:2], weights=np.ones((2, 2)))


def test_without_a_sum_of_covariances_there_are_no_derivatives():
    X, y = blobs(30)
    gram = gram_matrix(rbf(1.0), X)
    near = ConvNetGPClassifier(rbf(1.0), completion=NearestNeighbors(5)).fit(X, y)
    for gp, inputs in (
        (ConvNetGPClassifier("precomputed").fit(gram, y), gram),
        (near, X),
    ):
        with pytest.raises(ValueError, match="Derivatives by inputs need a kernel"):
            gp.latent_gradient(inputs)
