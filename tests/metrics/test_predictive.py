"""Scores of predictive means and deviations against scipy's normal distribution."""

import numpy as np
import pytest
from scipy.stats import norm

from skconvgp import ConvNetGPRegressor
from skconvgp.kernels import rbf
from skconvgp.metrics import (
    interval_coverage,
    interval_width,
    negative_log_predictive_density,
)

OF_PREDICTIONS = [negative_log_predictive_density, interval_coverage]


def predictions(*shape, seed=0):
    rng = np.random.default_rng(seed)
    mean, std = rng.normal(size=shape), rng.uniform(0.5, 2.0, size=shape)
    return rng.normal(mean, std), mean, std


def width_of_predictions(y_true, y_mean, y_std, **settings):
    return interval_width(y_std, **settings)


SCORES = [*OF_PREDICTIONS, width_of_predictions]


def test_density_is_that_of_scipy():
    y, mean, std = predictions(30)
    expected = -norm(mean, std).logpdf(y).mean()
    density = negative_log_predictive_density(y, mean, std)
    assert density == pytest.approx(expected)
    assert isinstance(density, float)


def test_density_by_hand():
    density = negative_log_predictive_density([3.0], [1.0], [2.0])
    assert density == pytest.approx(0.5 * np.log(2.0 * np.pi) + np.log(2.0) + 0.5)


def test_density_moves_with_the_unit_of_y():
    y, mean, std = predictions(20)
    density = negative_log_predictive_density(y, mean, std)
    scaled = negative_log_predictive_density(10 * y + 3, 10 * mean + 3, 10 * std)
    assert scaled == pytest.approx(density + np.log(10.0))


def test_density_is_least_for_the_true_deviation():
    y, mean, std = predictions(4000)
    true = negative_log_predictive_density(y, mean, std)
    assert true < negative_log_predictive_density(y, mean, 0.8 * std)
    assert true < negative_log_predictive_density(y, mean, 1.25 * std)


@pytest.mark.parametrize("level", [0.05, 0.5, 0.95, np.float32(0.5)])
def test_coverage_counts_what_lies_between_the_quantiles(level):
    y, mean, std = predictions(200)
    low, high = norm(mean, std).interval(float(level))
    expected = sum(a <= t <= b for a, t, b in zip(low, y, high, strict=True)) / 200
    coverage = interval_coverage(y, mean, std, level=level)
    assert coverage == pytest.approx(expected)
    width = interval_width(std, level=level)
    assert width == pytest.approx((high - low).mean())


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_true_deviations_cover_what_they_promise(level):
    y, mean, std = predictions(20000)
    assert interval_coverage(y, mean, std, level=level) == pytest.approx(
        level, abs=0.01
    )
    assert interval_coverage(y, mean, 0.5 * std, level=level) < level - 0.1
    assert interval_coverage(y, mean, 2.0 * std, level=level) > level + 0.05


def test_interval_without_width_holds_its_mean_only():
    assert interval_coverage([1.0, 2.0], [1.0, 1.0], [0.0, 0.0]) == 0.5
    assert interval_width([0.0, 0.0]) == 0.0


@pytest.mark.parametrize("shape", [(40,), (40, 3)])
@pytest.mark.parametrize("score", SCORES)
def test_weights_count_as_repetitions(score, shape):
    values = predictions(*shape, seed=1)
    weights = np.arange(40) % 4
    weighted = score(*values, sample_weight=weights)
    repeated = score(*(np.repeat(each, weights, axis=0) for each in values))
    assert weighted == pytest.approx(repeated)
    assert weighted != pytest.approx(score(*values))


@pytest.mark.parametrize("score", SCORES)
def test_outputs_are_averaged_or_kept(score):
    values = predictions(50, 3)
    each = [score(*(v[:, i] for v in values)) for i in range(3)]
    kept = score(*values, multioutput="raw_values")
    np.testing.assert_allclose(kept, each)
    assert score(*values) == pytest.approx(np.mean(each))
    weighted = score(*values, multioutput=[1, 0, 3])
    assert weighted == pytest.approx((each[0] + 3 * each[2]) / 4)


@pytest.mark.parametrize("score", SCORES)
def test_one_output_may_be_a_column(score):
    y, mean, std = predictions(10)
    column = score(y[:, None], mean, std[:, None])
    assert column == score(y, mean, std)
    assert score(y, mean, std, multioutput="raw_values").shape == (1,)


@pytest.mark.parametrize("score", SCORES)
def test_order_of_samples_is_of_no_effect(score):
    values = predictions(30)
    order = np.random.default_rng(1).permutation(30)
    moved = score(*(each[order] for each in values))
    assert moved == pytest.approx(score(*values))


def test_scores_of_a_regressor():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 6.0, size=(300, 1))
    y = np.sin(X[:, 0]) + rng.normal(scale=0.3, size=300)
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance="evidence").fit(X[:100], y[:100])
    mean, std = gp.predict_latent(X[100:], return_std=True, noise=True)
    assert interval_coverage(y[100:], mean, std) == pytest.approx(0.95, abs=0.04)
    of_f = gp.predict(X[100:], return_std=True)
    assert interval_coverage(y[100:], *of_f) < 0.6
    density = negative_log_predictive_density(y[100:], mean, std)
    assert density < negative_log_predictive_density(y[100:], *of_f)
    assert density == pytest.approx(norm(0.0, 0.3).entropy(), abs=0.15)


BAD = {
    "length": ([1.0], [1.0, 2.0], [1.0, 1.0], {}, "inconsistent numbers"),
    "outputs": (np.ones((2, 2)), np.ones(2), np.ones(2), {}, "outputs, got 2, 1 and 1"),
    "negative": ([1.0], [1.0], [-1.0], {}, "`y_std` must not be negative, got -1"),
    "NaN": ([1.0], [np.nan], [1.0], {}, "y_mean contains NaN"),
    "empty": ([], [], [], {}, "0 sample"),
    "word": ([1.0], [1.0], [1.0], {"multioutput": "mean"}, "must be one of 'uniform_"),
    "shares": ([1.0], [1.0], [1.0], {"multioutput": [1, 2]}, "hold 1 numbers, got 2"),
    "weights": ([1.0], [1.0], [1.0], {"sample_weight": [0.0]}, "not 0 for all"),
}


@pytest.mark.parametrize("score", OF_PREDICTIONS)
@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused(case, score):
    y_true, y_mean, y_std, settings, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        score(y_true, y_mean, y_std, **settings)


def test_density_without_deviation_is_refused():
    with pytest.raises(ValueError, match="`y_std` must be > 0 for a density"):
        negative_log_predictive_density([1.0, 1.0], [1.0, 1.0], [1.0, 0.0])


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, 95, "0.95", None, [0.5]])
@pytest.mark.parametrize("score", [interval_coverage, width_of_predictions])
def test_wrong_level_is_refused(score, level):
    with pytest.raises(ValueError, match="`level` must be a number between 0 and 1"):
        score([1.0], [1.0], [1.0], level=level)


def test_negative_deviation_has_no_width():
    with pytest.raises(ValueError, match="`y_std` must not be negative"):
        interval_width([1.0, -2.0])
