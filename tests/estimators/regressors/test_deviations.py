"""Deviations at copies of training rows, whose noise was given far too small."""

import numpy as np
import pytest
from scipy.optimize import minimize

from skconvgp import ConvNetGPRegressor
from skconvgp.estimators._deviations import added_noise, square_factors
from skconvgp.kernels import arcsine
from skconvgp.metrics import negative_log_predictive_density
from skconvgp.processes import RepeatedTargets

N, COPIES, SCATTER = 200, 40, 0.3


def rough(rows):
    return np.sin(3.0 * rows[:, 0]) + np.abs(rows[:, 1])


def table(noise, gap, seed=0):
    """Return rows of which some are copies of others, and new copies of them."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(N, 3))
    near = rows[:COPIES] + gap * rng.normal(size=(COPIES, 3))
    new = rows[rng.integers(0, N, 100)]
    both = np.concatenate([rows, near])
    y, y_new = (rough(x) + noise * rng.normal(size=len(x)) for x in (both, new))
    return both, y, new, y_new


def fitted(rows, y):
    return ConvNetGPRegressor(
        arcsine(weight_variance=2e3, bias_variance=1e4),
        noise_variance=1e-10,
        dtype="float64",
    ).fit(rows, y)


@pytest.mark.parametrize("gap", [0.0, 1e-5])
def test_copies_that_differ_keep_deviations_at_training_rows(gap):
    rows, y, new, y_new = table(SCATTER, gap)
    gp = fitted(rows, y)
    mean, std = gp.predict_latent(new, return_std=True, noise=True)
    assert std.min() > SCATTER / 2.0
    assert negative_log_predictive_density(y_new, mean, std) < 2.0
    low, high = gp.predict_interval(new, 0.9).T
    assert ((low <= y_new) & (y_new <= high)).mean() > 0.6
    (noise,) = gp.fit_report_.deviation_noises
    assert "more noise" in str(gp.fit_report_)
    # Covariances and left-out targets have it, the function has not.
    cov = gp.predict_latent(new, return_cov=True, noise=True)[1]
    np.testing.assert_allclose(cov.diagonal(), std**2, rtol=1e-6)
    of_f = gp.predict(new, return_std=True)[1]
    (factor,) = gp.fit_report_.deviation_factors
    added = (noise + gp.noise_variance_) * gp.amplitude_ * factor**2
    np.testing.assert_allclose(std**2 - of_f**2, added, rtol=1e-6)
    mean, std = gp.loo_predict(return_std=True)
    scores = (y - mean) / std
    assert 0.7 < np.sqrt(np.mean(scores**2)) < 1.5


def test_copies_that_agree_ask_for_no_noise():
    rows, y, *_ = table(0.0, 0.0)
    gp = fitted(rows, y)
    assert gp.fit_report_.deviation_noises == (0.0,)
    std = gp.predict_latent(rows, return_std=True, noise=True)[1]
    assert std.max() < 1e-3


def test_noise_has_the_largest_density():
    rng = np.random.default_rng(1)
    variances = rng.gamma(1.0, size=500)
    weights = rng.integers(1, 3, 500).astype(float)
    squares = (0.25 * variances + 0.4) * rng.normal(size=500) ** 2
    copies = RepeatedTargets(0.4 * rng.normal(size=30) ** 2, np.ones(30))

    def negative(logs):
        total = 0.0
        for square, variance, weight in (
            (squares, variances, weights),
            (copies.scatter, 1e-6, copies.units),
        ):
            both = np.exp(logs[0]) * (variance + np.exp(logs[1]))
            total += float(weight @ (np.log(both) + square / both))
        return total

    expected = minimize(negative, [0.0, 0.0], method="Nelder-Mead").x
    found = added_noise(squares, variances, weights, copies, 1e-6)
    assert np.log(found) == pytest.approx(expected[1], abs=0.05)


def test_noise_that_gains_little_is_not_added():
    rng = np.random.default_rng(2)
    variances = 1.0 + rng.gamma(1.0, size=500)
    squares = variances * rng.normal(size=500) ** 2
    nothing = RepeatedTargets(np.empty(0), np.empty(0))
    assert added_noise(squares, variances, np.ones(500), nothing, 0.1) == 0.0


@pytest.mark.parametrize(("n", "size"), [(10_000, 2e-3), (5, 1e-2), (3, 0.0), (0, 1.0)])
def test_prior_of_a_factor_is_worth_one_sample(n, size):
    (found,) = square_factors(np.full((n, 1), size**2), np.ones(n))
    assert found > 0.0
    logs = np.linspace(-40.0, 1.0, 400_001)
    loss = n * (logs + size**2 / np.exp(logs)) + logs**2 / 2.0
    assert np.log(found) == pytest.approx(logs[loss.argmin()], abs=2e-3)
