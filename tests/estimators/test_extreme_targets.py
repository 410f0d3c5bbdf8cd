"""Targets that tell nothing of the amplitude, and targets out of range."""

import numpy as np
import pytest

from skconvgp import (
    BayesianNetworkRegressor,
    ConvNetGPRegressor,
    KernelFlowsRegressor,
    NystromCompletedGPRegressor,
    gram_matrix,
)
from skconvgp.completion import NearestNeighbors, Nystrom
from skconvgp.flows import Adam
from skconvgp.kernels import rbf

X = np.linspace(0.0, 3.0, 6)[:, None]
FAR = [[40.0]]
ONE_LEFT = [0.0, 0.0, 2.0, 0.0, 0.0, 0.0]
NOTHING = "amplitude='profile' uses 1, .*Set `amplitude`"
REGRESSORS = {
    "exact": ConvNetGPRegressor(rbf(1.0)),
    "chosen noise": ConvNetGPRegressor(rbf(1.0), noise_variance="loo"),
    "completed": ConvNetGPRegressor(rbf(1.0), completion=Nystrom(n_landmarks=1)),
    "local": ConvNetGPRegressor(rbf(1.0), completion=NearestNeighbors(n_neighbors=3)),
    "nystrom": NystromCompletedGPRegressor(rbf(1.0), n_landmarks=1),
}


@pytest.mark.parametrize("name", REGRESSORS)
@pytest.mark.parametrize("value", [0.0, 3.0, 0.1, -1e12])
def test_constant_targets_leave_the_prior(name, value):
    gp = REGRESSORS[name]
    with pytest.warns(UserWarning, match=NOTHING):
        gp.fit(X, np.full(6, value))
    mean, std = gp.predict(FAR, return_std=True)
    assert mean == pytest.approx([value], rel=1e-12)
    assert gp.amplitude_ == 1.0
    assert 0.5 < std[0] < 1.5


@pytest.mark.parametrize("normalize_y", [True, False])
def test_one_sample_is_the_posterior_of_the_prior(normalize_y):
    gp = ConvNetGPRegressor(rbf(1.0), normalize_y=normalize_y, noise_variance=0.01)
    given = gp if normalize_y else gp.set_params(amplitude=1.0)
    weighted = ([1.0, 5.0, 2.0, 7.0, 8.0, 9.0], ONE_LEFT)
    for data in ((X[2:3], [2.0]), (X, *weighted)):
        if normalize_y:
            with pytest.warns(UserWarning, match="only one"):
                given.fit(*data)
        else:
            given.fit(*data)
        weight = 2.0 if len(data) > 2 else 1.0
        cross = gram_matrix(rbf(1.0), X, X[2:3], dtype="float64")[:, 0]
        var = 1.0 - cross**2 / (1.0 + 0.01 / weight)
        mean, std = given.predict(X, return_std=True)
        np.testing.assert_allclose(std, np.sqrt(var), rtol=1e-5)
        solved = 2.0 * cross / (1.0 + 0.01 / weight)
        np.testing.assert_allclose(mean, 2.0 if normalize_y else solved, rtol=1e-5)


def test_a_constant_output_beside_another_one():
    y = np.column_stack([np.full(6, 0.1), np.sin(X[:, 0])])
    gp = ConvNetGPRegressor(rbf(1.0)).fit(X, y)
    _, std = gp.predict(FAR, return_std=True)
    assert (std > 0.1).all()


def test_an_amplitude_that_is_set_is_taken():
    gp = ConvNetGPRegressor(rbf(1.0), amplitude=4.0).fit(X, np.full(6, 3.0))
    assert gp.predict(FAR, return_std=True)[1] == pytest.approx([2.0])


def test_later_targets_that_differ_set_the_amplitude():
    gp = NystromCompletedGPRegressor(rbf(1.0), n_landmarks=3)
    with pytest.warns(UserWarning, match=NOTHING):
        gp.partial_fit(X, np.zeros(6))
    with pytest.warns(UserWarning, match=NOTHING):
        gp.partial_fit(X, np.zeros(6))
    assert gp.amplitude_ == 1.0
    gp.partial_fit(X, 10.0 * np.sin(X[:, 0]))
    assert gp.amplitude_ > 10.0


@pytest.mark.parametrize("size", [1e155, 1e160, 1e300, 1e308])
@pytest.mark.parametrize("normalize_y", [True, False])
def test_targets_whose_squares_overflow_are_refused(size, normalize_y):
    y = np.linspace(0.5, 1.0, 6) * size
    gp = ConvNetGPRegressor(rbf(1.0), normalize_y=normalize_y)
    with pytest.raises(ValueError, match=r"y holds numbers up to 1e\+.*divide y"):
        gp.fit(X, y)
    flows = KernelFlowsRegressor(rbf(1.0), optimizer=Adam(max_iter=1))
    with pytest.raises(ValueError, match="squares overflow"):
        flows.fit(X, y)
    gp = NystromCompletedGPRegressor(rbf(1.0), n_landmarks=3).fit(X, np.sin(X[:, 0]))
    with pytest.raises(ValueError, match="squares overflow"):
        gp.partial_fit(X, y)


@pytest.mark.parametrize("size", [1e-160, 1e-200, 1e-308])
@pytest.mark.parametrize("normalize_y", [True, False])
def test_targets_whose_squares_vanish_are_refused(size, normalize_y):
    y = np.linspace(0.5, 1.0, 6) * size
    networks = BayesianNetworkRegressor((3,), normalize_y=normalize_y, max_iter=1)
    for model in (ConvNetGPRegressor(rbf(1.0), normalize_y=normalize_y), networks):
        with pytest.raises(ValueError, match=r"by no more than .*e-.*square vanishes"):
            model.fit(X, y)
    # One of several outputs may: it is as good as constant.
    both = np.column_stack([y, np.sin(X[:, 0])])
    assert ConvNetGPRegressor(rbf(1.0)).fit(X, both).predict(X).shape == (6, 2)
    # A later batch may hold such numbers: the unit is that of the first one.
    gp = NystromCompletedGPRegressor(rbf(1.0), n_landmarks=3).fit(X, np.sin(X[:, 0]))
    gp.partial_fit(X + 0.1, y)


@pytest.mark.parametrize("size", [1e-140, 1e-12, 1e12, 1e140])
def test_units_of_targets_are_those_of_predictions(size):
    y = np.sin(X[:, 0])
    plain = ConvNetGPRegressor(rbf(1.0)).fit(X, y).predict(X + 0.2, return_std=True)
    scaled = ConvNetGPRegressor(rbf(1.0)).fit(X, size * y)
    for one, other in zip(plain, scaled.predict(X + 0.2, return_std=True), strict=True):
        np.testing.assert_allclose(other, size * one, rtol=1e-6)
