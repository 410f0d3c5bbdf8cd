"""Estimators with random features instead of a Gram matrix."""

import pickle
import re

import numpy as np
import pytest
from sklearn.linear_model import BayesianRidge

import skconvgp
from skconvgp import ConvNetGPClassifier, ConvNetGPRegressor
from skconvgp.completion import RandomFeatures
from skconvgp.datasets import load_digits_images
from skconvgp.engine import to_numpy
from skconvgp.exceptions import NotFiniteError, TileMemoryError
from skconvgp.kernels import (
    PatchKernel,
    arcsine,
    convnet,
    dense,
    dot_product,
    optical,
    polynomial,
    rbf,
)
from skconvgp.likelihoods import Beta, Laplace
from skconvgp.processes import NewRows

KERNELS = [
    rbf(2.0),
    rbf() + dot_product(),
    2.0 * arcsine(),
    rbf(3.0) * polynomial(2, 0.1),
    optical(),
    dense(1),
    convnet(1, 3),
]


def line(n=40, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 3))
    return X, np.sin(X[:, 0]) + 0.5 * X[:, 1]


def digits(n):
    X, y = load_digits_images(return_X_y=True)
    return X[:n], y[:n]


def features_of(gp, X):
    """Return the features of samples by the map of a fitted estimator."""
    run = gp._resources().run(gp._resources().placement(0))
    blocks = gp._process.basis.stream(NewRows(np.asarray(X).reshape(len(X), -1)), run)
    return np.concatenate([to_numpy(block) for block, _ in blocks])


@pytest.mark.parametrize("exact_diag", [True, False])
def test_posterior_is_that_of_the_product_of_features(exact_diag):
    (X, y), (X_new, _) = line(), line(7, seed=1)
    part = RandomFeatures(100, exact_diag=exact_diag)  # more features than samples
    gp = ConvNetGPRegressor(
        rbf(1.0), completion=part, noise_variance=0.1, random_state=0
    ).fit(X, y)
    train, new = features_of(gp, X), features_of(gp, X_new)
    exact = ConvNetGPRegressor("precomputed", noise_variance=0.1).fit(
        train @ train.T, y
    )
    diag = (new**2).sum(1)
    mean, std = gp.predict_latent(X_new, return_std=True)
    expected = exact.predict_latent(new @ train.T, return_std=True, diag=diag)
    np.testing.assert_allclose(mean, expected[0], rtol=0, atol=1e-8)
    np.testing.assert_allclose(std, expected[1], rtol=0, atol=1e-8)
    _, cov = gp.predict(X_new, return_cov=True)
    np.testing.assert_allclose(np.diag(cov), std**2, rtol=1e-8)
    for name in ("log_marginal_likelihood", "loo_predict"):
        actual, wanted = getattr(gp, name)(), getattr(exact, name)()
        np.testing.assert_allclose(actual, wanted, rtol=1e-6, atol=1e-8)
    if exact_diag:
        np.testing.assert_allclose(diag, 1.0, rtol=1e-12)


def test_scikit_learn_agrees_on_the_same_features():
    X, y = line(60)
    gp = ConvNetGPRegressor(
        rbf(1.0),
        completion=RandomFeatures(40),
        noise_variance="evidence",
        normalize_y=False,
        random_state=0,
    ).fit(X, y)
    features = features_of(gp, X)
    ridge = BayesianRidge(fit_intercept=False, tol=1e-12, max_iter=2000).fit(
        features, y
    )
    # The same model; the noise of ours is one of a grid.
    ratio = gp.noise_variance_ / (ridge.lambda_ / ridge.alpha_)
    assert 0.5 < ratio < 2.0
    mean, std = gp.predict(X, return_std=True)
    theirs, their_std = ridge.predict(features, return_std=True)
    np.testing.assert_allclose(mean, theirs, atol=0.01)
    assert np.corrcoef(std, their_std)[0, 1] > 0.95


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_every_map_is_fitted_and_kept(kernel):
    X, y = digits(80)
    X = X.reshape(80, -1) if not kernel.is_spatial else X
    gp = ConvNetGPClassifier(kernel, completion=RandomFeatures(60), random_state=0)
    gp.fit(X[:60], y[:60])
    assert gp.score(X[:60], y[:60]) > 0.9
    assert gp.X_train_ is None
    assert not hasattr(gp, "landmark_indices_")
    assert len(gp.dual_coef_) == gp._process.basis.n_samples
    assert gp.fit_report_.n_pairs == 0
    assert gp.backend_ == "torch"
    copy = pickle.loads(pickle.dumps(gp))
    np.testing.assert_array_equal(copy.predict_proba(X[60:]), gp.predict_proba(X[60:]))


def test_files_of_skops_hold_maps(tmp_path):
    skops = pytest.importorskip("skops.io")
    X, y = line()
    gp = ConvNetGPRegressor(
        rbf(1.0) * dense(1) + rbf(2.0), completion=RandomFeatures(20), random_state=0
    ).fit(X, y)
    skops.dump(gp, tmp_path / "gp.skops")
    copy = skops.load(tmp_path / "gp.skops", trusted=skconvgp.SKOPS_TRUSTED_TYPES)
    np.testing.assert_array_equal(copy.predict(X), gp.predict(X))


def test_labels_with_noise_of_their_own_use_features():
    X, y = digits(100)
    gp = ConvNetGPClassifier(
        rbf(2.0),
        completion=RandomFeatures(200),
        likelihood="dirichlet",
        random_state=0,
    )
    probabilities = gp.fit(X[:80], y[:80]).predict_proba(X[80:])
    np.testing.assert_allclose(probabilities.sum(1), 1.0)
    assert gp.score(X[:80], y[:80]) > 0.9
    train, new = features_of(gp, X[:80]), features_of(gp, X[80:])
    exact = ConvNetGPClassifier("precomputed", likelihood="dirichlet")
    exact.fit(train @ train.T, y[:80])
    means = gp.predict_latent(X[80:])
    np.testing.assert_allclose(means, exact.predict_latent(new @ train.T), atol=1e-6)


def test_predictions_do_not_depend_on_the_budget():
    X, y = digits(60)
    settings = {"completion": RandomFeatures(50), "random_state": 0}
    gp = ConvNetGPClassifier(convnet(1, 3), dtype="float64", **settings)
    whole = gp.fit(X, y).predict_latent(X)
    gp.set_params(memory_budget="3 MiB").fit(X, y)
    np.testing.assert_allclose(gp.predict_latent(X), whole, rtol=0, atol=1e-9)


def test_partial_fit_is_a_fit_of_all_samples():
    X, y = line(60)
    settings = {
        "completion": RandomFeatures(30),
        "noise_variance": 0.1,
        "normalize_y": False,
        "random_state": 0,
    }
    whole = ConvNetGPRegressor(rbf(1.0), **settings).fit(X, y)
    parts = ConvNetGPRegressor(rbf(1.0), **settings)
    for part in (slice(0, 20), slice(20, 23), slice(23, 60)):
        parts.partial_fit(X[part], y[part])
    actual, wanted = (gp.predict(X, return_std=True) for gp in (parts, whole))
    np.testing.assert_allclose(actual, wanted, rtol=0, atol=1e-9)
    expected = whole.log_marginal_likelihood()
    assert parts.log_marginal_likelihood() == pytest.approx(expected)
    np.testing.assert_allclose(parts.loo_predict(), whole.loo_predict(), atol=1e-8)
    assert parts.fit_report_.n_samples == 60
    assert parts.fit_report_.n_pairs == 0


def test_classifiers_learn_of_further_labels():
    X, y = digits(150)
    gp = ConvNetGPClassifier(rbf(2.0), completion=RandomFeatures(200), random_state=0)
    gp.partial_fit(X[:50], y[:50], classes=range(10))
    few = gp.score(X[100:], y[100:])
    gp.partial_fit(X[50:100], y[50:100])
    assert gp.score(X[100:], y[100:]) >= few
    assert len(gp.loo_predict()) == 100
    with pytest.raises(ValueError, match="is not the same as on the last call"):
        gp.partial_fit(X[:5], y[:5], classes=[0, 1])


def test_other_completions_add_no_samples():
    assert not hasattr(ConvNetGPRegressor(rbf(1.0)), "partial_fit")
    assert not hasattr(ConvNetGPClassifier(rbf(1.0)), "partial_fit")
    X, y = line()
    gp = ConvNetGPRegressor(rbf(1.0)).fit(X, y)
    gp.set_params(completion=RandomFeatures(10))
    with pytest.raises(ValueError, match="fitted with other settings"):
        gp.partial_fit(X, y)
    settings = {"completion": RandomFeatures(10)}
    for likelihood in ("laplace", Laplace()):
        gp = ConvNetGPClassifier(rbf(1.0), likelihood=likelihood, **settings)
        assert not hasattr(gp, "partial_fit")
    for likelihood in ("gaussian", "dirichlet", Beta()):
        gp = ConvNetGPClassifier(rbf(1.0), likelihood=likelihood, **settings)
        assert hasattr(gp, "partial_fit")


def test_gradients_are_those_of_the_latent_mean():
    X, y = line(20)
    gp = ConvNetGPRegressor(
        arcsine(), completion=RandomFeatures(30), noise_variance=0.1, random_state=0
    ).fit(X, y)
    step = np.eye(3)[0] * 1e-5
    slope = (gp.predict(X + step) - gp.predict(X - step)) / 2e-5
    gradient = gp.latent_gradient(X)[:, 0, 0]
    np.testing.assert_allclose(gradient, slope, rtol=1e-5, atol=1e-7)


def test_draws_have_the_moments_of_predictions():
    X, y = line(20)
    gp = ConvNetGPRegressor(
        rbf(1.0), completion=RandomFeatures(30), noise_variance=0.1, random_state=0
    ).fit(X, y)
    draws = gp.sample_y(X[:4], n_samples=4000, random_state=1)
    mean, std = gp.predict(X[:4], return_std=True)
    assert np.abs(draws.mean(1) - mean).max() < 5.0 * std.max() / 4000**0.5
    np.testing.assert_allclose(draws.std(1), std, rtol=0.08)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_features": 1}, "'n_features' parameter of RandomFeatures must be an int"),
        ({"n_features": 10.0}, "'n_features' parameter of RandomFeatures"),
        ({"readout": "mean"}, "'readout' parameter of RandomFeatures must be 'auto'"),
        ({"width": 0}, "'width' parameter of RandomFeatures must be an int >= 1"),
        ({"n_networks": True}, "'n_networks' parameter of RandomFeatures"),
        ({"orthogonal": "yes"}, "'orthogonal' parameter of RandomFeatures"),
        ({"exact_diag": 1}, "'exact_diag' parameter of RandomFeatures"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    gp = ConvNetGPRegressor(rbf(1.0), completion=RandomFeatures(**settings))
    with pytest.raises(ValueError, match=re.escape(message)):
        gp.fit(*line())


def test_bad_combinations_are_refused():
    X, y = line(10)
    part = RandomFeatures(10)
    with pytest.raises(ValueError, match="features of the samples"):
        ConvNetGPRegressor("precomputed", completion=part).fit(np.eye(10), y)
    with pytest.raises(ValueError, match="use solver='auto', got 'cg'"):
        ConvNetGPRegressor(rbf(1.0), completion=part, solver="cg").fit(X, y)
    with pytest.raises(TypeError, match="has no random features"):
        ConvNetGPRegressor(PatchKernel(patch_size=2), completion=part).fit(
            np.ones((3, 1, 4, 4)), [0, 1, 2]
        )
    few = RandomFeatures(120, readout="exact", n_networks=2)
    with pytest.raises(ValueError, match="`n_features` to a multiple of 128, or use"):
        ConvNetGPRegressor(convnet(1, 3), completion=few).fit(*digits(10))
    with pytest.raises(TileMemoryError):
        ConvNetGPRegressor(rbf(1.0), completion=RandomFeatures(200_000)).fit(X, y)
    with pytest.raises(NotFiniteError, match=r"not finite in torch\.float64"):
        ConvNetGPRegressor(optical(16), completion=part).fit(1e140 * X, y)


def test_seeds_decide_the_features():
    X, y = line()
    one, two, other = (
        ConvNetGPRegressor(
            rbf(1.0), completion=RandomFeatures(10), random_state=seed
        ).fit(X, y)
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one.predict(X), two.predict(X))
    assert not np.allclose(one.predict(X), other.predict(X))
