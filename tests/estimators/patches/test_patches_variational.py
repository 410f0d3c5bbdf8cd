"""Variational inference of PatchGPClassifier against closed forms and Laplace."""

import pickle
import warnings

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from skconvgp import (
    SKOPS_TRUSTED_TYPES,
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    PatchGPClassifier,
    PatchGPRegressor,
    gram_diag,
    gram_matrix,
)
from skconvgp.engine import Placement
from skconvgp.exceptions import TileMemoryError
from skconvgp.kernels import PatchKernel, rbf
from skconvgp.likelihoods import Bernoulli, RobustMax, Softmax
from skconvgp.processes.fits import _variational_fit
from tests.helpers.estimators import all_digits
from tests.helpers.lines import show_all

SIDE, PATCH = 6, 3
FULL = {"max_iter": 2000, "tol": 1e-9}  # for few features
LONG = {"max_iter": 300, "tol": 1e-5}
NODES, SHARES = map(torch.as_tensor, np.polynomial.hermite.hermgauss(100))


def digits(n, classes=None, start=0):
    X, y = all_digits()
    if classes is not None:
        X, y = X[np.isin(y, classes)], y[np.isin(y, classes)]
    return X[start : start + n], y[start : start + n]


def classifier(likelihood="softmax", **settings):
    settings = {"n_inducing": 12, "random_state": 0, "dtype": "float64"} | settings
    return PatchGPClassifier(likelihood=likelihood, **settings)


def spots(n):
    """Return images with a bright pixel, whose few patches can all be inducing."""
    X = np.zeros((n, 1, SIDE, SIDE))
    at = np.array(np.divmod(np.random.default_rng(0).permutation(16)[:n], 4)) + 1
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
def test_the_posterior_is_the_maximum_of_the_bound(variance):
    """Against a general-purpose search over the mean and the covariance of q."""
    X, y = digits(30, [3, 8])
    amplitude = 4.0
    gp = classifier(
        Bernoulli("logit"),
        kernel=PatchKernel(rbf(3.0), patch_size=5, location_lengthscale=None),
        n_inducing=3,
        amplitude=amplitude,
        variance=variance,
        **FULL,
    ).fit(X, y)
    basis, unit = gp._process.basis, gp._process.model.mean_diag
    run = gp._resources().run(Placement(torch.device("cpu")))
    features = np.sqrt(amplitude) * basis.features(X.reshape(30, -1), run).numpy()
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


def expected_logistic(mean, var, codes):
    return over_normal(torch.nn.functional.logsigmoid, mean[:, 0], var[:, 0], codes)


def expected_probit(mean, var, codes):
    return over_normal(torch.special.log_ndtr, mean[:, 0], var[:, 0], codes)


def expected_softmax(mean, var, codes):
    """Return that of two classes, whose difference has a logistic function."""
    gap, total = mean[:, 1] - mean[:, 0], var.sum(1)
    return over_normal(torch.nn.functional.logsigmoid, gap, total, codes)


def over_normal(log_link, mean, var, codes):
    latents = mean[:, None] + (2.0 * var)[:, None].sqrt() * NODES
    return log_link((2.0 * codes[:, None] - 1.0) * latents) @ SHARES / np.sqrt(np.pi)


def expected_robustmax(mean, var, codes):
    """Return that of three classes, of which 0.1 % of the labels are wrong."""
    own = torch.nn.functional.one_hot(codes).bool()
    at = mean[own][:, None] + (2.0 * var[own])[:, None].sqrt() * NODES
    others = [part[~own].reshape(-1, 2)[:, None] for part in (mean, var)]
    below = torch.special.ndtr((at[:, :, None] - others[0]) / others[1].sqrt())
    largest = below.prod(2) @ SHARES / np.sqrt(np.pi)
    return largest * np.log(1.0 - 1e-3) + (1.0 - largest) * np.log(1e-3 / 2)


def dense_posterior(gram, expected, codes, n_latents):
    """Return the largest bound over processes with a Gram matrix, by a search.

    The posterior of latent function c is N(K a, (K^-1 + diag(b))^-1) at the maximum
    (Opper and Archambeau, 2009). Means and variances left out are those without the
    Gaussian of a sample, of precision b and natural mean b m + gradient.
    """
    K, codes = torch.as_tensor(gram), torch.as_tensor(codes)
    size = len(K), n_latents

    def posterior(point):
        a, log_b = torch.as_tensor(point).reshape(2, *size)
        mean, var, divergence = K @ a, [], 0.0
        for c in range(n_latents):
            root = (log_b[:, c] / 2).exp()
            B = torch.eye(len(K), dtype=K.dtype) + root[:, None] * K * root
            inverse = torch.linalg.inv(B)
            reduction = root[:, None] * inverse * root
            var.append((K - K @ reduction @ K).diagonal())
            divergence = divergence + 0.5 * (
                inverse.trace() + a[:, c] @ mean[:, c] - len(K) + torch.logdet(B)
            )
        return mean, torch.stack(var, 1), divergence

    def negative_bound(point):
        point = torch.as_tensor(point).requires_grad_()
        mean, var, divergence = posterior(point)
        value = divergence - expected(mean, var, codes).sum()
        value.backward()
        return value.item(), point.grad.numpy()

    start = np.stack([np.zeros(size), np.full(size, -1.0)]).ravel()
    best = minimize(negative_bound, start, jac=True, options={"gtol": 1e-7})
    mean, var, _ = posterior(best.x)
    mean, var = mean.detach().requires_grad_(), var.detach().requires_grad_()
    expected(mean, var, codes).sum().backward()
    precision = -2.0 * var.grad
    left_var = 1.0 / (1.0 / var - precision)
    left_mean = left_var * (mean / var - precision * mean - mean.grad)
    values = (mean, var.sqrt(), left_mean, left_var)
    return -best.fun, *(value.detach().numpy() for value in values)


@pytest.mark.parametrize(
    ("likelihood", "expected", "n_classes"),
    [
        (Bernoulli("logit"), expected_logistic, 2),
        (Bernoulli("probit"), expected_probit, 2),
        ("softmax", expected_softmax, 2),
        ("robustmax", expected_robustmax, 3),
    ],
    ids=["logit", "probit", "softmax", "robustmax"],
)
def test_all_patches_are_the_variational_posterior_of_the_exact_process(
    likelihood, expected, n_classes
):
    X, _ = spots(8)
    y = X.reshape(8, -1).argmax(1) % n_classes
    weights = np.random.default_rng(1).normal(size=(SIDE - PATCH + 1) ** 2)
    kernel = PatchKernel(
        rbf(1.0), patch_size=PATCH, weights=weights, location_lengthscale=None
    )
    settings = {"inducing": "unique", "amplitude": 2.0, "kernel": kernel}
    gp = classifier(likelihood, **settings, **FULL).fit(X, y)
    gram = gram_matrix(kernel, X, dtype="float64")
    gram *= 2.0 / gram.diagonal().mean()
    is_single = isinstance(likelihood, Bernoulli)
    bound, *wanted = dense_posterior(gram, expected, y, 1 if is_single else n_classes)
    assert gp.elbo() == pytest.approx(bound, abs=1e-4)
    mean, std = gp.predict_latent(X, return_std=True)
    found = mean, std, gp._process.left_out.mean, gp._process.left_out.var
    for value, exact in zip(found, wanted, strict=True):
        of_latents = value[:, 1:] if is_single else value
        np.testing.assert_allclose(of_latents, exact, rtol=1e-3, atol=1e-3)
    if is_single:
        np.testing.assert_array_equal(mean[:, 0], -mean[:, 1])


@pytest.mark.parametrize("likelihood", ["softmax", "robustmax"])
def test_a_fit_by_defaults_ends_by_itself(likelihood):
    X, y = digits(60, [0, 1, 2, 3])
    gp = classifier(likelihood, n_locations=2).fit(X, y)  # a warning is an error
    assert 2 < gp.n_iter_ < 60
    longer = clone(gp).set_params(**LONG).fit(X, y)
    # What is left are changes that shrink by a tenth or more from epoch to epoch.
    assert abs(longer.elbo() - gp.elbo()) < 10 * 60 * gp.tol
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
    found = classifier(**settings).fit(X, y)
    for each in ("dtc", "sor"):
        other = clone(found).set_params(variance=each).fit(X, y)
        is_same = np.array_equal(other.predict_proba(X), found.predict_proba(X))
        assert is_same == (each == word)


def test_batches_find_the_solution_of_all_samples():
    X, y = digits(120, [0, 1, 2])
    whole = classifier(**LONG).fit(X, y)
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
    settings = {
        "inducing": "unique",
        "kernel": PatchKernel(rbf(2.0), patch_size=8, location_lengthscale=None),
    }
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
    gp = classifier(likelihood, amplitude=5.0).fit(X, y)
    new, _ = digits(3, [3, 8], start=30)
    mean, cov = gp.predict_latent(new, return_cov=True)
    std = gp.predict_latent(new, return_std=True)[1]
    assert cov.shape == (3, 3, 2)
    np.testing.assert_allclose(
        np.sqrt(np.diagonal(cov, axis1=0, axis2=1)), std.T, rtol=1e-6
    )
    n = 4000
    draws = gp.sample_y(new, n_samples=n, random_state=0)
    # Five standard errors of a mean, and of a covariance of normal draws.
    assert np.all(np.abs(draws.mean(2) - mean) < 5 * std / np.sqrt(n))
    for c in range(2):
        spread = np.sqrt((np.outer(std[:, c], std[:, c]) ** 2 + cov[:, :, c] ** 2) / n)
        assert np.all(np.abs(np.cov(draws[:, c]) - cov[:, :, c]) < 5 * spread)
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
    gp = classifier("bernoulli", **LONG).fit(X, y)
    loaded = sio.loads(sio.dumps(gp), trusted=SKOPS_TRUSTED_TYPES)
    np.testing.assert_array_equal(loaded.predict_proba(X), gp.predict_proba(X))


def test_a_fit_that_is_interrupted_changes_nothing(monkeypatch):
    X, y = digits(40, [0, 1, 2])
    gp = classifier(**LONG).fit(X, y)
    before = gp.predict_proba(X)

    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(_variational_fit.NaturalPosterior, "step_", interrupt)
    with pytest.raises(KeyboardInterrupt):
        gp.fit(X[:30], y[:30])
    np.testing.assert_array_equal(gp.predict_proba(X), before)


def test_progress_is_shown(capsys, monkeypatch):
    show_all(monkeypatch)
    X, y = digits(30, [3, 8])
    classifier("bernoulli", verbose=1, **LONG).fit(X, y)
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
        ({"tol": -1e-3}, "'tol'.*finite number >= 0"),
        ({"tol": "auto"}, "'tol'.*finite number >= 0"),
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
    plain = classifier(**LONG).fit(X, y)
    flipped = classifier(Flipped(), **LONG).fit(X, y)
    probs = torch.as_tensor(plain.predict_proba(X))
    np.testing.assert_allclose(
        flipped.predict_proba(X), 0.9 * probs + 0.1 * probs.flip(1), rtol=1e-10
    )
