"""Labels as counts on patches, against dense formulas, refits and exact processes."""

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from skconvgp import ConvNetGPClassifier, PatchGPClassifier, gram_matrix
from skconvgp.exceptions import TileMemoryError
from skconvgp.kernels import PatchKernel, rbf
from skconvgp.likelihoods import Beta, Dirichlet, Targets
from skconvgp.processes.basis import _patch_basis
from skconvgp.processes.fits import _coded_choice, _growing, _image_rows, _patches
from tests.helpers.estimators import all_digits

KERNEL = PatchKernel(rbf(2.0), patch_size=3, stride=2, location_lengthscale=None)
PLACED = PatchKernel(rbf(1.0), patch_size=3, location_lengthscale=1.5)
NOISE, AMPLITUDE = 1e-3, 40.0
SETTINGS = {"dtype": "float64", "random_state": 0, "likelihood": "dirichlet"}
GIVEN = {"amplitude": AMPLITUDE, "noise_variance": NOISE}


def digits(n, classes=(3, 5, 8)):
    X, y = all_digits()
    chosen = np.isin(y, classes)
    return X[chosen][:n], y[chosen][:n]


def noise(n, classes=(3, 5, 8)):
    """Return images whose patches all differ, with labels that follow from them."""
    X = np.random.default_rng(7).normal(size=(n, 1, 6, 6))
    order = np.argsort(np.argsort(X[:, 0, :3].mean((1, 2))))
    return X, np.asarray(classes)[order * len(classes) // n]


def patches():
    return digits(200)[0][150:159, :, 1:4, 2:5]


def classifier(**settings):
    return PatchGPClassifier(PLACED, **SETTINGS | {"inducing": patches()} | settings)


def exact_and_patches(X, y, weights=None, **settings):
    """Return the exact process, and that of all patches as inducing patches."""
    options = SETTINGS | settings
    exact = ConvNetGPClassifier(KERNEL, **options).fit(X, y, weights)
    gp = PatchGPClassifier(KERNEL, inducing="unique", **options)
    return exact, gp.fit(X, y, weights)


@pytest.mark.parametrize("likelihood", ["dirichlet", Dirichlet(0.1), "beta"])
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("n", [7, 30])  # of fewer than 10, single units are left out
def test_all_patches_give_the_exact_process(likelihood, is_weighted, n):
    X, y = noise(n + 5, (3, 8) if likelihood == "beta" else (3, 5, 8))
    weights = np.random.default_rng(0).uniform(0.4, 2.5, n) if is_weighted else None
    exact, gp = exact_and_patches(X[:n], y[:n], weights, likelihood=likelihood, **GIVEN)
    assert gp.explained_variance_ == pytest.approx(1.0, abs=1e-6)
    pairs = [
        (exact.latent_offset_, gp.latent_offset_),
        *zip(
            *(each.predict_latent(X, return_std=True) for each in (exact, gp)),
            strict=True,
        ),
        (
            exact.predict_latent(X, return_cov=True)[1],
            gp.predict_latent(X, return_cov=True)[1],
        ),
        (exact.loo_predict_proba(), gp.loo_predict_proba()),
        (exact.predict_proba(X), gp.predict_proba(X)),
    ]
    for wanted, found in pairs:
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    evidence = exact.log_marginal_likelihood()
    assert gp.log_marginal_likelihood() == pytest.approx(evidence, rel=1e-6)


def test_amplitude_and_prior_count_are_those_of_the_exact_process():
    X, y = noise(40)
    exact, gp = exact_and_patches(X, y, likelihood=Dirichlet("loo"))
    assert gp.likelihood_ == exact.likelihood_
    assert gp.noise_variance_ == exact.noise_variance_ == 1e-4
    assert gp.amplitude_ == pytest.approx(exact.amplitude_, rel=1e-3)
    assert gp.temperature_ == pytest.approx(exact.temperature_, rel=1e-2)


def test_amplitude_of_the_kernel():
    X, y = noise(30)
    exact, gp = exact_and_patches(X, y, amplitude=None)
    assert gp.amplitude_ == pytest.approx(exact.amplitude_)


def test_prior_count_has_the_least_left_out_loss(monkeypatch):
    X, y = digits(60)
    judged, loss = [], _coded_choice.left_out_loss

    def judge(*args):
        judged.append(loss(*args))
        return judged[-1]

    monkeypatch.setattr(_coded_choice, "left_out_loss", judge)
    losses = {}
    for count in Dirichlet.tried:
        gp = classifier(likelihood=Dirichlet(count)).fit(X, y)
        codes = np.searchsorted(gp.classes_, y)
        own = gp.loo_predict_proba()[np.arange(60), codes]
        losses[count] = -np.log(own).mean()
    gp = classifier(likelihood=Dirichlet("loo")).fit(X, y)
    assert gp.likelihood_.alpha_eps == min(losses, key=losses.get)
    assert len(gp.dual_coef_) > 60  # as many features as images judge
    assert judged == pytest.approx(list(losses.values()), rel=1e-7)


def test_bound_counts_what_features_leave_out():
    X, y = digits(50)
    gp = classifier(inducing=patches()[:2], n_locations=2, **GIVEN).fit(X, y)
    assert gp.explained_variance_ < 0.9
    codes = torch.as_tensor(np.searchsorted(gp.classes_, y))
    targets = Dirichlet().targets(codes, 3, torch.ones(50))
    variances = targets.noise.numpy() + AMPLITUDE * NOISE
    # The variances that features leave out enter by their mean.
    residual = AMPLITUDE * (1.0 - gp.explained_variance_)
    expected = gp.log_marginal_likelihood() - 0.5 * residual * (1.0 / variances).sum()
    assert gp.elbo() == pytest.approx(expected, rel=1e-9)
    gram = gram_matrix(PLACED, X, dtype="float64")
    gram *= AMPLITUDE / np.diag(gram).mean()
    evidence = sum(
        multivariate_normal(cov=gram + np.diag(noise)).logpdf(values)
        for noise, values in zip(
            variances.T, (targets.values - targets.offset).numpy().T, strict=True
        )
    )
    assert gp.elbo() < evidence


class Shifted(Dirichlet):
    """Third-party likelihood: prior means are given."""

    def targets(self, codes, n_classes, weights):
        found = super().targets(codes, n_classes, weights)
        return Targets(found.values, torch.tensor([-1.0, -2.0, -3.0]), found.noise)


class Unequal(Dirichlet):
    """Third-party likelihood: the noise differs between the other classes."""

    def targets(self, codes, n_classes, weights):
        found = super().targets(codes, n_classes, weights)
        more = codes[:, None] + torch.arange(n_classes)
        return Targets(found.values, found.offset, found.noise + more)


def pieces(n, at):
    return np.split(np.arange(n), at)


def in_batches(gp, X, y, at, weights=None):
    for part in pieces(len(X), at):
        own = None if weights is None else weights[part]
        gp.partial_fit(X[part], y[part], [3, 5, 8], own)
    return gp


def whole_like(gp, X, y, weights=None, **settings):
    """Return a fit to all images, in the units of the first batch of another."""
    diag = np.diag(gram_matrix(PLACED, X, dtype="float64"))
    unit = np.average(diag, weights=weights)
    ratio = unit / gp._process.model.mean_diag
    own = {"amplitude": AMPLITUDE * ratio, "noise_variance": NOISE / ratio}
    return classifier(**own, **settings).fit(X, y, weights)


def test_a_class_that_only_later_batches_have():
    X, y = digits(60)
    order = np.argsort(y == 5, kind="stable")
    X, y = X[order], y[order]
    first = int((y != 5).sum())
    gp = classifier(**GIVEN, likelihood=Shifted())
    with pytest.warns(UserWarning, match=r"no samples of the classes \[5\]"):
        gp.partial_fit(X[:first], y[:first], classes=[3, 5, 8])
    assert (gp.predict(X) != 5).all()
    gp.partial_fit(X[first:], y[first:])
    whole = whole_like(gp, X, y, likelihood=Shifted())
    np.testing.assert_allclose(
        gp.predict_latent(X), whole.predict_latent(X), rtol=1e-7, atol=1e-8
    )


def test_settings_of_the_first_batch_stay():
    X, y = digits(60)
    gp = classifier(likelihood=Dirichlet("loo"))
    gp.partial_fit(X[:30], y[:30], classes=[3, 5, 8])
    kept = gp.likelihood_, gp.amplitude_, gp.latent_offset_.tolist()
    gp.partial_fit(X[30:], y[30:])
    assert (gp.likelihood_, gp.amplitude_, gp.latent_offset_.tolist()) == kept
    assert gp.fit_report_.n_samples == 60


@pytest.mark.parametrize("variance", ["dtc", "sor"])
def test_left_out_images_on_demand(variance, monkeypatch):
    X, y = digits(60)
    kept = classifier(variance=variance, **GIVEN).fit(X, y)
    monkeypatch.setattr(_image_rows, "KEPT_IMAGES", 20)
    gp = classifier(variance=variance, **GIVEN).fit(X, y)
    assert len(gp._process.left_out.subset[0]) == 20
    assert np.isnan(gp._process.left_out.mean).any()
    for found, wanted in zip(gp._left_out(), kept._left_out(), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-10)


def test_kept_images_after_batches(monkeypatch):
    monkeypatch.setattr(_image_rows, "KEPT_IMAGES", 20)
    X, y = digits(60)
    gp = in_batches(classifier(**GIVEN, likelihood=Shifted()), X, y, [30])
    whole = whole_like(gp, X, y, likelihood=Shifted())
    for found, wanted in zip(
        gp._process.left_out.subset, whole._process.left_out.subset, strict=True
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-9)
    assert len(gp._process.growth.reservoir.rows.images.rows) == 20


def test_weights_are_repetitions(monkeypatch):
    monkeypatch.setattr(_image_rows, "KEPT_IMAGES", 30)
    X, y = digits(60)
    y[40:] = y[:20]
    X[40:50] = X[:10]  # the same image with the same label, and with another
    y[45:50] = np.array([3, 5, 8, 3, 5])
    repeats = np.random.default_rng(4).integers(0, 4, 60)
    one = classifier(likelihood=Dirichlet("loo")).fit(X, y, sample_weight=repeats)
    two = classifier(likelihood=Dirichlet("loo"))
    two.fit(X.repeat(repeats, 0), y.repeat(repeats))
    assert one.likelihood_ == two.likelihood_
    assert one.amplitude_ == pytest.approx(two.amplitude_, rel=1e-3)
    np.testing.assert_allclose(
        one.predict_proba(X), two.predict_proba(X), rtol=1e-2, atol=1e-4
    )


def test_sums_in_single_precision(monkeypatch):
    X, y = digits(200)
    exact = classifier(**GIVEN).fit(X, y)
    monkeypatch.setattr(_image_rows, "MANY_IMAGES", 100)
    monkeypatch.setattr(_patch_basis, "MOST_ROWS", 64)
    gp = classifier(**GIVEN).fit(X, y)
    for found, wanted in zip(
        gp.predict_latent(X, return_std=True),
        exact.predict_latent(X, return_std=True),
        strict=True,
    ):
        assert not np.array_equal(found, wanted)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_draws_of_two_classes_by_one_function():
    X, y = digits(40, (3, 8))
    gp = classifier(likelihood=Beta(), **GIVEN).fit(X, y)
    draws = gp.sample_y(X[:5], 3, random_state=0)
    np.testing.assert_allclose(draws[:, 0], -draws[:, 1])
    assert len(gp._process.state.factors) == 1


def test_kernels_are_learned_on_label_regression():
    X, y = digits(60)
    spec = PatchKernel(rbf(1.0), patch_size=3, location_lengthscale=None)
    options = {"inducing": patches(), "optimizer": "loo", "random_state": 0}
    counted = PatchGPClassifier(spec, likelihood="dirichlet", **options).fit(X, y)
    regressed = PatchGPClassifier(spec, **options).fit(X, y)
    assert counted.kernel_ == regressed.kernel_
    assert counted.kernel_ != spec


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"noise_variance": "loo"}, r"Dirichlet\(\).*use a number, got 'loo'"),
        ({"noise_variance": "evidence"}, r"use a number, got 'evidence'"),
        ({"likelihood": Unequal()}, r"more than two noise.*'dirichlet'"),
        ({"likelihood": "beta"}, r"two classes"),
        ({"likelihood": Dirichlet(0.0)}, r"alpha_eps"),
    ],
)
def test_settings_that_do_not_work_are_refused(settings, match, monkeypatch):
    monkeypatch.setattr(_image_rows, "_read", None)
    X, y = digits(30)
    with pytest.raises(ValueError, match=match):
        classifier(**settings).fit(X, y)


def test_sums_that_do_not_fit_are_refused_before_work(monkeypatch):
    X, y = digits(40)
    gp = classifier().partial_fit(X[:30], y[:30], classes=[3, 5, 8])
    with monkeypatch.context() as patch:
        patch.setattr(_patches, "values_of_labels", lambda *_: 10**15)
        patch.setattr(_image_rows, "_read", None)
        with pytest.raises(TileMemoryError, match=r"3 matr.*n_inducing.*n_locations"):
            classifier().fit(X, y)
    monkeypatch.setattr(_growing, "SQUARE_COPIES", 10**15)
    with pytest.raises(TileMemoryError, match=r"n_inducing.*n_locations"):
        gp.partial_fit(X[30:], y[30:])


@pytest.mark.parametrize("method", ["pathwise", "bootstrap"])
@pytest.mark.parametrize("likelihood", ["dirichlet", "beta"])
def test_draws_have_the_moments_of_the_posterior(method, likelihood):
    X, y = digits(60, (3, 8) if likelihood == "beta" else (3, 5, 8))
    gp = classifier(likelihood=likelihood, variance="sor").fit(X[:50], y[:50])
    mean, std = gp.predict_latent(X[50:], return_std=True)
    draws = gp.sample_y(X[50:], 4000, 0, method)
    assert np.abs((draws.mean(2) - mean) / std).max() < 5.0 / 4000**0.5
    np.testing.assert_allclose(draws.std(2), std, rtol=0.07)
    if likelihood == "beta":
        np.testing.assert_array_equal(draws[:, 0], -draws[:, 1])
