"""Intervals of observations, against dense formulas and draws."""

import math

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF

from skconvgp import (
    ConvNetGPRegressor,
    KernelFlowsRegressor,
    NystromCompletedGPRegressor,
    gram_diag,
    gram_matrix,
)
from skconvgp.completion import NearestNeighbors, RandomFeatures
from skconvgp.flows import Adam
from skconvgp.kernels import rbf

NOISE, AMPLITUDE = 0.1, 2.5
RNG = np.random.default_rng(0)
X, NEW = RNG.normal(size=(30, 2)), RNG.normal(size=(7, 2))
REGRESSORS = [
    ConvNetGPRegressor(rbf(), random_state=0),
    ConvNetGPRegressor(rbf(), completion=NearestNeighbors(40), random_state=0),
    NystromCompletedGPRegressor(rbf(), n_landmarks=30, random_state=0),
    KernelFlowsRegressor(rbf(), optimizer=Adam(max_iter=2), random_state=0),
]
Y = np.column_stack([np.sin(X[:, 0]), 100.0 + 3.0 * X[:, 1]])


def skewed(n, seed=0):
    """Return points in the plane and noisy numbers, whose noise is skewed."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-3.0, 3.0, size=(n, 2))
    return x, np.sin(x[:, 0]) + x[:, 1] + 0.4 * rng.exponential(size=n)


def dense(y, level, scale=1.0):
    """Ends of the intervals (n, k, 2) for a prior of mean zero and scaled targets.

    Their half is as many deviations as that left-out target is off of which there are
    enough; if all are too few, that of a normal distribution counts, too.
    """
    gram = RBF(1.3)(X) + NOISE * np.eye(len(X))
    inverse = np.linalg.inv(gram)
    errors = (inverse @ y) / np.sqrt(AMPLITUDE * np.diag(inverse))[:, None] / scale
    place = math.ceil((len(X) + 1) * level - 1e-9) - 1
    sizes = np.sort(np.abs(errors), axis=0)
    half = (
        sizes[place]
        if place < len(X)
        else np.maximum(sizes[-1], norm.ppf(0.5 + level / 2.0))
    )
    cross = RBF(1.3)(NEW, X)
    mean = cross @ inverse @ y
    var = 1.0 + NOISE - np.einsum("ij,jk,ik->i", cross, inverse, cross)
    deviation = scale * np.sqrt(AMPLITUDE * var)[:, None]
    return np.stack([mean - half * deviation, mean + half * deviation], axis=-1)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("normalize_y", [False, True])
def test_ends_are_those_that_left_out_targets_ask_for(level, normalize_y):
    gp = ConvNetGPRegressor(
        rbf(1.3), noise_variance=NOISE, amplitude=AMPLITUDE, normalize_y=normalize_y
    )
    offset = Y.mean(axis=0) if normalize_y else np.zeros(2)
    scale = Y.std(axis=0) if normalize_y else np.ones(2)
    expected = dense(Y - offset, level, scale) + offset[:, None]
    both = gp.fit(X, Y).predict_interval(NEW, level=level)
    assert both.shape == (7, 2, 2)
    np.testing.assert_allclose(both, expected, rtol=1e-9)
    one = gp.fit(X, Y[:, 1]).predict_interval(NEW, level)
    assert one.shape == (7, 2)
    np.testing.assert_allclose(one, expected[:, 1], rtol=1e-9)
    assert gp.fit_report_.deviation_factors == (1.0,)  # the amplitude was given


def test_the_level_is_nine_tenths_by_default():
    gp = ConvNetGPRegressor(rbf(1.3), noise_variance=NOISE, amplitude=AMPLITUDE)
    gp.set_params(normalize_y=False).fit(X, Y)
    np.testing.assert_allclose(gp.predict_interval(NEW), dense(Y, 0.9), rtol=1e-9)


@pytest.mark.parametrize("gp", REGRESSORS, ids=repr)
def test_deviations_are_as_large_as_left_out_targets_are_off(gp):
    x, y = skewed(120)
    both = np.column_stack([y, 5.0 * np.cos(x[:, 0])])
    gp = clone(gp).fit(x, both)
    mean, std = gp.loo_predict(return_std=True)
    factors = np.array(gp.fit_report_.deviation_factors)
    others = np.setdiff1d(np.arange(120), getattr(gp, "landmark_indices_", []))
    squares = np.square((both - mean) / std)[others]
    # The prior of the logarithm of a variance is worth one sample.
    total = (squares * factors**2).sum(0)
    n, logs = len(others), np.log(factors**2)
    np.testing.assert_allclose((n + logs) * factors**2, total, rtol=1e-6)
    assert len(set(factors)) == 2
    assert "left out     deviations times" in str(gp.fit_report_)


@pytest.mark.parametrize("gp", REGRESSORS, ids=repr)
@pytest.mark.parametrize("level", [0.5, 0.9])
def test_skewed_targets_are_covered_as_often_as_promised(gp, level):
    shares = []
    for seed in range(10):
        x, y = skewed(500, seed)
        fitted = clone(gp).fit(x[:100], y[:100])
        low, high = fitted.predict_interval(x[100:], level).T
        shares.append(((low <= y[100:]) & (y[100:] <= high)).mean())
    assert np.mean(shares) == pytest.approx(level, abs=0.03)


def test_intervals_of_samples_of_a_weight_are_those_of_copies():
    x, y = skewed(40)
    weights = np.random.default_rng(1).integers(0, 4, 40)
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=0.1)
    expected = clone(gp).fit(np.repeat(x, weights, axis=0), np.repeat(y, weights))
    gp.fit(x, y, weights)
    for level in (0.3, 0.8, 0.97):
        ends = expected.predict_interval(x, level)
        np.testing.assert_allclose(gp.predict_interval(x, level), ends, rtol=1e-7)


def test_an_output_that_never_changes_says_nothing():
    x, y = skewed(40)
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=0.1)
    with pytest.warns(UserWarning, match="column 1"):
        both = clone(gp).fit(x, np.column_stack([y, np.full(40, 3.0)]))
    assert both.fit_report_.deviation_factors[1] == 1.0
    one = clone(gp).fit(x, y)
    np.testing.assert_allclose(
        both.predict_interval(x)[:, 0], one.predict_interval(x), rtol=1e-7
    )
    std = both.predict_latent(x, return_std=True, noise=True)[1][:, 1]
    widths = np.diff(both.predict_interval(x, 0.9)[:, 1], axis=1)[:, 0]
    np.testing.assert_allclose(widths, 2.0 * norm.ppf(0.95) * std, rtol=1e-7)


def test_neighbours_with_all_numbers_given_leave_few_out():
    x, y = skewed(800)
    gp = ConvNetGPRegressor(
        rbf(1.0),
        completion=NearestNeighbors(20),
        noise_variance=0.1,
        amplitude=1.0,
    ).fit(x, y)
    again = clone(gp).fit(x, y)
    assert gp._training.errors.sizes.shape == (1, 300)
    np.testing.assert_array_equal(gp.predict_interval(x), again.predict_interval(x))


def test_further_samples_change_factors_as_one_fit_would():
    x, y = skewed(120)
    settings = {"completion": RandomFeatures(60), "noise_variance": 0.1}
    whole = ConvNetGPRegressor(rbf(2.0), random_state=0, **settings).fit(x, y)
    parts = ConvNetGPRegressor(rbf(2.0), random_state=0, normalize_y=False, **settings)
    shifted = (y - y.mean()) / y.std()
    for some in (slice(0, 70), slice(70, 120)):
        parts.partial_fit(x[some], shifted[some])
    found, expected = (gp.fit_report_.deviation_factors for gp in (parts, whole))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    ends = whole.predict_interval(x, 0.8)
    np.testing.assert_allclose(
        parts.predict_interval(x, 0.8) * y.std() + y.mean(), ends, rtol=1e-5
    )


@pytest.mark.filterwarnings("ignore:All targets are the same")
@pytest.mark.parametrize("n", [1, 2, 3])
def test_very_few_samples_have_finite_intervals(n):
    x, y = skewed(n)
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=0.1).fit(x, y)
    low, high = gp.predict_interval(x + 0.1).T
    assert np.isfinite(low).all()
    assert (high > low).all()


def test_draws_have_the_deviations_that_are_predicted():
    x, y = skewed(60)
    for gp, method in (
        (ConvNetGPRegressor(rbf(1.0), noise_variance=0.1), "joint"),
        (ConvNetGPRegressor(rbf(1.0), noise_variance=0.1), "pathwise"),
    ):
        draws = gp.fit(x, y).sample_y(x[:5], 4000, random_state=0, method=method)
        std = gp.predict(x[:5], return_std=True)[1]
        assert gp.fit_report_.deviation_factors[0] != 1.0
        np.testing.assert_allclose(draws.std(1), std, rtol=0.08)


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
