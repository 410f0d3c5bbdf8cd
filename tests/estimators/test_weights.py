"""Sample weights: a weight of two is two samples, a weight of zero is none."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from skconvgp import (
    BayesianNetworkClassifier,
    BayesianNetworkRegressor,
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    NystromCompletedGP,
    PatchGPRegressor,
    gram_matrix,
)
from skconvgp.completion import Nystrom, RandomFeatures
from skconvgp.exceptions import ScaleWarning
from skconvgp.kernels import dot_product, rbf
from tests.helpers.estimators import blobs, digits, wave

TOLERANCE = 1e-7


def repeated(X, y, weights):
    return np.repeat(X, weights, axis=0), np.repeat(y, weights, axis=0)


def whole_weights(n, seed=1):
    weights = np.random.default_rng(seed).integers(0, 4, n)
    assert {0, 1, 2, 3} == set(weights)
    return weights


@pytest.mark.parametrize(
    "settings",
    [{}, {"normalize_y": False}, {"amplitude": 2.0}, {"amplitude": None}],
    ids=str,
)
@pytest.mark.parametrize("kernel", [rbf(1.0), dot_product()], ids=repr)
def test_regression_weights_equal_repetitions(kernel, settings):
    X, y = wave(25)
    weights = whole_weights(25)
    test = np.linspace(-1.0, 7.0, 9)[:, None]
    weighted = ConvNetGPRegressor(kernel, **settings).fit(X, y, weights)
    many = ConvNetGPRegressor(kernel, **settings).fit(*repeated(X, y, weights))
    assert weighted.amplitude_ == pytest.approx(many.amplitude_, rel=TOLERANCE)
    np.testing.assert_allclose(weighted.y_mean_, many.y_mean_, rtol=TOLERANCE)
    for got, expected in zip(
        weighted.predict(test, return_std=True),
        many.predict(test, return_std=True),
        strict=True,
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=TOLERANCE)
    evidence = many.log_marginal_likelihood()
    assert weighted.log_marginal_likelihood() == pytest.approx(evidence, rel=TOLERANCE)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classification_weights_equal_repetitions(n_classes):
    X, y = blobs(60, n_classes)
    weights = whole_weights(40)
    weighted = ConvNetGPClassifier(rbf(1.0), noise_variance=1e-2)
    weighted.fit(X[:40], y[:40], weights)
    many = ConvNetGPClassifier(rbf(1.0), noise_variance=1e-2)
    many.fit(*repeated(X[:40], y[:40], weights))
    assert weighted.temperature_ == pytest.approx(many.temperature_, rel=TOLERANCE)
    for method in ("predict_proba", "decision_function", "predict_latent"):
        np.testing.assert_allclose(
            getattr(weighted, method)(X[40:]),
            getattr(many, method)(X[40:]),
            atol=TOLERANCE,
        )
    evidence = many.log_marginal_likelihood()
    assert weighted.log_marginal_likelihood() == pytest.approx(evidence, rel=TOLERANCE)


def test_leave_one_out_leaves_all_of_the_repetitions():
    X, y = wave(25)
    weights = whole_weights(25)
    weighted = ConvNetGPRegressor(rbf(1.0)).fit(X, y, weights)
    many = ConvNetGPRegressor(rbf(1.0)).fit(*repeated(X, y, weights))
    present = weights[weights > 0]
    for got, expected in zip(
        weighted.loo_predict(return_std=True),
        many.loo_predict(return_std=True),
        strict=True,
    ):
        np.testing.assert_allclose(np.repeat(got, present), expected, atol=TOLERANCE)


def test_leave_one_out_probabilities_leave_all_of_the_repetitions():
    X, y = blobs(40)
    weights = whole_weights(40)
    weighted = ConvNetGPClassifier(rbf(1.0), noise_variance=1e-2).fit(X, y, weights)
    many = ConvNetGPClassifier(rbf(1.0), noise_variance=1e-2)
    many.fit(*repeated(X, y, weights))
    present = weights[weights > 0]
    np.testing.assert_allclose(
        np.repeat(weighted.loo_predict_proba(), present, axis=0),
        many.loo_predict_proba(),
        atol=TOLERANCE,
    )


@pytest.mark.parametrize("word", ["loo", "evidence"])
def test_noise_is_chosen_as_for_repetitions(word):
    X, y = wave(30)
    weights = whole_weights(30)
    weighted = ConvNetGPRegressor(rbf(1.0), noise_variance=word).fit(X, y, weights)
    many = ConvNetGPRegressor(rbf(1.0), noise_variance=word)
    many.fit(*repeated(X, y, weights))
    assert weighted.noise_variance_ == pytest.approx(many.noise_variance_)


def test_weights_of_zero_remove_samples():
    X, y = wave(20)
    weights = np.tile([1.0, 0.0], 10)
    spoiled = np.where(weights > 0, y, 1e6)
    gp = ConvNetGPRegressor(rbf(1.0)).fit(X, spoiled, weights)
    kept = ConvNetGPRegressor(rbf(1.0)).fit(X[::2], y[::2])
    np.testing.assert_array_equal(gp.predict(X), kept.predict(X))
    np.testing.assert_array_equal(gp.loo_predict(), kept.loo_predict())
    np.testing.assert_array_equal(gp.X_train_, X[::2])
    assert gp.fit_report_.n_samples == 10


def test_class_with_weights_of_zero_is_no_class():
    X, y = blobs(30)
    gp = ConvNetGPClassifier(rbf(1.0)).fit(X, y, y != 1)
    assert list(gp.classes_) == [0, 2]
    assert gp.predict_proba(X).shape == (30, 2)


def test_only_one_class_with_weight_is_refused():
    X, y = blobs(30)
    with pytest.raises(ValueError, match="one class"):
        ConvNetGPClassifier(rbf(1.0)).fit(X, y, y == 1)


def test_weights_of_zero_are_dropped_from_a_precomputed_matrix():
    X, y = wave(20)
    weights = np.tile([1.0, 0.0, 2.0, 1.0], 5)
    gram = gram_matrix(rbf(1.0), X)
    precomputed = ConvNetGPRegressor("precomputed").fit(gram, y, weights)
    direct = ConvNetGPRegressor(rbf(1.0)).fit(X, y, weights)
    np.testing.assert_allclose(precomputed.predict(gram), direct.predict(X), rtol=1e-7)
    np.testing.assert_allclose(precomputed.loo_predict(), direct.loo_predict())


@pytest.mark.parametrize("cls", [ConvNetGPClassifier, ConvNetGPRegressor])
def test_equal_weights_change_only_the_relative_noise(cls):
    X, y = blobs(30)
    heavy = cls(rbf(1.0), noise_variance=0.04).fit(X, y, np.full(30, 4.0))
    plain = cls(rbf(1.0), noise_variance=0.01).fit(X, y)
    np.testing.assert_allclose(heavy.predict(X), plain.predict(X), rtol=1e-9)


@pytest.mark.parametrize(
    "model",
    [
        ConvNetGPRegressor(),
        ConvNetGPClassifier(),
        NystromCompletedGP(n_landmarks=20),
        PatchGPRegressor(n_inducing=20),
        BayesianNetworkRegressor(max_iter=4, n_draws=2),
        BayesianNetworkClassifier(max_iter=4, n_draws=2, calibrate=False),
    ],
    ids=lambda model: type(model).__name__,
)
def test_weights_that_sum_to_one_are_told(model):
    X, y = digits(50)
    match = "weights sum to 1, and 50 samples count as so many of weight 1"
    with pytest.warns(ScaleWarning, match=match):
        model.fit(X, y, sample_weight=np.full(50, 0.02))


def told_of(model, X, y, weights):
    """Return the categories of the warnings of a fit."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y, weights)
    return [one.category for one in caught]


FEW = np.arange(200) < 12


@pytest.mark.parametrize(
    ("weights", "is_told"),
    [
        (np.full(200, 0.11), False),
        (np.full(200, 0.09), True),
        (np.where(FEW, 1.0, 1e-9), False),  # the others are as good as left out
        (np.where(FEW, 0.09, 1e-9), True),
        (np.where(np.arange(200), 0.002, 0.6), True),  # one is heavy: all sum to 1
        (np.where(FEW, 1 / 12, 1 / 188), True),  # each class as one sample
    ],
    ids=["even", "even, small", "few", "few, small", "one heavy", "classes"],
)
def test_weights_that_are_too_small_are_told(weights, is_told):
    X, y = wave(200)
    told = told_of(ConvNetGPRegressor(rbf(1.0)), X, y, weights)
    assert told == is_told * [ScaleWarning]


def test_a_model_within_a_model_does_not_tell_again():
    X, y = wave(60)
    model = BayesianNetworkRegressor(max_iter=4, n_draws=2)
    told = told_of(model, X, y, np.full(60, 0.01))
    assert told.count(ScaleWarning) == 1


@pytest.mark.parametrize(
    "model",
    [
        NystromCompletedGP(rbf(1.0), n_landmarks=20),
        ConvNetGPClassifier(rbf(1.0), completion=Nystrom(20)),
        ConvNetGPClassifier(rbf(1.0), completion=RandomFeatures(20)),
    ],
    ids=repr,
)
def test_weights_that_single_precision_turns_into_0_are_refused(model):
    X, y = blobs(60)
    weights = np.where(np.arange(60) == 3, 1e-50, 1.0)
    model = clone(model).set_params(solve_dtype="float32", random_state=0)
    with pytest.raises(ValueError, match="set tiny weights to 0"):
        model.fit(X, y, sample_weight=weights)
