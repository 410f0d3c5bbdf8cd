"""Classifiers are not sure of images that are unlike their training images."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline

from skconvgp import (
    ConvNetGPClassifier,
    ImageClassifier,
    KernelFlowsClassifier,
    NystromCompletedGP,
    PatchGPClassifier,
    gram_matrix,
)
from skconvgp.completion import NearestNeighbors
from skconvgp.datasets import load_digits_images
from skconvgp.flows import Adam
from skconvgp.kernels import rbf
from skconvgp.transforms import ScatteringTransform

N = 250
CLASSIFIERS = {
    "ImageClassifier": ImageClassifier(random_state=0),
    "PatchGPClassifier": PatchGPClassifier(random_state=0),
    "PatchGPClassifier, dirichlet": PatchGPClassifier(
        likelihood="dirichlet", random_state=0
    ),
    "ConvNetGPClassifier": ConvNetGPClassifier(),
    "ConvNetGPClassifier, dirichlet": ConvNetGPClassifier(likelihood="dirichlet"),
    "NystromCompletedGP": NystromCompletedGP(n_landmarks=100, random_state=0),
    "KernelFlowsClassifier": KernelFlowsClassifier(
        optimizer=Adam(max_iter=2), random_state=0
    ),
    "scattering": make_pipeline(ScatteringTransform(), ConvNetGPClassifier(rbf())),
}
every_classifier = pytest.mark.parametrize("name", CLASSIFIERS)


def digits():
    X, y = load_digits_images(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X = X.reshape(-1, 1, 8, 8)[order].astype(np.float32)
    return X[:N], y[order][:N], X[N : N + 800], y[order][N : N + 800]


def final(model):
    return model[-1] if hasattr(model, "steps") else model


@pytest.fixture(scope="module")
def fitted():
    """Return each classifier, fitted once."""
    models = {}

    def get(name):
        if name not in models:
            X, y, *_ = digits()
            models[name] = clone(CLASSIFIERS[name]).fit(X, y)
        return models[name]

    return get


@every_classifier
def test_noise_blank_and_inverted_images_get_no_sure_label(fitted, name):
    X_test = digits()[2]
    rng = np.random.default_rng(1)
    strange = {
        "noise": rng.random((100, 1, 8, 8)),
        "blank": np.repeat([0.0, 0.5, 1.0], 64).reshape(3, 1, 8, 8),
        "inverted": 1.0 - X_test[:100],
    }
    for images in strange.values():
        largest = fitted(name).predict_proba(images.astype(np.float32)).max(1)
        assert largest.mean() <= 0.7
        assert largest.max() <= 0.95


@every_classifier
def test_ordinary_images_lose_next_to_nothing(fitted, name):
    _, _, X_test, y_test = digits()
    model = fitted(name)
    found = model.predict_proba(X_test)
    gp = final(model)
    calibration = gp.calibration_
    assert calibration.familiarity is not None
    gp.calibration_ = replace(calibration, familiarity=None)
    before = model.predict_proba(X_test)
    gp.calibration_ = calibration
    assert log_loss(y_test, found) < log_loss(y_test, before) + 0.005
    np.testing.assert_array_equal(found.argmax(1), before.argmax(1))
    np.testing.assert_allclose(found.sum(1), 1.0)


@every_classifier
def test_training_images_stay_familiar(fitted, name):
    X, y, *_ = digits()
    found = fitted(name).predict_proba(X)
    assert (found[np.arange(N), y] > 0.9).mean() > 0.9


@every_classifier
def test_scores_have_the_order_of_probabilities(fitted, name):
    X_test = digits()[2][:50]
    model = fitted(name)
    scores, found = model.decision_function(X_test), model.predict_proba(X_test)
    powers = np.exp(scores - scores.max(1, keepdims=True))
    np.testing.assert_allclose(powers / powers.sum(1, keepdims=True), found, atol=1e-9)


def test_neighbours_and_given_matrices_know_the_means_alone():
    X, y, X_test, _ = digits()
    rows, new = X.reshape(N, -1), X_test[:20].reshape(20, -1)
    gp = ConvNetGPClassifier(rbf(), completion=NearestNeighbors(30)).fit(rows, y)
    spans = gp.calibration_.familiarity.spans
    assert {"variance", "contrast"} <= set(spans)
    assert "prior" not in spans
    kernel = rbf(3.0)
    gp = ConvNetGPClassifier("precomputed").fit(gram_matrix(kernel, rows), y)
    assert set(gp.calibration_.familiarity.spans) == {"distance", "norm"}
    found = gp.predict_proba(gram_matrix(kernel, new, rows))
    np.testing.assert_allclose(found.sum(1), 1.0)


def test_batches_show_the_same_as_one_fit():
    X, y, *_ = digits()
    whole = PatchGPClassifier(random_state=0, noise_variance=0.05).fit(X, y)
    batches = PatchGPClassifier(random_state=0, noise_variance=0.05)
    for some in (slice(0, 100), slice(100, N)):
        batches.partial_fit(X[some], y[some], classes=np.unique(y))
    one, other = (gp._training.shown for gp in (whole, batches))
    np.testing.assert_array_equal(one.numbers, other.numbers)
    np.testing.assert_array_equal(one.weights, other.weights)
