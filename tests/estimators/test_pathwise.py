"""sample_y(method="pathwise"): draws of functions, without a covariance."""

import re

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    NystromCompletedGPRegressor,
    gram_matrix,
)
from skconvgp.completion import NearestNeighbors, Nystrom, RandomFeatures
from skconvgp.exceptions import TileMemoryError
from skconvgp.inference import bootstrap_directions
from skconvgp.kernels import Dense, Flatten, ReLU, Sequential, rbf
from skconvgp.solvers import ConjugateGradient
from tests.helpers.estimators import blobs
from tests.helpers.memory import needs_peak, peak_memory

N, N_NEW, DRAWS = 30, 6, 20_000
WEIGHTS = np.tile([1.0, 0.4, 3.0], N // 3)


def fitted(kernel=None, n_outputs=2, **settings):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 2))
    y = np.sin(X @ rng.normal(size=(2, n_outputs))) * [1.0, 5.0][:n_outputs] + 3.0
    usual = {"noise_variance": 0.05, "dtype": "float64"}
    gp = ConvNetGPRegressor(kernel or 2.0 * rbf(1.5), **usual | settings)
    return gp.fit(X, y, WEIGHTS), rng.normal(size=(N_NEW, 2))


@pytest.mark.parametrize("solver", ["auto", "cg"])
def test_moments_are_those_of_the_posterior(solver):
    gp, new = fitted(solver=solver)
    mean, covariance = gp.predict(new, return_cov=True)
    draws = np.concatenate(
        [
            gp.sample_y(new, DRAWS // 20, seed, "pathwise", n_features=500)
            for seed in range(20)
        ],
        axis=2,
    )
    for output in range(2):
        own, expected = draws[:, output], covariance[:, :, output]
        deviations = np.sqrt(np.diag(expected))
        error = (own.mean(1) - mean[:, output]) / deviations
        assert np.abs(error).max() < 4.5 / np.sqrt(DRAWS)
        found = np.cov(own) / np.outer(deviations, deviations)
        correlations = expected / np.outer(deviations, deviations)
        # Both errors, of 20,000 draws and of 20 draws of 500 features, are near 0.01.
        assert np.abs(found - correlations).max() < 0.06
    between = np.corrcoef(draws[0, 0], draws[0, 1])[0, 1]
    assert abs(between) < 4.5 / np.sqrt(DRAWS) + 0.02


@pytest.mark.parametrize(
    ("settings", "method"),
    [
        ({}, "pathwise"),
        ({"completion": RandomFeatures(40)}, "pathwise"),
        ({"completion": RandomFeatures(40)}, "bootstrap"),
    ],
)
def test_draws_are_the_same_after_a_device_had_no_room(settings, method, monkeypatch):
    gp, new = fitted(random_state=0, **settings)
    expected = gp.sample_y(new, 3, 0, method)

    def twice(placement, compute):
        compute(placement)  # as if the end of it were an error of memory
        return compute(placement)

    for module in ("posterior._solved", "posterior._coefficients"):
        monkeypatch.setattr(f"skconvgp.processes.{module}.compute_at", twice)
    assert np.array_equal(gp.sample_y(new, 3, 0, method), expected)


def test_functions_pass_through_targets_without_noise():
    X = np.linspace(0.0, 3.0, 6)[:, None]
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=1e-8, dtype="float64")
    draws = gp.fit(X, np.cos(X[:, 0])).sample_y(X, 4, 0, "pathwise")
    np.testing.assert_allclose(draws, np.cos(X) @ np.ones((1, 4)), atol=1e-3)


def test_classes_have_functions():
    X, labels = blobs(N)
    gp = ConvNetGPClassifier(rbf(1.0), noise_variance=0.1, dtype="float64")
    draws = gp.fit(X, labels).sample_y(X, 300, 0, "pathwise")
    mean, std = gp.predict_latent(X, return_std=True)
    assert draws.shape == (N, mean.shape[1], 300)
    assert np.abs((draws.mean(2) - mean) / std).max() < 0.4


def test_networks_are_drawn_as_finite_ones():
    gp, new = fitted(Sequential(Flatten(), Dense(), ReLU(), Dense()))
    draws = gp.sample_y(new, 2, 0, "pathwise", n_features=50)
    assert draws.shape == (N_NEW, 2, 2)


def test_many_samples_are_drawn_as_functions(monkeypatch):
    monkeypatch.setattr("skconvgp.estimators._samples.MOST_JOINT", 5)
    gp, new = fitted(rbf(1.5))
    expected = gp.sample_y(new, 2, 0, "pathwise")
    np.testing.assert_array_equal(gp.sample_y(new, 2, 0), expected)
    assert not np.allclose(gp.sample_y(new, 2, 0, "joint"), expected)
    of_sum, new = fitted()  # "auto" draws functions of kernels of vectors alone
    joint = of_sum.sample_y(new, 2, 0, "joint")
    np.testing.assert_array_equal(of_sum.sample_y(new, 2, 0), joint)


LARGE = """
import numpy as np
from skconvgp import ConvNetGPRegressor
from skconvgp.kernels import rbf
X = np.random.default_rng(0).normal(size=(100_000, 2))
gp = ConvNetGPRegressor(rbf(1.5), noise_variance=0.05, memory_budget="16 MiB")
gp.fit(X[:30], X[:30, 0]).sample_y(X[:3000], 1, 0, n_features=20)
"""


@needs_peak
def test_a_hundred_thousand_samples_fit_in_the_budget():
    call = "assert gp.sample_y(X, 1, 0, n_features=20).shape == (100_000, 1)"
    # Some columns of numbers of all samples; a covariance takes 75 GiB.
    columns = 8 * 100_000 * 20
    assert peak_memory(LARGE, call) < 16 * 2**20 + columns


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "exact"}, "`method` must be one of 'auto'"),
        ({"method": None}, "`method` must be one of 'auto'"),
        ({"method": "pathwise", "n_features": 1}, "`n_features` must be an int >= 2"),
        ({"n_features": 2.5}, "`n_features` must be an int >= 2"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    gp, new = fitted()
    with pytest.raises(ValueError, match=message):
        gp.sample_y(new, 2, **settings)


@pytest.mark.parametrize("method", ["pathwise", "bootstrap"])
def test_features_draw_their_coefficients(method):
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(N, 2)), rng.normal(size=(N_NEW, 2))
    gp = NystromCompletedGPRegressor(
        rbf(1.5), n_landmarks=8, variance="sor", noise_variance=0.05
    )
    mean, covariance = gp.fit(X, np.sin(X[:, 0]) + 2.0).predict(new, return_cov=True)
    draws = gp.sample_y(new, DRAWS, 0, method)
    deviations = np.sqrt(np.diag(covariance))
    change = (np.cov(draws) - covariance) / np.outer(deviations, deviations)
    assert np.abs(change).max() < 0.05
    error = (draws.mean(1) - mean) / deviations
    assert np.abs(error).max() < 4.5 / np.sqrt(DRAWS)
    part = gp.sample_y(new[2:4], DRAWS, 0, method)
    np.testing.assert_allclose(part, draws[2:4], rtol=1e-6)


@pytest.mark.parametrize("method", ["pathwise", "bootstrap"])
def test_random_features_draw_their_coefficients(method):
    gp, new = fitted(
        rbf(1.5), completion=RandomFeatures(40), noise_variance=0.3, random_state=0
    )
    mean, covariance = gp.predict(new, return_cov=True)
    draws = gp.sample_y(new, DRAWS, 0, method)
    for output in range(2):
        own, expected = draws[:, output], covariance[:, :, output]
        deviations = np.sqrt(np.diag(expected))
        change = (np.cov(own) - expected) / np.outer(deviations, deviations)
        assert np.abs(change).max() < 0.05
        error = (own.mean(1) - mean[:, output]) / deviations
        assert np.abs(error).max() < 4.5 / np.sqrt(DRAWS)
    assert abs(np.corrcoef(draws[0])[0, 1]) < 4.5 / np.sqrt(DRAWS)


def test_a_bootstrap_perturbs_targets_and_the_prior():
    rng = np.random.default_rng(0)
    features, noise = rng.normal(size=(12, 4)), rng.uniform(0.2, 2.0, 12)
    precision = np.eye(4) + features.T @ (features / noise[:, None])
    factor = torch.from_numpy(np.linalg.cholesky(precision))
    found = bootstrap_directions(factor, 0.0, DRAWS, torch.Generator().manual_seed(0))
    found = np.linalg.solve(factor.numpy().T, found.numpy())
    # The definition: noise for each target, and coefficients of the prior.
    errors = np.sqrt(noise)[:, None] * rng.normal(size=(12, DRAWS))
    right = features.T @ (errors / noise[:, None]) + rng.normal(size=(4, DRAWS))
    defined = np.linalg.solve(precision, right)
    expected = np.linalg.inv(precision)
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    for draws in (found, defined):
        assert np.abs((np.cov(draws) - expected) / scale).max() < 0.05
        assert np.abs(draws.mean(1)).max() < 4.5 * np.sqrt(scale.max() / DRAWS)


def test_blocks_of_samples_see_the_same_network(monkeypatch):
    kernel = Sequential(Flatten(), Dense(), ReLU(), Dense(), ReLU(), Dense())
    part = RandomFeatures(30, readout="draw", width=8)
    gp, new = fitted(kernel, completion=part, random_state=0)
    exact, _ = fitted(kernel)
    calls = [(gp, {}), (gp, {"method": "bootstrap"}), (exact, {"n_features": 30})]
    rows = np.tile(new, (4, 1))
    for model, changes in calls:
        settings = {"method": "pathwise", "random_state": 3} | changes
        whole = model.sample_y(rows, 2, **settings)
        with monkeypatch.context() as patch:
            for module in ("basis._expansion", "posterior._drawing"):
                name = f"skconvgp.processes.{module}.stream_rows"
                patch.setattr(name, lambda *_: 5)
            parts = model.sample_y(rows, 2, **settings)
        np.testing.assert_allclose(parts, whole, rtol=1e-9)
        np.testing.assert_allclose(whole[:N_NEW], whole[-N_NEW:], rtol=1e-9)


def test_a_bootstrap_needs_features():
    gp, new = fitted()
    with pytest.raises(ValueError, match=r"RandomFeatures\(\).*'pathwise' is the same"):
        gp.sample_y(new, 2, method="bootstrap")


def test_neighbors_are_refused():
    gp, new = fitted(completion=NearestNeighbors(5))
    with pytest.raises(ValueError, match=r"'pathwise'.*completion=None"):
        gp.sample_y(new, 2, method="pathwise")


def test_draws_of_a_solver_that_did_not_converge_are_announced():
    solver = ConjugateGradient(max_iter=1, rank=5)
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        gp, new = fitted(solver=solver, noise_variance=1e-8)
    with pytest.warns(ConvergenceWarning, match=r"in `fit`.*draws.*are inexact"):
        gp.sample_y(new, 2, method="pathwise")


def test_a_given_matrix_is_refused():
    gp, new = fitted()
    gram = gram_matrix(rbf(1.0), new)
    gp = ConvNetGPRegressor("precomputed").fit(gram, new[:, 0])
    with pytest.raises(ValueError, match=r"'pathwise'.*kernel object"):
        gp.sample_y(gram, 2, method="pathwise")
    with pytest.raises(ValueError, match="not fitted"):
        ConvNetGPRegressor(rbf(1.0)).sample_y(new, 2, method="pathwise")


FEATURES = [RandomFeatures(30), RandomFeatures(60)]  # sums, and the matrix of samples


@pytest.mark.parametrize("part", FEATURES)
@pytest.mark.parametrize("likelihood", ["gaussian", "dirichlet"])
def test_many_samples_are_drawn_from_features_without_a_matrix(
    part, likelihood, monkeypatch
):
    X, y = blobs(50)
    gp = ConvNetGPClassifier(rbf(1.5), completion=part, likelihood=likelihood)
    gp.fit(X, y)
    monkeypatch.setattr("skconvgp.estimators._samples.MOST_JOINT", 10)
    drawn = gp.sample_y(X, 3, random_state=0)
    by_name = gp.sample_y(X, 3, random_state=0, method="pathwise")
    np.testing.assert_array_equal(drawn, by_name)
    few = gp.sample_y(X[:10], 3, random_state=0)
    joint = gp.sample_y(X[:10], 3, random_state=0, method="joint")
    np.testing.assert_array_equal(few, joint)


def test_draws_that_leave_out_variance_are_not_the_default_and_warn(monkeypatch):
    X, y = blobs(50)
    gp = ConvNetGPClassifier(rbf(0.5), completion=Nystrom(5), random_state=0)
    gp.fit(X, y)
    monkeypatch.setattr("skconvgp.estimators._samples.MOST_JOINT", 10)
    joint = gp.sample_y(X, 3, random_state=0, method="joint")
    np.testing.assert_array_equal(gp.sample_y(X, 3, random_state=0), joint)
    std = gp.predict_latent(X, return_std=True)[1]
    with pytest.warns(UserWarning, match=r"leave out (\d+)% of the posterior") as told:
        drawn = gp.sample_y(X, 2000, random_state=0, method="pathwise")
    share = int(re.search(r"(\d+)%", str(told[0].message))[1]) / 100
    kept = drawn.var(-1).sum() / np.square(std).sum()
    assert kept == pytest.approx(1.0 - share, abs=0.02)


def test_joint_draws_that_need_too_much_memory_name_the_other_way(monkeypatch):
    X, y = blobs(20)
    gp = ConvNetGPClassifier(rbf(1.5)).fit(X, y)
    monkeypatch.setattr("skconvgp.engine._devices.free_memory", lambda _: 1000)
    with pytest.raises(TileMemoryError, match=r"joint draws.*method='pathwise'"):
        gp.sample_y(X, method="joint")


def test_memory_of_joint_draws_is_that_of_all_covariances(monkeypatch):
    X, y = blobs(21)
    gps = [
        ConvNetGPClassifier(rbf(1.5), likelihood=name).fit(X, y)
        for name in ("gaussian", "dirichlet")
    ]
    local = ConvNetGPRegressor(rbf(1.5), completion=NearestNeighbors(5)).fit(X, X)
    asked = []
    monkeypatch.setattr(
        "skconvgp.estimators._samples.require_memory", lambda *asks: asked.append(asks)
    )
    for gp in gps:
        gp.sample_y(X, method="joint")
    with pytest.raises(ValueError, match="NearestNeighbors"):
        local.sample_y(X, method="joint")
    joint = [asks[0] for asks in asked if "covariance" in asks[2]]
    assert joint == [3 * 21**2 * 8, 3 * 3 * 21**2 * 8]
