"""Averages over flips in estimators."""

import numpy as np
import pytest
from sklearn.svm import SVC

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    KernelFlowsClassifier,
    NystromCompletedGP,
    as_sklearn_kernel,
    gram_matrix,
)
from skconvgp.flows import Adam
from skconvgp.kernels import FlipAverage, rbf, three_layer_convnet
from tests.helpers.estimators import DensePosterior, digits, tiny_network

KERNEL = FlipAverage(tiny_network())
X, Y = digits(60)
X_NEW, _ = digits(5, start=60)


def flipped(images):
    return np.ascontiguousarray(images[..., ::-1])


def test_left_out_images_are_left_out_with_their_flips():
    targets = np.column_stack([X.mean((1, 2, 3)), X[:, 0, 3, 2]])
    gp = ConvNetGPRegressor(KERNEL, noise_variance=0.01, dtype="float64")
    gp.fit(X, targets)
    four = [
        gram_matrix(tiny_network(), one, two, dtype="float64")
        for one in (X, flipped(X))
        for two in (X, flipped(X))
    ]
    gram, i = sum(four) / 4, 7
    others = np.arange(len(X)) != i
    centred = targets - targets.mean(0)
    dense = DensePosterior(
        gram[others][:, others], centred[others], 0.01, mean_diag=np.diag(gram).mean()
    )
    weights = dense.inverse @ dense.targets / dense.mean_diag
    expected = gram[i, others] @ weights + targets.mean(0)
    np.testing.assert_allclose(gp.loo_predict()[i], expected, rtol=1e-6)
    values = gp.predict(X_NEW)
    np.testing.assert_allclose(gp.predict(flipped(X_NEW)), values, rtol=1e-9)


@pytest.mark.parametrize(
    "estimator",
    [
        ConvNetGPClassifier(KERNEL),
        ConvNetGPClassifier(
            FlipAverage(rbf(20.0)), optimizer="evidence", noise_variance=0.1
        ),
        NystromCompletedGP(KERNEL, n_landmarks=20, random_state=0),
        KernelFlowsClassifier(
            2.0 * KERNEL, optimizer=Adam(max_iter=2), batch_size=20, random_state=0
        ),
        SVC(kernel=as_sklearn_kernel(KERNEL, image_shape=(8, 8))),
    ],
    ids=lambda one: type(one).__name__,
)
def test_predictions_are_the_same_for_flipped_images(estimator):
    X_train, X_test = X.reshape(60, 64), X_NEW.reshape(5, 64)
    if not isinstance(estimator, SVC):
        estimator.set_params(image_shape=(8, 8))
    estimator.fit(X_train, Y)
    mirrored = flipped(X_NEW).reshape(5, 64)
    values = estimator.decision_function(X_test)
    again = estimator.decision_function(mirrored)
    np.testing.assert_allclose(again, values, rtol=1e-4, atol=1e-4)


def test_a_fit_refuses_kernels_that_flips_change():
    for kernel in (three_layer_convnet(), tiny_network() + three_layer_convnet()):
        with pytest.raises(ValueError, match="layer2 of a Sequential, Conv2d"):
            ConvNetGPClassifier(FlipAverage(kernel)).fit(X, Y)
    with pytest.raises(ValueError, match="single column"):
        ConvNetGPClassifier(FlipAverage(rbf()), image_shape=None).fit(
            X.reshape(60, 64), Y
        )
