"""Intervals of observations, against dense formulas and draws."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.gaussian_process.kernels import RBF

from skconvgp import (
    ConvNetGPRegressor,
    KernelFlowsRegressor,
    NystromCompletedGPRegressor,
    gram_diag,
    gram_matrix,
)
from skconvgp.flows import Adam
from skconvgp.kernels import rbf
from tests.helpers.estimators import wave

NOISE, AMPLITUDE = 0.1, 2.5
RNG = np.random.default_rng(0)
X, NEW = RNG.normal(size=(30, 2)), RNG.normal(size=(7, 2))
Y = np.column_stack([np.sin(X[:, 0]), 100.0 + 3.0 * X[:, 1]])


def dense(y, level, scale=1.0):
    """Ends of the intervals (n, k, 2) for a prior of mean zero and scaled targets."""
    gram = RBF(1.3)(X) + NOISE * np.eye(len(X))
    cross = RBF(1.3)(NEW, X)
    mean = cross @ np.linalg.solve(gram, y)
    var = 1.0 + NOISE - np.einsum("ij,ji->i", cross, np.linalg.solve(gram, cross.T))
    deviation = scale * np.sqrt(AMPLITUDE * var)[:, None]
    return np.stack(norm(mean, deviation).interval(level), axis=-1)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("normalize_y", [False, True])
def test_ends_are_quantiles_of_observations(level, normalize_y):
    gp = ConvNetGPRegressor(
        rbf(1.3), noise_variance=NOISE, amplitude=AMPLITUDE, normalize_y=normalize_y
    )
    offset = Y.mean(axis=0) if normalize_y else np.zeros(2)
    scale = Y.std(axis=0) if normalize_y else 1.0
    expected = dense(Y - offset, level, scale) + offset[:, None]
    both = gp.fit(X, Y).predict_interval(NEW, level=level)
    assert both.shape == (7, 2, 2)
    np.testing.assert_allclose(both, expected, rtol=1e-9)
    one = gp.fit(X, Y[:, 1]).predict_interval(NEW, level)
    assert one.shape == (7, 2)
    np.testing.assert_allclose(one, expected[:, 1], rtol=1e-9)


def test_the_level_is_nine_tenths_by_default():
    gp = ConvNetGPRegressor(rbf(1.3), noise_variance=NOISE, amplitude=AMPLITUDE)
    gp.set_params(normalize_y=False).fit(X, Y)
    np.testing.assert_allclose(gp.predict_interval(NEW), dense(Y, 0.9), rtol=1e-9)


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_draws_of_the_model_are_covered_as_often_as_promised(level):
    x = RNG.uniform(0.0, 10.0, size=(200, 1))
    gram = RBF(1.0)(x) + NOISE * np.eye(200)
    draws = np.linalg.cholesky(gram) @ RNG.normal(size=(200, 60))
    gp = ConvNetGPRegressor(
        rbf(1.0), noise_variance=NOISE, amplitude=1.0, normalize_y=False
    )
    low, high = np.moveaxis(
        gp.fit(x[:50], draws[:50]).predict_interval(x[50:], level=level), 2, 0
    )
    inside = (low <= draws[50:]) & (draws[50:] <= high)
    assert inside.mean() == pytest.approx(level, abs=0.02)


@pytest.mark.parametrize(
    "gp",
    [
        NystromCompletedGPRegressor(rbf(), n_landmarks=15, random_state=0),
        KernelFlowsRegressor(optimizer=Adam(max_iter=2), random_state=0),
    ],
    ids=repr,
)
def test_all_regressors_have_intervals(gp):
    x, y = wave(40)
    mean, std = gp.fit(x, y).predict_latent(x, return_std=True, noise=True)
    expected = np.stack(norm(mean, std).interval(0.8), axis=-1)
    np.testing.assert_allclose(gp.predict_interval(x, level=0.8), expected)


def test_a_given_matrix_needs_prior_variances():
    kernel = rbf(1.3)
    gp = ConvNetGPRegressor("precomputed").fit(gram_matrix(kernel, X), Y)
    cross, diag = gram_matrix(kernel, NEW, X), gram_diag(kernel, NEW)
    expected = ConvNetGPRegressor(kernel).fit(X, Y).predict_interval(NEW)
    got = gp.predict_interval(cross, diag=diag)
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    with pytest.raises(ValueError, match="pass `diag`"):
        gp.predict_interval(cross)


@pytest.mark.parametrize("level", [95, 0.0, 1.0, -0.1, np.nan, "0.9", None, True])
def test_wrong_levels_are_named(level):
    gp = ConvNetGPRegressor(rbf(1.3)).fit(X, Y)
    with pytest.raises(ValueError, match=rf"`level`.* between 0 and 1, got {level!r}"):
        gp.predict_interval(NEW, level=level)
