"""What is added to the diagonal of a Gram matrix is told where it matters."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    ImageRegressor,
    KernelFlowsRegressor,
    NystromCompletedGP,
    NystromCompletedGPRegressor,
)
from skconvgp.augmentation import Flip
from skconvgp.completion import EnsembleNystrom, NearestNeighbors, Nystrom
from skconvgp.exceptions import JitterWarning
from skconvgp.flows import Adam
from skconvgp.inference import feature_posterior
from skconvgp.kernels import convnet, rbf
from tests.helpers.batches import twice
from tests.helpers.estimators import blobs

NOISES = [1e-2, 1e-4, 1e-6, 1e-8, 1e-10, 0.0]


def similar_images(n):
    """Return images (n, 1, 8, 8) that differ in the second digit, and targets (n,)."""
    rng = np.random.default_rng(0)
    return 0.5 + 0.01 * rng.random((n, 1, 8, 8)), rng.normal(size=n)


def fit_and_listen(gp, X, y, ignored=None):
    """Fit; return the messages of warnings about jitter."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if ignored is not None:
            warnings.simplefilter("ignore", ignored)
        gp.fit(X, y)
    assert all(one.category is JitterWarning for one in caught)
    return [str(one.message) for one in caught]


def test_jitter_far_above_the_noise_is_told():
    X, y = similar_images(200)
    gp = ConvNetGPRegressor(convnet(3, kernel_size=3), noise_variance=1e-10)
    assert not fit_and_listen(gp, X, y)  # "auto" is double precision for them
    gp.set_params(dtype="float32")
    (message,) = fit_and_listen(gp, X, y)
    assert gp.fit_report_.jitter > 1e-8
    assert f"{gp.fit_report_.jitter:.2g}" in message
    assert "dtype='float64'" in message
    assert "noise_variance" in message


@pytest.mark.parametrize("solve_dtype", ["float32", "float64"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_jitter_is_at_most_the_noise_or_told(dtype, solve_dtype):
    X, y = similar_images(60)
    n_told = 0
    for noise in NOISES:
        gp = ConvNetGPRegressor(
            convnet(3, kernel_size=3),
            noise_variance=noise,
            dtype=dtype,
            solve_dtype=solve_dtype,
        )
        messages = fit_and_listen(gp, X, y)
        assert bool(messages) == (gp.fit_report_.jitter > noise)
        for message in messages:
            assert ("`dtype='float64'`" in message) == (dtype == "float32")
            assert ("`solve_dtype='float64'`" in message) == (solve_dtype == "float32")
        n_told += len(messages)
    is_coarse = "float32" in (dtype, solve_dtype)
    assert (n_told > 0) == is_coarse


@pytest.mark.parametrize("seed", range(12))
def test_contradictory_copies_without_noise_are_told(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(12, 5))
    X = np.vstack([X, X[:2]])
    gp = ConvNetGPRegressor(rbf(2.0), noise_variance=0.0)
    (message,) = fit_and_listen(gp, X, rng.normal(size=14))
    assert "noise_variance" in message
    # With what was added the solution is one.
    assert gp.fit_report_.jitter >= 1e-12
    assert np.abs(gp.predict(X)).max() < 10.0


def test_copies_that_agree_with_more_noise_than_jitter_are_not_told():
    X = np.repeat(np.arange(4.0)[:, None], 2, axis=0)
    y = np.repeat([0.0, 1.0, -1.0, 0.5], 2)
    for noise in (1e-10, 1e-4):
        assert not fit_and_listen(
            ConvNetGPRegressor(rbf(1.0), noise_variance=noise), X, y
        )


def test_jitter_of_neighbours_is_told():
    X, y = np.repeat(np.arange(6.0), 2)[:, None], np.arange(12.0)
    neighbours = NearestNeighbors(n_neighbors=4, metric="euclidean")
    gp = ConvNetGPRegressor(rbf(1.0), completion=neighbours, noise_variance=0.0)
    (message,) = fit_and_listen(gp, X, y)
    assert "noise_variance" in message


def test_jitter_beside_the_noise_of_labels_is_told():
    _, y = blobs(24)
    settings = {"likelihood": "dirichlet", "amplitude": 1e6, "noise_variance": 0.0}
    gram = np.ones((24, 24)) - 2e-5 * (np.eye(24) - 1.0 / 24)  # not a covariance
    (message,) = fit_and_listen(ConvNetGPClassifier("precomputed", **settings), gram, y)
    assert "nearly the same" in message
    assert "dtype" not in message
    gram += 4e-5 * np.eye(24)
    assert not fit_and_listen(ConvNetGPClassifier("precomputed", **settings), gram, y)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_jitter_of_laplace_is_told(n_classes):
    _, y = blobs(24, n_classes)
    gp = ConvNetGPClassifier(
        "precomputed", likelihood="laplace", amplitude=1e6, noise_variance=0.0
    )
    gram = np.ones((24, 24)) - 2e-5 * (np.eye(24) - 1.0 / 24)  # not a covariance
    (message,) = fit_and_listen(gp, gram, y, ignored=ConvergenceWarning)
    assert gp.fit_report_.jitter > 1.0
    assert f" {gp.fit_report_.jitter:.2g} was added" in message
    gram += 4e-5 * np.eye(24)
    assert not fit_and_listen(gp, gram, y)
    assert gp.fit_report_.jitter == 0.0


@pytest.mark.parametrize("part", [EnsembleNystrom(), Nystrom()], ids=repr)
def test_jitter_of_features_is_told(part):
    X = np.linspace(0.0, 1.0, 150)[:, None]
    gp = ConvNetGPRegressor(
        rbf(3.0),
        completion=part,
        observed_fraction=0.4,
        noise_variance=1e-6,
        solve_dtype="float32",
        random_state=0,
    )
    # Features of several sets of landmarks say the same again and again.
    messages = fit_and_listen(gp, X, np.sin(9.0 * X[:, 0]))
    assert len(messages) == isinstance(part, EnsembleNystrom)
    assert bool(messages) == (gp.fit_report_.jitter > gp.noise_variance_)
    for message in messages:
        assert f"{gp.fit_report_.jitter:.2g} was added" in message
        assert "solve_dtype='float64'" in message


def test_jitter_of_features_is_told_as_the_noise_that_it_makes(monkeypatch):
    X = np.linspace(0.0, 1.0, 40)[:, None]
    y, j = np.sin(9.0 * X[:, 0]), 4.0
    gp = NystromCompletedGPRegressor(
        rbf(0.3), n_landmarks=8, noise_variance=1e-3, random_state=0
    )
    expected = clone(gp).set_params(noise_variance=(1.0 + j) * 1e-3).fit(X, y)

    def with_jitter(sums):
        shifted = sums.moment + j * torch.eye(len(sums.moment))
        return replace(feature_posterior(replace(sums, moment=shifted)), jitter=j)

    monkeypatch.setattr(
        "skconvgp.processes.posterior._shared.feature_posterior", with_jitter
    )
    (message,) = fit_and_listen(gp, X, y)
    assert "noise of 0.001" in message
    assert "0.004 was added" in message
    np.testing.assert_allclose(gp.predict(X), expected.predict(X), rtol=1e-9)


@twice
def test_jitter_of_further_samples_is_told(monkeypatch):
    X, y = np.linspace(0.0, 1.0, 40)[:, None], np.arange(40) % 2
    gp = NystromCompletedGP(rbf(0.3), n_landmarks=8, noise_variance=1e-3)
    gp.fit(X, y)
    monkeypatch.setattr(
        "skconvgp.processes.posterior._shared.feature_posterior",
        lambda sums: replace(feature_posterior(sums), jitter=7.0),
    )
    with pytest.warns(JitterWarning, match=r"0\.007 was added"):
        gp.partial_fit(X, y)
    assert gp.fit_report_.jitter == pytest.approx(7.0 * gp.noise_variance_)


def test_the_last_fit_of_kernel_flows_tells_of_jitter():
    X, y = similar_images(60)
    gp = KernelFlowsRegressor(
        convnet(3, kernel_size=3),
        optimizer=Adam(max_iter=1),
        noise_variance=0.0,
        dtype="float32",
        random_state=0,
    )
    assert len(fit_and_listen(gp, X, y)) == 1


@pytest.mark.parametrize("weight", [0.5, 1.0, 2.0])
def test_jitter_is_the_noise_of_the_evidence(weight):
    rng = np.random.default_rng(0)
    X, y = rng.random((12, 1, 8, 8)), rng.normal(size=12)
    X[:5] = 0.0
    weights = np.r_[weight, np.ones(11)]
    for model in (
        ConvNetGPRegressor(rbf(), noise_variance=0.0),
        ImageRegressor(noise_variance=0.0, random_state=0),
    ):
        with pytest.warns(JitterWarning, match="noise of 0 .* was added"):
            model.fit(X, y, weights)
        assert np.isfinite(model.log_marginal_likelihood())


def test_an_evidence_without_noise_is_told():
    X, y = similar_images(12)
    kernel = convnet(depth=1, kernel_size=3)
    versions = ConvNetGPRegressor(kernel, augment=Flip(), noise_variance=0.0)
    weighted = ConvNetGPRegressor(rbf(), noise_variance=0.0)
    for model, weights in ((versions, None), (weighted, np.r_[2.0, np.ones(11)])):
        model.fit(X + np.arange(8.0), y, weights)
        with pytest.warns(UserWarning, match=r"evidence is infinite.*`noise_variance`"):
            assert np.isinf(model.log_marginal_likelihood())
