"""Kernel Flows by default never predict left-out samples worse than their start."""

import math

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.linear_model import Ridge

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    KernelFlowsClassifier,
    KernelFlowsRegressor,
)
from skconvgp.completion import NearestNeighbors, Nystrom
from skconvgp.estimators import _start_or_end
from skconvgp.estimators._start_or_end import KEPT, is_start_better
from skconvgp.flows import Adam, Rho
from skconvgp.kernels import rbf
from tests.helpers.estimators import wave

START = rbf(lengthscale=3.0)
FEW = Adam(max_iter=40, learning_rate=0.2)


def noisy_table(seed, n=50, d=6):
    """Return features (n, d), and targets of which most is noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X @ rng.normal(size=d) / math.sqrt(d) + 2.0 * rng.normal(size=n)


def noisy_labels(seed, n=60):
    X, y = noisy_table(seed, n)
    return X, np.where(y > 0.0, "yes", "no")


def density_of_targets(gp, y):
    mean, std = gp.loo_predict(return_std=True)
    return norm.logpdf(y, mean, std).mean()


def density_of_labels(gp, y):
    found = gp.loo_predict_proba()
    return np.log(found[np.arange(len(y)), np.searchsorted(gp.classes_, y)]).mean()


def flows(kernel=START, **settings):
    return KernelFlowsRegressor(
        kernel, **{"optimizer": FEW, "random_state": 0} | settings
    )


@pytest.mark.parametrize("seed", range(5))
def test_regressors_are_never_worse_than_their_start(seed):
    X, y = noisy_table(seed)
    own = density_of_targets(flows().fit(X, y), y)
    assert own >= density_of_targets(ConvNetGPRegressor(START).fit(X, y), y)


@pytest.mark.parametrize("seed", range(5))
def test_classifiers_are_never_worse_than_their_start(seed):
    X, y = noisy_labels(seed)
    gp = KernelFlowsClassifier(START, optimizer=FEW, random_state=0).fit(X, y)
    start = ConvNetGPClassifier(START).fit(X, y)
    assert density_of_labels(gp, y) >= density_of_labels(start, y)


@pytest.mark.parametrize("seed", range(5))
def test_both_densities_are_told_and_the_larger_one_is_taken(seed):
    X, y = noisy_table(seed)
    gp = flows().fit(X, y)
    result = gp.flow_result_
    ended = flows(objective="loo_nlpd").fit(X, y)
    start = density_of_targets(ConvNetGPRegressor(START).fit(X, y), y)
    end = density_of_targets(ended, y)
    assert result.left_out["start"] == pytest.approx(start, rel=1e-9)
    assert result.left_out["end"] == pytest.approx(end, rel=1e-9)
    assert result.message.endswith(KEPT) == (start > end)
    kept = START if start > end else ended.kernel_
    np.testing.assert_array_equal(gp.kernel_.theta, kept.theta)
    assert np.exp(result.theta[0]) == pytest.approx(gp.kernel_.lengthscale)
    assert f"left out        {start:.6g} -> {end:.6g}" in str(result)


def test_some_starts_are_kept_and_others_are_left():
    kept = {
        flows().fit(*noisy_table(seed)).flow_result_.message.endswith(KEPT)
        for seed in range(5)
    }
    assert kept == {True, False}


def test_a_bad_start_is_left():
    X, y = wave(60)
    gp = flows(rbf(0.05)).fit(X, y)
    assert gp.kernel_.lengthscale > 0.2
    assert gp.flow_result_.left_out["end"] > gp.flow_result_.left_out["start"]


@pytest.mark.parametrize("objective", ["l2", "loo_nlpd", Rho()])
def test_an_objective_that_is_asked_for_decides_alone(objective):
    X, y = noisy_table(0)
    assert flows(objective=objective).fit(X, y).flow_result_.left_out == {}


def test_few_inputs_decide_nothing():
    X, y = noisy_table(0, n=9)
    assert flows().fit(X, y).flow_result_.left_out == {}


@pytest.mark.parametrize("seed", [0, np.random.RandomState(0), None])
def test_a_subset_stands_for_many_samples(seed, monkeypatch):
    X, y = noisy_table(1, n=80)
    monkeypatch.setattr(_start_or_end, "MOST_LEFT_OUT", 40)
    used, density = [], KernelFlowsRegressor._left_out_density

    def watched(gp):
        used.append(gp.X_train_)
        return density(gp)

    monkeypatch.setattr(KernelFlowsRegressor, "_left_out_density", watched)
    gp = flows(random_state=seed).fit(X, y)
    assert [len(rows) for rows in used] == [40, 40]
    np.testing.assert_array_equal(*used)
    assert len(gp.X_train_) == 80
    assert np.isfinite(list(gp.flow_result_.left_out.values())).all()


@pytest.mark.parametrize(
    "settings",
    [
        {"completion": Nystrom(n_landmarks=20)},
        {"completion": NearestNeighbors(8)},
        {"solver": "cg"},
        {"noise_variance": 0.3},
        {"noise_variance": "evidence"},
        {"amplitude": None},
        {"mean": "linear"},
        {"mean": Ridge()},
    ],
)
def test_the_process_that_follows_is_compared(settings):
    X, y = noisy_table(3)
    gp = flows(**settings).fit(X, y)
    found = gp.flow_result_.left_out
    kept = "start" if gp.flow_result_.message.endswith(KEPT) else "end"
    if "solver" in settings:  # matrices are factored to compare them
        same = ConvNetGPRegressor(gp.kernel_, noise_variance="loo").fit(X, y)
        assert found[kept] == pytest.approx(density_of_targets(same, y), rel=1e-9)
    else:
        assert found[kept] == pytest.approx(gp._left_out_density(), rel=1e-9)
    if "completion" not in settings:  # which landmarks are no new samples
        assert gp._left_out_density() == pytest.approx(density_of_targets(gp, y))


def test_a_start_that_is_kept_has_its_own_noise_where_none_is_chosen():
    X, y = noisy_table(3)
    gp = flows(solver="cg").fit(X, y)
    assert gp.flow_result_.message.endswith(KEPT)
    same = ConvNetGPRegressor(START).fit(X, y)
    assert gp.noise_variance_ == pytest.approx(same.noise_variance_, rel=1e-12)


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (1.0, 0.0, True),
        (0.0, 1.0, False),
        (0.0, 0.0, False),
        (0.0, math.nan, True),
        (math.nan, 0.0, False),
        (math.nan, math.nan, False),
    ],
)
def test_an_end_without_a_density_is_never_better(start, end, expected):
    assert is_start_better(start, end) == expected


def test_densities_of_several_outputs_are_a_mean():
    X, y = noisy_table(2)
    both = np.column_stack([y, 10.0 * y[::-1]])
    gp = flows().fit(X, both)
    assert gp._left_out_density() == pytest.approx(density_of_targets(gp, both))
