"""Samples that weigh more than one predict themselves when one unit is left out."""

import warnings

import numpy as np
import pytest

from skconvgp import ConvNetGPRegressor, NystromCompletedGPRegressor
from skconvgp.kernels import rbf


def noisy(n=80):
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, (n, 1))
    return X, np.sin(X[:, 0]) + 0.5 * rng.normal(size=n)


@pytest.mark.parametrize("cls", [ConvNetGPRegressor, NystromCompletedGPRegressor])
def test_noise_that_is_chosen_among_copies_is_told(cls):
    X, y = noisy()
    with pytest.warns(UserWarning, match="50% of the weight.*Divide sample_weight"):
        copied = cls(rbf(1.0), noise_variance="loo").fit(X, y, np.full(80, 2.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        divided = cls(rbf(1.0), noise_variance="loo").fit(X, y, np.ones(80))
        cls(rbf(1.0), noise_variance=0.1).fit(X, y, np.full(80, 2.0))
    assert copied.noise_variance_ < 1e-3 * divided.noise_variance_


@pytest.mark.parametrize("weight", [1.3, 2.0])
def test_auto_does_not_choose_among_copies(weight):
    X, y = noisy()
    weighted = ConvNetGPRegressor(rbf(1.0)).fit(X, y, np.full(80, weight))
    assert weighted.noise_variance_ == 1e-2
    repeated = ConvNetGPRegressor(rbf(1.0)).fit(np.repeat(X, 2, 0), np.repeat(y, 2))
    assert repeated.noise_variance_ == 1e-2


def test_a_few_copies_change_little():
    X, y = noisy()
    plain = ConvNetGPRegressor(rbf(1.0)).fit(X, y).noise_variance_
    weights = np.where(np.arange(80) < 3, 2.0, 1.0)
    weighted = ConvNetGPRegressor(rbf(1.0)).fit(X, y, weights).noise_variance_
    order = [*range(80), 0, 1, 2]
    repeated = ConvNetGPRegressor(rbf(1.0)).fit(X[order], y[order]).noise_variance_
    assert plain / 4.0 < weighted < 4.0 * plain
    assert repeated == pytest.approx(weighted)


@pytest.mark.parametrize("scale", [1.0, 1e-13])
def test_the_scale_of_targets_does_not_decide(scale):
    X, y = noisy()
    gp = ConvNetGPRegressor(rbf(1.0), normalize_y=False)
    assert gp.fit(X, scale * y).noise_variance_ > 0.05
