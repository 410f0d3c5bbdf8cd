"""Samples with equal inputs are left out together, whatever they weigh."""

import warnings

import numpy as np
import pytest

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    NystromCompletedGPRegressor,
    gram_matrix,
)
from skconvgp.completion import NearestNeighbors, Nystrom
from skconvgp.kernels import rbf
from tests.helpers.estimators import blobs

NOISE = 0.1
# In the last, all samples are near each other.
REGRESSORS = {
    "exact": ConvNetGPRegressor(rbf(1.0)),
    "cg": ConvNetGPRegressor(rbf(1.0), solver="cg"),
    "completed": ConvNetGPRegressor(rbf(1.0), completion=Nystrom(n_landmarks=100)),
    "nystrom": NystromCompletedGPRegressor(rbf(1.0), n_landmarks=100),
    "neighbors": ConvNetGPRegressor(rbf(1.0), completion=NearestNeighbors(200)),
}
every_regressor = pytest.mark.parametrize("gp", REGRESSORS.values(), ids=REGRESSORS)


def noisy(n=80, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3.0, 3.0, (n, 1))
    return X, np.sin(X[:, 0]) + 0.5 * rng.normal(size=n)


def with_equal_inputs():
    """Return copies, and samples that were observed again, with weights."""
    X, y = noisy(20)
    order = [*range(20), 0, 0, 1, 2]
    again = y[order]
    again[22:] += 0.3
    weights = np.random.default_rng(1).choice([0.25, 1.0, 2.0], 24)
    return X[order], again, weights


@every_regressor
def test_left_out_predictions_are_those_of_fits_to_other_inputs(gp):
    X, y, weights = with_equal_inputs()
    gp.set_params(
        amplitude=1.0, noise_variance=NOISE, normalize_y=False, dtype="float64"
    )
    mean, std = gp.fit(X, y, weights).loo_predict(return_std=True)
    gram = gram_matrix(rbf(1.0), X)
    for i in range(24):
        rest = (X[i] != X)[:, 0]
        matrix = gram[np.ix_(rest, rest)] + np.diag(NOISE / weights[rest])
        gain = np.linalg.solve(matrix, gram[rest, i])
        total = weights[~rest].sum()
        var = 1.0 - gain @ gram[rest, i] + NOISE / min(total, 1.0)
        assert mean[i] == pytest.approx(gain @ y[rest], abs=1e-5)
        assert std[i] == pytest.approx(np.sqrt(var), abs=1e-5)


@every_regressor
def test_of_few_inputs_one_unit_is_left_out(gp):
    """Others are too few to tell of them, and each is observed again and again."""
    X, y = noisy(30)
    X = X[np.arange(30) % 7]
    gp.set_params(
        amplitude=1.0, noise_variance=NOISE, normalize_y=False, dtype="float64"
    )
    mean, std = gp.fit(X, y).loo_predict(return_std=True)
    gram = gram_matrix(rbf(1.0), X)
    for i in range(30):
        rest = np.delete(np.arange(30), i)
        matrix = gram[np.ix_(rest, rest)] + NOISE * np.eye(29)
        gain = np.linalg.solve(matrix, gram[rest, i])
        assert mean[i] == pytest.approx(gain @ y[rest], abs=1e-5)
        var = 1.0 - gain @ gram[rest, i] + NOISE
        assert std[i] == pytest.approx(np.sqrt(var), abs=1e-5)
    weights = np.tile([3, 1, 2], 10)
    gp.fit(X, y, weights)
    order = np.repeat(np.arange(30), weights)
    expected = gp.loo_predict(return_std=True)
    gp.fit(X[order], y[order])
    for got, once in zip(gp.loo_predict(return_std=True), expected, strict=True):
        np.testing.assert_allclose(got, once[order], rtol=1e-5)


@pytest.mark.parametrize("likelihood", ["gaussian", "dirichlet"])
def test_probabilities_of_few_inputs_are_those_of_their_labels(likelihood):
    rng = np.random.default_rng(0)
    X = np.arange(400)[:, None] % 4
    chance = np.array([0.1, 0.8, 0.3, 0.95])
    y = (rng.random(400) < chance[X[:, 0]]).astype(int)
    gp = ConvNetGPClassifier(rbf(1.0), likelihood=likelihood).fit(X, y)
    found = gp.predict_proba(np.arange(4)[:, None])[:, 1]
    np.testing.assert_allclose(found, chance, atol=0.1)


def test_without_noise_copies_are_left_out_with_all_digits():
    X = np.linspace(-3.0, 3.0, 9)[:, None]
    gp = ConvNetGPRegressor(rbf(1.0), amplitude=1.0, normalize_y=False, dtype="float64")
    gp.set_params(noise_variance=1e-10)
    once = gp.fit(X, np.sin(X[:, 0]), np.full(9, 2.0)).loo_predict(return_std=True)
    twice = gp.fit(np.repeat(X, 2, 0), np.sin(np.repeat(X[:, 0], 2)))
    for got, expected in zip(twice.loo_predict(return_std=True), once, strict=True):
        np.testing.assert_allclose(got[::2], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("word", ["auto", "loo"])
@pytest.mark.parametrize("name", [name for name in REGRESSORS if name != "cg"])
def test_copies_do_not_lead_to_no_noise(name, word):
    gp = REGRESSORS[name]
    X, y = noisy()
    X_test, _ = noisy(200, seed=1)
    gp.set_params(noise_variance=word, amplitude="profile", normalize_y=True)
    error = {}
    for times, weights in {"once": np.ones(80), "twice": np.full(80, 2.0)}.items():
        predicted = gp.fit(X, y, weights).predict(X_test)
        error[times] = np.sqrt(np.mean((predicted - np.sin(X_test[:, 0])) ** 2))
        assert gp.noise_variance_ * np.ravel(gp.amplitude_)[0] > 0.1**2
    assert error["twice"] < error["once"] + 0.05
    weighted = gp.noise_variance_
    gp.fit(np.repeat(X, 2, 0), np.repeat(y, 2))
    assert gp.noise_variance_ == pytest.approx(weighted, rel=1e-9)


@pytest.mark.filterwarnings("ignore:The hyperparameters that")
def test_a_search_by_leave_one_out_tells_of_copies():
    X, y = noisy(20)
    order = [*range(20), 0, 1]
    gp = ConvNetGPRegressor(rbf(1.0), optimizer="loo", random_state=0)
    with pytest.warns(UserWarning, match="9% of the samples are copies.*'evidence'"):
        gp.fit(X[order], y[order])
    again = y[order]
    again[20:] += 0.3  # observed anew, which tells of the noise
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "The hyperparameters that")
        gp.fit(X[order], again)
        gp.set_params(optimizer="evidence").fit(X[order], y[order])


@pytest.mark.parametrize("likelihood", ["gaussian", "dirichlet"])
def test_copies_are_not_what_probabilities_are_calibrated_on(likelihood):
    X, y = blobs(120)
    once = ConvNetGPClassifier(rbf(0.5), likelihood=likelihood, noise_variance=1e-3)
    twice = ConvNetGPClassifier(rbf(0.5), likelihood=likelihood, noise_variance=2e-3)
    once.fit(X[:60], y[:60])
    twice.fit(np.repeat(X[:60], 2, 0), np.repeat(y[:60], 2))
    losses = [
        -np.log(gp.predict_proba(X[60:])[np.arange(60), y[60:]]).mean()
        for gp in (once, twice)
    ]
    assert losses[1] < 1.1 * losses[0]
