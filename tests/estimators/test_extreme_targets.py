"""Targets that tell nothing of the amplitude, and targets out of range."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skconvgp import (
    BayesianNetworkRegressor,
    ConvNetGPRegressor,
    ImageRegressor,
    KernelFlowsRegressor,
    NystromCompletedGPRegressor,
    gram_matrix,
)
from skconvgp.completion import NearestNeighbors, Nystrom
from skconvgp.flows import LBFGS, Adam
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
# Fits of several outputs, each by other code.
X_12 = np.linspace(0.0, 3.0, 12)[:, None]
TILES = {"dtype": "float64"}
SEVERAL = {
    "exact": ConvNetGPRegressor(rbf(1.0), **TILES),
    "iterative": ConvNetGPRegressor(rbf(1.0), solver="cg", **TILES),
    "evidence": ConvNetGPRegressor(rbf(1.0), noise_variance="evidence", **TILES),
    "completed": ConvNetGPRegressor(
        rbf(1.0), completion=Nystrom(n_landmarks=5), random_state=0, **TILES
    ),
    "local": ConvNetGPRegressor(
        rbf(1.0), completion=NearestNeighbors(n_neighbors=5), **TILES
    ),
    "fitc": NystromCompletedGPRegressor(
        rbf(1.0), n_landmarks=5, variance="fitc", random_state=0, **TILES
    ),
    "images": ImageRegressor([rbf(1.0), rbf(0.5)], random_state=0, **TILES),
    "learned": ConvNetGPRegressor(rbf(1.0), optimizer=LBFGS(max_iter=2), **TILES),
    "flows": KernelFlowsRegressor(
        rbf(1.0), optimizer=Adam(max_iter=2), random_state=0, **TILES
    ),
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


@pytest.mark.filterwarnings("ignore:.* at a bound of the search")
@pytest.mark.parametrize("name", SEVERAL)
@pytest.mark.parametrize("normalize_y", [True, False])
def test_constant_outputs_say_nothing_about_the_others(name, normalize_y):
    gp = clone(SEVERAL[name]).set_params(normalize_y=normalize_y)
    told = 100.0 * np.random.default_rng(0).normal(size=(12, 2))
    constant = np.full((12, 2), [5e-7, -3e9] if normalize_y else 0.0)
    alone = clone(gp).fit(X_12, told)
    both = np.column_stack([constant[:, 0], told, constant[:, 1]])
    with pytest.warns(
        UserWarning, match=r"columns 0, 3 of y .* uses 1, .*[Ll]eave such"
    ):
        gp.fit(X_12, both)
    np.testing.assert_allclose(gp.noise_variance_, alone.noise_variance_, rtol=1e-6)
    amplitudes = np.broadcast_to(alone.amplitude_, 2)
    np.testing.assert_allclose(gp.amplitude_, [1.0, *amplitudes, 1.0], rtol=1e-6)
    intervals = alone.predict_interval(FAR)
    np.testing.assert_allclose(gp.predict_interval(FAR)[:, 1:3], intervals, rtol=1e-5)
    draws = gp.sample_y(X_12, 1, random_state=0) if name != "local" else both[..., None]
    assert draws.shape == (12, 4, 1)
    np.testing.assert_allclose(gp.loo_predict()[:, ::3], constant, rtol=1e-9)


def test_networks_warn_of_constant_outputs():
    y = np.column_stack([np.full(6, 3.0), np.sin(X[:, 0])])
    networks = BayesianNetworkRegressor((3,), max_iter=1, random_state=0)
    with pytest.warns(UserWarning, match="column 0 of y .*the prior of the outputs"):
        networks.fit(X, y)
    with pytest.warns(UserWarning, match="All targets are the same"):
        networks.fit(X, y[:, 0])


def test_an_amplitude_that_is_set_is_taken():
    gp = ConvNetGPRegressor(rbf(1.0), amplitude=4.0).fit(X, np.full(6, 3.0))
    assert gp.predict(FAR, return_std=True)[1] == pytest.approx([2.0])


@pytest.mark.parametrize("name", SEVERAL)
@pytest.mark.parametrize("amplitude", [None, 2.0])
def test_a_given_amplitude_is_that_of_scaled_targets(name, amplitude):
    gp = clone(SEVERAL[name]).set_params(noise_variance=0.01, amplitude=amplitude)
    if getattr(gp, "optimizer", None) is not None:
        gp.set_params(optimizer=None)
    y = np.random.default_rng(0).normal(size=(12, 2)) * [5e4, 1e-3]
    unit = y.std(axis=0)
    gp.fit(X_12, y)
    scaled = clone(gp).fit(X_12, (y - y.mean(axis=0)) / unit)
    np.testing.assert_allclose(gp.amplitude_, scaled.amplitude_ * unit**2, rtol=1e-6)
    if amplitude is not None:
        np.testing.assert_allclose(gp.amplitude_, amplitude * unit**2, rtol=1e-6)
    for settings in ({"return_std": True}, {"return_cov": name != "local"}):
        if not all(settings.values()):
            continue
        (one, first), (other, second) = (
            model.predict(X_12[:3] + 0.2, **settings) for model in (gp, scaled)
        )
        power = 1 if "return_std" in settings else 2
        np.testing.assert_allclose(one, other * unit + y.mean(axis=0), rtol=1e-6)
        np.testing.assert_allclose(first, second * unit**power, rtol=1e-6)
    shift = -len(y) * np.log(unit).sum()
    evidence = scaled.log_marginal_likelihood() + shift
    np.testing.assert_allclose(gp.log_marginal_likelihood(), evidence, rtol=1e-6)


def test_amplitudes_are_those_of_scikit_learn():
    y = -5e4 * X_12[:, 0]
    kernel = 3.0 * rbf(0.3)
    ours = ConvNetGPRegressor(kernel, noise_variance=1e-2, amplitude=None)
    theirs = GaussianProcessRegressor(
        ConstantKernel(3.0) * RBF(0.3), alpha=3e-2, optimizer=None, normalize_y=True
    )
    found, expected = (
        model.fit(X_12, y).predict(X_12 + 0.1, return_std=True)
        for model in (ours, theirs)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("dtype", "size"),
    [("float32", 1e20), ("float32", 1e-30), ("float64", 1e145)],
)
def test_targets_out_of_range_of_the_solve_are_refused(dtype, size):
    gp = ConvNetGPRegressor(rbf(1.0), normalize_y=False, solve_dtype=dtype)
    message = (
        rf"sizes up to .*solve_dtype='{dtype}'.*set normalize_y=True, .*or scale y"
    )
    with pytest.raises(ValueError, match=message):
        gp.fit(X, np.linspace(0.5, 2000.0, 6) * size / 2000.0)
    grown = NystromCompletedGPRegressor(rbf(1.0), n_landmarks=3, solve_dtype="float32")
    grown.fit(X, np.sin(X[:, 0]))
    with pytest.raises(ValueError, match="units of the fit"):
        grown.partial_fit(X, np.sin(X[:, 0]) * 1e20)
    grown.partial_fit(X, np.sin(X[:, 0]) * 1e-30)


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
    with pytest.warns(UserWarning, match="column 0 of y"):
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
