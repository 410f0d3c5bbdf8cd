"""Variational inference of PatchGPClassifier against closed forms and Laplace."""

import pickle
import warnings

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss

from skconvgp import (
    SKOPS_TRUSTED_TYPES,
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    PatchGPClassifier,
    PatchGPRegressor,
    gram_diag,
)
from skconvgp.datasets import load_digits_images
from skconvgp.engine import Placement
from skconvgp.exceptions import TileMemoryError
from skconvgp.kernels import PatchKernel, rbf
from skconvgp.likelihoods import Bernoulli, Laplace, RobustMax, Softmax
from skconvgp.processes import _variational_fit

SIDE, PATCH = 6, 3
FULL = {"max_iter": 200, "batch_size": 10_000}


def digits(n, classes=None, start=0):
    X, y = load_digits_images(return_X_y=True)
    if classes is not None:
        X, y = X[np.isin(y, classes)], y[np.isin(y, classes)]
    return X[start : start + n], y[start : start + n]


def classifier(likelihood="softmax", **settings):
    settings = {"n_inducing": 12, "random_state": 0, "dtype": "float64"} | settings
    return PatchGPClassifier(likelihood=likelihood, **settings)


def spots(n):
    """Return images with a bright pixel, whose few patches can all be inducing."""
    rng = np.random.default_rng(0)
    X = np.zeros((n, 1, SIDE, SIDE))
    at = rng.integers(1, 5, n), rng.integers(1, 5, n)
    X[np.arange(n), 0, *at] = 3.0
    return X, (at[0] + at[1] > 5).astype(int)


def exact_settings():
    kernel = PatchKernel(rbf(1.0), patch_size=PATCH, location_lengthscale=1.5)
    inducing = {"inducing": "unique", "n_locations": SIDE - PATCH + 1}
    return kernel, inducing


@pytest.mark.parametrize("variance", ["dtc", "sor"])
def test_gaussian_noise_gives_the_closed_form(variance):
    X, y = digits(60)
    new, _ = digits(20, start=60)
    settings = {"variance": variance, "noise_variance": 0.03}
    closed = classifier("gaussian", **settings).fit(X, y)
    steps = classifier(
        "gaussian", inference="variational", learning_rate=1.0, **settings
    ).fit(X, y)
    for wanted, found in zip(
        closed.predict_latent(new, return_std=True),
        steps.predict_latent(new, return_std=True),
        strict=True,
    ):
        np.testing.assert_allclose(found, wanted * np.ones(10), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(
        steps.predict_latent(new, return_cov=True)[1],
        closed.predict_latent(new, return_cov=True)[1] * np.ones(10),
        rtol=1e-6,
        atol=1e-9,
    )
    np.testing.assert_allclose(
        steps.loo_predict_proba(), closed.loo_predict_proba(), rtol=1e-6, atol=1e-9
    )
    np.testing.assert_allclose(
        steps.predict_proba(new), closed.predict_proba(new), rtol=1e-6, atol=1e-9
    )
    assert steps.noise_variance_ == closed.noise_variance_
    if variance == "dtc":
        assert steps.elbo() == pytest.approx(closed.elbo(), rel=1e-9)
    else:
        assert steps.elbo() == pytest.approx(closed.log_marginal_likelihood(), rel=1e-9)


@pytest.mark.parametrize("variance", ["dtc", "sor"])
def test_the_posterior_is_the_maximum_of_the_bound(variance, monkeypatch):
    """Against a general-purpose search over the mean and the covariance of q."""
    monkeypatch.setattr(_variational_fit, "TOLERANCE", 1e-13)
    X, y = digits(30, [3, 8])
    amplitude = 4.0
    gp = classifier(
        Bernoulli("logit"),
        kernel=PatchKernel(rbf(3.0), patch_size=5),
        n_inducing=3,
        amplitude=amplitude,
        variance=variance,
        max_iter=2000,
    ).fit(X, y)
    prior, unit = gp._process.prior, gp._process.model.mean_diag
    run = gp._resources().run(Placement(torch.device("cpu")))
    features = np.sqrt(amplitude) * prior.features(X.reshape(30, -1), run).numpy()
    diag = amplitude / unit * gram_diag(gp.kernel_, X, dtype="float64")
    left_out = diag - (features**2).sum(1) if variance == "dtc" else np.zeros(30)
    nodes, shares = np.polynomial.hermite.hermgauss(80)
    signs = np.where(y == 8, 1.0, -1.0)[:, None]
    r = features.shape[1]

    def negative_bound(point):
        mean, root = point[:r], np.zeros((r, r))
        root[np.tril_indices(r)] = point[r:]
        root[np.diag_indices(r)] = np.exp(np.diag(root))
        var = ((features @ root) ** 2).sum(1) + left_out
        latents = (features @ mean)[:, None] + np.sqrt(2.0 * var)[:, None] * nodes
        expected = -np.logaddexp(0.0, -signs * latents) @ shares / np.sqrt(np.pi)
        logdet = 2.0 * np.log(np.diag(root)).sum()
        divergence = 0.5 * ((root**2).sum() + mean @ mean - r - logdet)
        return divergence - expected.sum()

    start = np.zeros(r + r * (r + 1) // 2)
    best = minimize(negative_bound, start, options={"gtol": 1e-7})
    assert gp.elbo() == pytest.approx(-best.fun, rel=1e-6)
    mean, std = gp.predict_latent(X, return_std=True)
    np.testing.assert_allclose(mean[:, 1], features @ best.x[:r], rtol=1e-3, atol=1e-4)
    root = np.zeros((r, r))
    root[np.tril_indices(r)] = best.x[r:]
    root[np.diag_indices(r)] = np.exp(np.diag(root))
    var = ((features @ root) ** 2).sum(1) + left_out
    np.testing.assert_allclose(std[:, 1], np.sqrt(var), rtol=1e-3)


@pytest.mark.parametrize("n_inducing", [1, 4, "all"])
def test_the_collapsed_bound_rises_to_the_exact_evidence(n_inducing):
    X, _ = spots(9)
    y = np.random.default_rng(1).normal(size=(9, 2))
    kernel, inducing = exact_settings()
    settings = {"noise_variance": 0.05, "amplitude": 2.0, "dtype": "float64"}
    exact = ConvNetGPRegressor(kernel, **settings).fit(X, y)
    if n_inducing != "all":
        inducing = {"n_inducing": n_inducing, "n_locations": 2, "inducing": "uniform"}
    gp = PatchGPRegressor(kernel, random_state=0, **inducing, **settings).fit(X, y)
    evidence = exact.log_marginal_likelihood()
    if n_inducing == "all":
        assert gp.elbo() == pytest.approx(evidence, abs=1e-3)
    else:
        assert gp.elbo() < evidence - 1.0
        assert gp.elbo() < gp.log_marginal_likelihood()


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_two_classes_are_close_to_laplace_of_the_exact_process(link):
    X, y = spots(16)
    kernel, inducing = exact_settings()
    settings = {"amplitude": 2.0, "dtype": "float64"}
    gp = PatchGPClassifier(
        kernel, likelihood=Bernoulli(link), **inducing, **settings, **FULL
    ).fit(X, y)
    laplace = ConvNetGPClassifier(
        kernel, likelihood=Laplace(link), noise_variance=0.0, **settings
    ).fit(X, y)
    mean, std = gp.predict_latent(X, return_std=True)
    wanted, wanted_std = laplace.predict_latent(X, return_std=True)
    np.testing.assert_allclose(mean, wanted, atol=0.15 * np.abs(wanted).max())
    np.testing.assert_allclose(std, wanted_std, rtol=0.1)
    np.testing.assert_array_equal(mean[:, 0], -mean[:, 1])
    np.testing.assert_allclose(gp.predict_proba(X), laplace.predict_proba(X), atol=0.03)
    # Laplace's value is an estimate, not a bound; both are near the evidence.
    assert gp.elbo() == pytest.approx(laplace.log_marginal_likelihood(), abs=0.3)


def test_softmax_of_two_classes_is_the_logistic_function_of_twice_the_variance():
    X, y = spots(16)
    kernel, inducing = exact_settings()
    one = PatchGPClassifier(
        kernel,
        likelihood=Bernoulli("logit"),
        amplitude=4.0,
        dtype="float64",
        **inducing,
        **FULL,
    ).fit(X, y)
    two = clone(one).set_params(likelihood="softmax", amplitude=2.0).fit(X, y)
    # q is a product over classes, so that only means are nearly those of one function.
    np.testing.assert_allclose(two.predict_proba(X), one.predict_proba(X), atol=0.02)
    assert two.elbo() < one.elbo()


def test_left_out_predictions_are_near_those_of_refits():
    X, y = digits(40, [3, 8])
    gp = classifier("bernoulli", amplitude=30.0, inducing="uniform", **FULL)
    patches = gp.fit(X, y).inducing_patches_
    given = clone(gp).set_params(inducing=patches, kernel=gp.kernel_).fit(X, y)
    mean, var = given._process.loo
    for i in range(0, 40, 8):
        rest = np.arange(40) != i
        again = clone(given).fit(X[rest], y[rest])
        wanted, std = again.predict_latent(X[[i]], return_std=True)
        assert mean[i, 1] == pytest.approx(wanted[0, 1], abs=0.1 * np.abs(mean).max())
        assert np.sqrt(var[i, 1]) == pytest.approx(std[0, 1], rel=0.1)


@pytest.mark.parametrize("likelihood", ["softmax", "robustmax"])
def test_digits_are_read(likelihood):
    X, y = digits(400)
    X_new, y_new = digits(300, start=400)
    gp = classifier(likelihood, n_inducing=32, n_locations=2, max_iter=30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        gp.fit(X, y)
    assert gp.score(X_new, y_new) > 0.8
    assert log_loss(y_new, gp.predict_proba(X_new)) < 1.0
    assert log_loss(y, gp.loo_predict_proba()) < 1.0
    assert gp.noise_variance_ == 0.0
    assert gp.temperature_ == 1.0
    assert gp.log_marginal_likelihood() == gp.elbo()


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"likelihood": "bernoulli"}, "sor"),
        ({"likelihood": "gaussian"}, "dtc"),
        ({"likelihood": "gaussian", "inference": "variational"}, "dtc"),
    ],
)
def test_what_features_leave_out_is_ignored_where_labels_are_modelled(settings, word):
    X, y = digits(40, [3, 8])
    found = classifier(**settings, **FULL).fit(X, y)
    for each in ("dtc", "sor"):
        other = clone(found).set_params(variance=each).fit(X, y)
        is_same = np.array_equal(other.predict_proba(X), found.predict_proba(X))
        assert is_same == (each == word)


def test_batches_find_the_solution_of_all_samples():
    X, y = digits(120, [0, 1, 2])
    whole = classifier(**FULL).fit(X, y)
    with pytest.warns(ConvergenceWarning, match=r"1 epochs.*max_iter"):
        short = classifier(max_iter=1).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        parts = classifier(batch_size=32, max_iter=60).fit(X, y)
    assert short.elbo() < parts.elbo() < whole.elbo() + 1e-6
    assert parts.elbo() > whole.elbo() - 0.02 * abs(whole.elbo())
    assert whole.fit_report_.iterations < 200
    new, _ = digits(30, [0, 1, 2], start=120)
    np.testing.assert_allclose(
        parts.predict_proba(new), whole.predict_proba(new), atol=0.05
    )


@pytest.mark.parametrize("likelihood", ["softmax", "robustmax", "bernoulli"])
def test_weights_are_repetitions(likelihood):
    X, y = digits(24, [3, 8])
    repeats = np.tile([1, 3, 1, 2], 6)
    settings = {"inducing": "unique", "kernel": PatchKernel(rbf(2.0), patch_size=8)}
    settings |= {"max_iter": 5, "noise_variance": 0.01}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        one = classifier(likelihood, **settings).fit(X, y, repeats)
        two = classifier(likelihood, **settings).fit(
            X.repeat(repeats, 0), y.repeat(repeats)
        )
    new, _ = digits(20, [3, 8], start=24)
    for a, b in zip(
        one.predict_latent(new, return_std=True),
        two.predict_latent(new, return_std=True),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8)
    assert one.elbo() == pytest.approx(two.elbo(), rel=1e-8)
    np.testing.assert_allclose(
        one.loo_predict_proba().repeat(repeats, 0),
        two.loo_predict_proba(),
        rtol=1e-6,
        atol=1e-9,
    )


@pytest.mark.parametrize("likelihood", ["softmax", "bernoulli"])
def test_draws_have_the_posterior_covariance_of_each_class(likelihood):
    X, y = digits(30, [3, 8])
    gp = classifier(likelihood, amplitude=5.0, **FULL).fit(X, y)
    new, _ = digits(3, [3, 8], start=30)
    mean, cov = gp.predict_latent(new, return_cov=True)
    std = gp.predict_latent(new, return_std=True)[1]
    assert cov.shape == (3, 3, 2)
    np.testing.assert_allclose(
        np.sqrt(np.diagonal(cov, axis1=0, axis2=1)), std.T, rtol=1e-6
    )
    draws = gp.sample_y(new, n_samples=4000, random_state=0)
    np.testing.assert_allclose(draws.mean(2), mean, atol=0.2)
    for c in range(2):
        np.testing.assert_allclose(np.cov(draws[:, c]), cov[:, :, c], atol=0.35)
    if likelihood == "bernoulli":
        np.testing.assert_array_equal(draws[:, 0], -draws[:, 1])


def test_seeds_and_copies_give_the_same_result():
    X, y = digits(60, [0, 1, 2])
    gp = classifier(batch_size=20, max_iter=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        one = gp.fit(X, y).predict_proba(X)
        two = clone(gp).fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(gp)).predict_proba(X), one)


def test_skops_trusts_a_variational_fit():
    sio = pytest.importorskip("skops.io")
    X, y = digits(30, [3, 8])
    gp = classifier("bernoulli", **FULL).fit(X, y)
    loaded = sio.loads(sio.dumps(gp), trusted=SKOPS_TRUSTED_TYPES)
    np.testing.assert_array_equal(loaded.predict_proba(X), gp.predict_proba(X))


def test_a_fit_that_is_interrupted_changes_nothing(monkeypatch):
    X, y = digits(40, [0, 1, 2])
    gp = classifier(**FULL).fit(X, y)
    before = gp.predict_proba(X)

    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(_variational_fit.NaturalPosterior, "step_", interrupt)
    with pytest.raises(KeyboardInterrupt):
        gp.fit(X[:30], y[:30])
    np.testing.assert_array_equal(gp.predict_proba(X), before)


def test_progress_is_shown(capsys):
    X, y = digits(30, [3, 8])
    classifier("bernoulli", verbose=1, **FULL).fit(X, y)
    assert "variational" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"inference": "collapsed"}, r"'collapsed'.*Softmax\(\).*'variational'"),
        (
            {"inference": "laplace"},
            r"'inference'.*'auto', 'collapsed' or 'variational'",
        ),
        ({"batch_size": 0}, "'batch_size'.*int >= 1"),
        ({"max_iter": 0}, "'max_iter'.*int >= 1"),
        ({"learning_rate": 0.0}, "'learning_rate'.*> 0 and <= 1"),
        ({"learning_rate": 1.5}, "'learning_rate'.*> 0 and <= 1"),
        ({"learning_rate": "fast"}, "'learning_rate'.*'auto'"),
        ({"likelihood": "bernoulli"}, "two classes, got 3.*'softmax'"),
        ({"likelihood": RobustMax(2.0)}, "'epsilon'"),
        (
            {"likelihood": "dirichlet", "inference": "variational"},
            r"'variational'.*Dirichlet\(\).*'softmax'",
        ),
    ],
)
def test_wrong_settings_are_refused(settings, match):
    X, y = digits(30, [0, 1, 2])
    with pytest.raises(ValueError, match=match):
        classifier(**settings).fit(X, y)


@pytest.mark.parametrize("likelihood", ["softmax", RobustMax(), Bernoulli()])
def test_other_classifiers_refuse_it(likelihood):
    X, y = digits(30, [3, 8])
    with pytest.raises(ValueError, match=r"PatchGPClassifier has.*'laplace'"):
        ConvNetGPClassifier(rbf(1.0), likelihood=likelihood).fit(X, y)


def test_precisions_that_do_not_fit_are_refused_before_work(monkeypatch):
    monkeypatch.setattr(_variational_fit, "SQUARE_COPIES", 10**15)
    monkeypatch.setattr(_variational_fit._Ascent, "climb", None)
    X, y = digits(30, [3, 8])
    with pytest.raises(TileMemoryError, match=r"n_inducing.*n_locations"):
        classifier().fit(X, y)


class Flipped:
    """Third-party likelihood: a logistic function, of which some labels are wrong."""

    share = 0.1

    def n_latents(self, n_classes):
        return n_classes

    def expected_sites(self, mean, var, codes):
        return Softmax().expected_sites(mean, var, codes)

    def probabilities(self, mean, var):
        right = Softmax().probabilities(mean, var)
        return (1.0 - self.share) * right + self.share * right.flip(1)


def test_a_likelihood_of_another_package():
    X, y = digits(40, [3, 8])
    plain = classifier(**FULL).fit(X, y)
    flipped = classifier(Flipped(), **FULL).fit(X, y)
    probs = torch.as_tensor(plain.predict_proba(X))
    np.testing.assert_allclose(
        flipped.predict_proba(X), 0.9 * probs + 0.1 * probs.flip(1), rtol=1e-10
    )
