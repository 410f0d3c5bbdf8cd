"""noise_variance="auto": chosen by leaving out where that is affordable."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    KernelFlowsClassifier,
    KernelFlowsRegressor,
    NystromCompletedGP,
    NystromCompletedGPRegressor,
    gram_matrix,
)
from skconvgp.completion import NearestNeighbors, Nystrom, SubsetOfData
from skconvgp.datasets import fetch_cifar10
from skconvgp.estimators import _fitting
from skconvgp.flows import LBFGS, Adam
from skconvgp.kernels import convnet, rbf
from skconvgp.solvers import Cholesky
from tests.helpers.estimators import blobs, wave

FOLDER = os.environ.get("SKCONVGP_DATA")
HAS_CIFAR = FOLDER is not None and (Path(FOLDER) / "cifar10.npz").is_file()
CLASSIFIERS = [ConvNetGPClassifier, NystromCompletedGP]
REGRESSORS = [ConvNetGPRegressor, NystromCompletedGPRegressor]
WHOLE = [ConvNetGPClassifier, ConvNetGPRegressor]
USUAL = {"ConvNetGPClassifier": 1e-4, "ConvNetGPRegressor": 1e-2}
USUAL |= {"NystromCompletedGP": 1e-4, "NystromCompletedGPRegressor": 1e-2}


def data_of(cls, n):
    return blobs(n) if cls in CLASSIFIERS else wave(n)


def noise_of(cls, n=40, **settings):
    gp = cls(rbf(1.0), random_state=0, **settings)
    return gp.fit(*data_of(cls, n)).noise_variance_


@pytest.mark.parametrize("cls", CLASSIFIERS + REGRESSORS)
def test_the_default_is_chosen_by_leaving_out(cls):
    assert cls().noise_variance == "auto"
    noise = noise_of(cls)
    assert noise == noise_of(cls, noise_variance="loo")
    assert noise != USUAL[cls.__name__]


@pytest.mark.parametrize("cls", WHOLE)
@pytest.mark.parametrize(
    "settings",
    [
        {"completion": Nystrom(n_landmarks=20)},
        {"completion": SubsetOfData(n_samples=20)},
        {"completion": NearestNeighbors(10)},
        {"solver": "cholesky"},
        {"solver": Cholesky()},
        {"amplitude": 2.0},
    ],
    ids=str,
)
def test_it_is_chosen_where_there_are_eigenvectors(cls, settings):
    assert noise_of(cls, **settings) == noise_of(cls, **settings, noise_variance="loo")


@pytest.mark.parametrize("cls", WHOLE)
@pytest.mark.parametrize("solver", ["cg", "lsqr"])
@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_a_solver_without_eigenvectors_leaves_the_usual_number(cls, solver):
    assert noise_of(cls, solver=solver) == USUAL[cls.__name__]


@pytest.mark.parametrize("cls", [NystromCompletedGP, NystromCompletedGPRegressor])
def test_a_factorisation_for_each_noise_is_not_affordable(cls):
    assert noise_of(cls, variance="fitc") == USUAL[cls.__name__]


@pytest.mark.parametrize("likelihood", ["dirichlet", "laplace"])
def test_labels_that_fix_the_noise_leave_the_usual_number(likelihood):
    X, y = blobs(30)
    for optimizer in (None, LBFGS(max_iter=2)):
        gp = ConvNetGPClassifier(rbf(1.0), likelihood=likelihood, optimizer=optimizer)
        assert gp.fit(X, y).noise_variance_ == 1e-4


@pytest.mark.parametrize("cls", WHOLE)
def test_many_samples_are_not_affordable(cls, monkeypatch):
    monkeypatch.setattr(_fitting, "MOST_INPUTS", 30)
    assert noise_of(cls, 30) == noise_of(cls, 30, noise_variance="loo")
    assert noise_of(cls, 31) == USUAL[cls.__name__]
    some = {"completion": SubsetOfData(n_samples=30)}
    assert noise_of(cls, 60, **some) == noise_of(cls, 60, noise_variance="loo", **some)


@pytest.mark.parametrize("cls", WHOLE)
def test_eigenvectors_that_do_not_fit_are_not_affordable(cls, monkeypatch):
    free = {"bytes": 5 * 8 * 40**2}  # five matrices
    for module in ("engine._devices", "processes._plan"):
        name = f"skconvgp.{module}.free_memory"
        monkeypatch.setattr(name, lambda _: free["bytes"])
    assert noise_of(cls) == noise_of(cls, noise_variance="loo")
    free["bytes"] -= 1
    assert noise_of(cls) == USUAL[cls.__name__]


def test_one_eigendecomposition_is_all(monkeypatch):
    calls, eigh = [], torch.linalg.eigh

    def counted(matrix):
        calls.append(matrix.shape)
        return eigh(matrix)

    monkeypatch.setattr(torch.linalg, "eigh", counted)
    noise_of(ConvNetGPClassifier)
    assert calls == [(40, 40)]


@pytest.mark.parametrize("cls", CLASSIFIERS + REGRESSORS)
def test_few_samples_leave_the_usual_number(cls):
    for n in (2, 9):
        X, y = data_of(cls, n)
        gp = cls(rbf(1.0)).fit(X, y)
        assert gp.noise_variance_ == USUAL[cls.__name__]
        assert np.isfinite(gp.predict_latent(X, return_std=True)).all()
    assert noise_of(cls, 10) == noise_of(cls, 10, noise_variance="loo")
    X, y = data_of(cls, 9)
    for args in ((X, y, np.full(9, 3)), (np.repeat(X, 3, 0), np.repeat(y, 3))):
        assert cls(rbf(1.0)).fit(*args).noise_variance_ == USUAL[cls.__name__]


@pytest.mark.filterwarnings("ignore:All targets are the same")
@pytest.mark.parametrize("cls", REGRESSORS)
@pytest.mark.parametrize("value", [0.0, 7.0])
def test_targets_that_are_all_the_same_leave_the_usual_number(cls, value):
    X, _ = wave(20)
    gp = cls(rbf(1.0)).fit(X, np.full(20, value))
    assert gp.noise_variance_ == 1e-2
    np.testing.assert_allclose(gp.predict(X), value)


@pytest.mark.filterwarnings("ignore:All targets are the same")
def test_a_single_sample_is_fitted():
    gp = ConvNetGPRegressor(rbf(1.0)).fit([[1.0]], [3.0])
    assert gp.noise_variance_ == 1e-2
    assert gp.predict([[1.0]]) == pytest.approx(3.0)


def weighted_and_repeated(cls, **settings):
    X, y = data_of(cls, 40)
    weights = np.random.default_rng(1).integers(0, 4, 40)
    fits = [
        cls(rbf(1.0), random_state=0, **settings).fit(X, y, weights),
        cls(rbf(1.0), random_state=0, **settings).fit(
            np.repeat(X, weights, axis=0), np.repeat(y, weights)
        ),
    ]
    return [*fits, int((weights > 0).sum())]


def assert_same(one, other, X):
    assert one.noise_variance_ == other.noise_variance_
    method = "predict_proba" if hasattr(one, "predict_proba") else "predict"
    np.testing.assert_allclose(
        getattr(one, method)(X), getattr(other, method)(X), rtol=1e-6, atol=1e-7
    )
    for got, expected in zip(
        one.predict_latent(X, return_std=True),
        other.predict_latent(X, return_std=True),
        strict=True,
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("cls", CLASSIFIERS + REGRESSORS)
def test_weights_choose_what_repetitions_choose(cls):
    weighted, repeated, _ = weighted_and_repeated(cls)
    assert weighted.noise_variance_ != USUAL[cls.__name__]
    assert_same(weighted, repeated, data_of(cls, 60)[0])


@pytest.mark.parametrize("cls", WHOLE)
def test_samples_count_by_their_inputs(cls, monkeypatch):
    *_, count = weighted_and_repeated(cls)
    for most in (count, count - 1):
        monkeypatch.setattr(_fitting, "MOST_INPUTS", most)
        weighted, repeated, _ = weighted_and_repeated(cls)
        assert (weighted.noise_variance_ == USUAL[cls.__name__]) == (most < count)
        assert_same(weighted, repeated, data_of(cls, 60)[0])


@pytest.mark.parametrize("cls", WHOLE)
def test_weights_of_a_gram_matrix_choose_what_repetitions_choose(cls):
    X, y = data_of(cls, 40)
    gram = gram_matrix(rbf(1.0), X)
    weights = np.random.default_rng(1).integers(0, 4, 40)
    rows = np.repeat(np.arange(40), weights)
    weighted = cls("precomputed", amplitude=1.0).fit(gram, y, weights)
    repeated = cls("precomputed", amplitude=1.0).fit(gram[np.ix_(rows, rows)], y[rows])
    assert weighted.noise_variance_ == repeated.noise_variance_
    assert (
        weighted.noise_variance_
        == cls(rbf(1.0), amplitude=1.0).fit(X, y, weights).noise_variance_
    )
    np.testing.assert_allclose(
        weighted.predict_latent(gram), repeated.predict_latent(gram[:, rows]), rtol=1e-6
    )


@pytest.mark.parametrize("criterion", ["evidence", "loo"])
def test_with_an_optimizer_it_is_learned_by_the_same_criterion(criterion):
    X, y = wave(40)
    settings = {"optimizer": criterion, "random_state": 0}
    gp = ConvNetGPRegressor(rbf(1.0), **settings).fit(X, y)
    same = ConvNetGPRegressor(rbf(1.0), noise_variance=criterion, **settings).fit(X, y)
    assert gp.kernel_ == same.kernel_
    assert gp.noise_variance_ == same.noise_variance_
    assert gp.noise_variance_ == gp.optimizer_result_.values["noise_variance"]


@pytest.mark.parametrize(
    ("cls", "make"), [(KernelFlowsClassifier, blobs), (KernelFlowsRegressor, wave)]
)
def test_what_was_learned_stands_in_where_it_is_not_affordable(cls, make, monkeypatch):
    gp = cls(rbf(1.0), optimizer=Adam(max_iter=3), random_state=0)
    X, y = make(40)
    assert gp.fit(X, y).noise_variance_ == (
        gp.set_params(noise_variance="loo").fit(X, y).noise_variance_
    )
    monkeypatch.setattr(_fitting, "MOST_INPUTS", 30)
    gp.set_params(noise_variance="auto").fit(X, y)
    assert gp.noise_variance_ == gp.flow_result_.values["noise_variance"]


def test_smooth_targets_without_noise_need_no_jitter():
    X = np.linspace(0.0, 6.0, 200)[:, None]
    for settings in ({}, {"dtype": "float32"}, {"solve_dtype": "float32"}):
        gp = ConvNetGPRegressor(rbf(2.0), **settings).fit(X, np.sin(X[:, 0]))
        assert gp.fit_report_.jitter == 0.0
        np.testing.assert_allclose(gp.predict(X), np.sin(X[:, 0]), atol=0.02)


def test_probabilities_of_overlapping_classes_gain():
    X, y = blobs(400)
    losses = [
        log_loss(y[200:], gp.fit(X[:200], y[:200]).predict_proba(X[200:]))
        for gp in (
            ConvNetGPClassifier(rbf(1.0)),
            ConvNetGPClassifier(rbf(1.0), noise_variance=1e-4),
        )
    ]
    assert losses[0] < losses[1] - 0.1


@pytest.mark.slow
@pytest.mark.skipif(not HAS_CIFAR, reason="SKCONVGP_DATA has no cifar10.npz")
def test_photographs_gain():
    X, y = fetch_cifar10(n_samples=1000, return_X_y=True)
    X_test, y_test = fetch_cifar10(subset="test", n_samples=500, return_X_y=True)
    kernel = convnet(depth=3, kernel_size=3)
    gps = [
        ConvNetGPClassifier(kernel),
        ConvNetGPClassifier(kernel, noise_variance=1e-4),
    ]
    losses = [log_loss(y_test, gp.fit(X, y).predict_proba(X_test)) for gp in gps]
    assert losses[0] < losses[1] - 0.05
    assert gps[0].score(X_test, y_test) > gps[1].score(X_test, y_test)
