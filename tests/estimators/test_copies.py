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
    with pytest.warns(UserWarning, match="weights up to 2.*Divide the weights"):
        copied = cls(rbf(1.0)).fit(X, y, np.full(80, 2.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        divided = cls(rbf(1.0)).fit(X, y, np.ones(80))
        cls(rbf(1.0), noise_variance=0.1).fit(X, y, np.full(80, 2.0))
    assert copied.noise_variance_ < 1e-3 * divided.noise_variance_
