"""Closed-form leave-one-out against as many fits as there are samples."""

import numpy as np
import pytest
from sklearn.base import clone

from skconvgp import ConvNetGPClassifier, ConvNetGPRegressor, gram_diag
from skconvgp.kernels import rbf
from tests.helpers.estimators import (
    blobs,
    digits,
    label_probabilities,
    tiny_network,
    wave,
)


def without(array, i):
    return np.delete(array, i, axis=0)


def scaled_noise(kernel, X, i, noise):
    """Return the relative noise that is `noise` of the whole data, without sample i."""
    diag = gram_diag(kernel, X, dtype="float64")
    return noise * diag.mean() / without(diag, i).mean()


@pytest.mark.parametrize("name", ["rbf", "network"])
def test_regression_equals_literal_refits(name):
    X, y = digits(12) if name == "network" else wave(12)
    kernel = tiny_network() if name == "network" else rbf(1.0)
    settings = {"amplitude": None, "normalize_y": False, "dtype": "float64"}
    gp = ConvNetGPRegressor(kernel, noise_variance=0.05, **settings).fit(X, y)
    mean, std = gp.loo_predict(return_std=True)
    for i in range(12):
        noise = scaled_noise(kernel, X, i, 0.05)
        refit = ConvNetGPRegressor(kernel, noise_variance=noise, **settings)
        refit.fit(without(X, i), without(y, i))
        expected = refit.predict_latent(X[i : i + 1], return_std=True, noise=True)
        assert mean[i] == pytest.approx(expected[0][0], rel=1e-7)
        assert std[i] == pytest.approx(expected[1][0], rel=1e-6)


def test_regression_undoes_the_normalisation():
    X, y = wave(12)
    gp = ConvNetGPRegressor(rbf(1.0)).fit(X, y)
    centred = ConvNetGPRegressor(rbf(1.0), normalize_y=False).fit(X, y - y.mean())
    mean, std = gp.loo_predict(return_std=True)
    centred_mean, centred_std = centred.loo_predict(return_std=True)
    np.testing.assert_allclose(mean, centred_mean + y.mean(), rtol=1e-9)
    np.testing.assert_allclose(std, centred_std, rtol=1e-9)


def test_outputs_are_left_out_together():
    X, y = wave(15)
    both = np.column_stack([y, 100.0 * y**2])
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=1e-2).fit(X, both)
    mean, std = gp.loo_predict(return_std=True)
    assert mean.shape == std.shape == (15, 2)
    for i in range(2):
        single = clone(gp).fit(X, both[:, i]).loo_predict()
        np.testing.assert_allclose(mean[:, i], single)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classification_equals_literal_refits(n_classes):
    X, y = blobs(24, n_classes)
    gp = ConvNetGPClassifier(rbf(1.0), noise_variance=0.05).fit(X, y)
    latents, deviations = [], []
    for i in range(24):
        refit = ConvNetGPClassifier(
            rbf(1.0), noise_variance=0.05, amplitude=gp.amplitude_
        ).fit(without(X, i), without(y, i))
        mean, std = refit.predict_latent(X[i : i + 1], return_std=True)
        latents.append(mean[0])
        deviations.append(std[0])
    latents = np.array(latents)
    labels = gp.classes_[latents.argmax(1)]
    assert not (labels == y).all()  # the clouds overlap
    np.testing.assert_array_equal(gp.loo_predict(), labels)
    expected = label_probabilities(gp, latents, np.square(deviations))
    np.testing.assert_allclose(gp.loo_predict_proba(), expected, rtol=1e-6)


def test_probabilities_and_labels_agree():
    X, y = digits(40)
    words = np.array(list("abcdefghij"))[y]
    gp = ConvNetGPClassifier(tiny_network()).fit(X, words)
    probabilities = gp.loo_predict_proba()
    np.testing.assert_allclose(probabilities.sum(1), 1.0)
    np.testing.assert_array_equal(
        gp.loo_predict(), gp.classes_[probabilities.argmax(1)]
    )
