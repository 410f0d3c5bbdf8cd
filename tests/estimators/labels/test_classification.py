"""The classifier against the textbook formulas."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from scipy.special import softmax
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import KFold, cross_val_score

from skconvgp import (
    BayesianNetworkClassifier,
    ConvNetGPClassifier,
    KernelEnsembleClassifier,
    NystromCompletedGP,
    gram_matrix,
)
from skconvgp.kernels import rbf
from skconvgp.likelihoods import Gaussian, Part
from skconvgp.solvers import Cholesky
from tests.helpers.estimators import (
    DensePosterior,
    blobs,
    digits,
    label_probabilities,
    label_targets,
    tiny_network,
)

NOISE = 0.05
EXACT = {"dtype": "float64"}  # on any backend


def fit_and_dense(kernel, X, y, **settings):
    gp = ConvNetGPClassifier(kernel, noise_variance=NOISE, **EXACT, **settings)
    gp.fit(X, y)
    gram = gram_matrix(kernel, X, **EXACT)
    return gp, DensePosterior(gram, label_targets(y), noise=NOISE)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", ["rbf", "network"])
def test_latents_are_those_of_the_dense_formulas(name, n_classes):
    X, y = digits(60) if name == "network" else blobs(60, n_classes)
    chosen = y < n_classes
    X, y = X[chosen], y[chosen]
    kernel = tiny_network() if name == "network" else rbf(1.0)
    gp, dense = fit_and_dense(kernel, X[:-6], y[:-6])
    cross = gram_matrix(kernel, X[-6:], X[:-6], **EXACT)
    prior = gram_matrix(kernel, X[-6:], **EXACT)
    mean, std = gp.predict_latent(X[-6:], return_std=True)
    assert gp.amplitude_ == pytest.approx(dense.amplitude, rel=1e-7)
    np.testing.assert_allclose(mean, dense.mean(cross), rtol=1e-6, atol=1e-8)
    cov = dense.cov(cross, prior)
    assert std.shape == (6, n_classes)
    for i in range(n_classes):
        np.testing.assert_allclose(std[:, i] ** 2, np.diag(cov), rtol=1e-5)
    got = gp.predict_latent(X[-6:], return_cov=True)[1]
    assert got.shape == (6, 6, n_classes)
    np.testing.assert_allclose(got[:, :, 1], cov, rtol=1e-5, atol=1e-9)
    noisy = gp.predict_latent(X[-6:], return_cov=True, noise=True)[1]
    added = (noisy - got)[:, :, 0]
    np.testing.assert_allclose(added, dense.amplitude * NOISE * np.eye(6), atol=1e-9)


def test_targets_of_a_sample_sum_to_zero_over_the_classes():
    X, y = blobs(30)
    mean = ConvNetGPClassifier(rbf(1.0)).fit(X, y).predict_latent(X)
    np.testing.assert_allclose(mean.sum(1), 0.0, atol=1e-9)


def test_predictions_are_the_largest_latent_probability_and_decision():
    X, y = blobs(60)
    gp = ConvNetGPClassifier(rbf(1.0), noise_variance=NOISE).fit(X[:40], y[:40])
    labels = gp.predict(X[40:])
    for scores in (gp.predict_latent, gp.predict_proba, gp.decision_function):
        np.testing.assert_array_equal(labels, scores(X[40:]).argmax(1))


@pytest.mark.parametrize(
    "likelihood", [Gaussian(), Gaussian(spread=False), Gaussian(offsets=True)], ids=repr
)
def test_probabilities_are_a_softmax_of_calibrated_latents(likelihood):
    X, y = blobs(60)
    gp = ConvNetGPClassifier(rbf(1.0), noise_variance=NOISE, likelihood=likelihood)
    gp.fit(X[:40], y[:40])
    assert (gp.calibration_.spread > 0.0) == likelihood.spread
    assert len(gp.calibration_.offsets) == (3 if likelihood.offsets else 0)
    mean, std = gp.predict_latent(X[40:], return_std=True)
    expected = label_probabilities(gp, mean, std**2)
    np.testing.assert_allclose(gp.predict_proba(X[40:]), expected, rtol=1e-9)


def test_images_of_another_kind_have_no_sure_class():
    X, y = digits(300)
    mirrored = X[200:].transpose(0, 1, 3, 2)
    settings = {"kernel": tiny_network(), "noise_variance": 1e-3}
    aware = ConvNetGPClassifier(**settings).fit(X[:200], y[:200])
    plain = ConvNetGPClassifier(**settings, likelihood=Gaussian(spread=False))
    plain.fit(X[:200], y[:200])
    np.testing.assert_array_equal(aware.predict(mirrored), plain.predict(mirrored))
    sure = [gp.predict_proba(mirrored).max(axis=1).mean() for gp in (aware, plain)]
    assert sure[0] < sure[1] - 0.2
    sure = [gp.predict_proba(X[200:]).max(axis=1).mean() for gp in (aware, plain)]
    assert abs(sure[0] - sure[1]) < 0.05


def test_offsets_are_followed_by_predictions():
    X, y = blobs(80, n_classes=2)
    few = np.concatenate([np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:6]])
    gp = ConvNetGPClassifier(
        rbf(1.0), noise_variance=NOISE, likelihood=Gaussian(offsets=True)
    ).fit(X[few], y[few])
    new = blobs(400, n_classes=2, seed=1)[0]
    probabilities, decision = gp.predict_proba(new), gp.decision_function(new)
    labels = gp.classes_[probabilities.argmax(1)]
    np.testing.assert_array_equal(gp.predict(new), labels)
    np.testing.assert_array_equal(decision > 0.0, labels == gp.classes_[1])
    assert (labels != gp.classes_[gp.predict_latent(new).argmax(1)]).any()
    left_out = gp.classes_[gp.loo_predict_proba().argmax(1)]
    np.testing.assert_array_equal(gp.loo_predict(), left_out)


def test_inverse_for_leave_one_out_is_computed_once(monkeypatch):
    calls = []
    compute = Cholesky.inverse_diag
    monkeypatch.setattr(
        Cholesky,
        "inverse_diag",
        lambda self, state: calls.append(state) or compute(self, state),
    )
    X, y = blobs(40, 3)
    gp = ConvNetGPClassifier(rbf(1.0), noise_variance=NOISE).fit(X, y)
    y_prob = gp.loo_predict_proba()
    gp.loo_predict()
    assert len(calls) == 1
    kept = gp._process.left_out
    # from the factor that a model keeps
    gp._process = replace(gp._process, left_out=replace(kept, kept=None))
    np.testing.assert_array_equal(gp.loo_predict_proba(), y_prob)
    assert len(calls) == 2


@pytest.mark.parametrize("likelihood", ["gaussian", "dirichlet", "laplace"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_decisions_rank_as_probabilities(n_classes, likelihood):
    X, y = blobs(60, n_classes)
    gp = ConvNetGPClassifier(rbf(1.0), noise_variance=NOISE, likelihood=likelihood)
    gp.fit(X[:40], y[:40])
    new = 2.0 * X[40:]
    odds = np.log(gp.predict_proba(new))
    decision = gp.decision_function(new)
    if n_classes == 2:
        np.testing.assert_allclose(decision, odds[:, 1] - odds[:, 0], atol=1e-9)
        labels = gp.classes_[(decision > 0.0).astype(int)]
    else:
        top = odds.max(axis=1, keepdims=True)
        ahead = decision - decision.max(axis=1, keepdims=True)
        np.testing.assert_allclose(ahead, odds - top, atol=1e-9)
        labels = gp.classes_[decision.argmax(axis=1)]
    np.testing.assert_array_equal(gp.predict(new), labels)
    left_out = gp.classes_[gp.loo_predict_proba().argmax(axis=1)]
    np.testing.assert_array_equal(gp.loo_predict(), left_out)


def test_unknown_labels_are_mistakes():
    X, y = blobs(60)
    gp = ConvNetGPClassifier(rbf(1.0), noise_variance=NOISE).fit(X, y)
    wrong = y.copy()
    wrong[:6] = 7
    right = gp.predict(X) == wrong
    with pytest.warns(UserWarning, match=r"labels that `fit` has not seen.*\[7\]"):
        assert gp.score(X, wrong) == right.mean()
    weights = np.arange(60.0)
    with pytest.warns(UserWarning, match="mistakes"):
        assert gp.score(X, wrong, weights) == np.average(right, weights=weights)
    with pytest.warns(UserWarning, match="mistakes"):
        assert gp.score(X, y + 7) == 0.0
    with pytest.raises(ValueError, match="Mix of label input types"):
        gp.score(X, y.astype(str))
    assert gp.score(X[y < 2], y[y < 2], np.ones((y < 2).sum())) > 0.5


def test_unknown_labels_are_mistakes_of_networks():
    X, y = blobs(30)
    network = BayesianNetworkClassifier((4,), n_draws=2, max_iter=5, random_state=0)
    network.fit(X, y)
    with pytest.warns(UserWarning, match=r"labels that `fit` has not seen.*\[9\]"):
        assert network.score(X, np.where(y == 0, 9, y)) <= (y != 0).mean()


@pytest.mark.parametrize(
    "gp",
    [
        ConvNetGPClassifier(rbf(1.0)),
        NystromCompletedGP(rbf(1.0), n_landmarks=10),
        KernelEnsembleClassifier([("one", ConvNetGPClassifier(rbf(1.0)))]),
    ],
    ids=lambda gp: type(gp).__name__,
)
def test_a_class_of_one_sample_in_cross_validation(gp):
    X, y = blobs(30, n_classes=2)
    y[4] = 2
    with pytest.warns(UserWarning, match=r"has not seen, array\(\[2\]\)"):
        scores = cross_val_score(gp, X, y, cv=KFold(3), error_score="raise")
    assert scores.shape == (3,)
    assert ((scores > 0.4) & (scores <= 1.0)).all()


def test_given_matrix_has_no_spread():
    X, y = blobs(60)
    gram = gram_matrix(rbf(1.0), X)
    gp = ConvNetGPClassifier("precomputed", noise_variance=NOISE)
    gp.fit(gram[:40, :40], y[:40])
    assert gp.calibration_.spread == 0.0
    known = ConvNetGPClassifier(
        rbf(1.0), noise_variance=NOISE, likelihood=Gaussian(spread=False)
    ).fit(X[:40], y[:40])
    np.testing.assert_allclose(
        gp.predict_proba(gram[40:, :40]), known.predict_proba(X[40:]), rtol=1e-6
    )


@pytest.mark.parametrize("n_classes", [2, 3])
def test_calibration_is_that_of_the_leave_one_out_latents(n_classes):
    X, y = blobs(50, n_classes)
    gp, plain = fit_and_dense(rbf(1.0), X, y, likelihood=Gaussian(spread=False))
    residual = plain.inverse @ plain.targets / np.diag(plain.inverse)[:, None]
    loo = torch.as_tensor(plain.targets - residual)
    ones = torch.ones(50, dtype=torch.float64)
    best = Gaussian().calibrate(loo, None, torch.as_tensor(y), ones)
    assert gp.temperature_ == pytest.approx(best.temperature, rel=1e-6)
    assert gp.calibration_.bend == pytest.approx(best.bend, rel=1e-6)
    assert gp.calibration_.floor == pytest.approx(best.floor, rel=1e-6)


@pytest.mark.parametrize("likelihood", ["gaussian", "dirichlet"])
def test_targets_hardly_explained_are_calibrated_all_the_same(likelihood):
    # Samples so far apart for the kernel that latent means are a hundredth as large.
    X, y = blobs(120)
    gram = gram_matrix(rbf(1.0), X)
    near = ConvNetGPClassifier("precomputed", likelihood=likelihood, amplitude=1.0)
    far = clone(near)
    near.set_params(noise_variance=1.0).fit(gram, y)
    far.set_params(noise_variance=1e4).fit(gram, y)
    assert far.temperature_ < 0.02 * near.temperature_
    scores = [log_loss(y, gp.loo_predict_proba()) for gp in (near, far)]
    assert scores[1] < scores[0] + 0.1 < np.log(3.0)


def test_two_classes_have_one_decision_and_two_latents():
    X, y = blobs(40, 2)
    gp = ConvNetGPClassifier(rbf(1.0), noise_variance=NOISE).fit(X[:30], y[:30])
    decision, latent = gp.decision_function(X[30:]), gp.predict_latent(X[30:])
    assert decision.shape == (10,)
    assert latent.shape == (10, 2)
    assert gp.predict_proba(X[30:]).shape == (10, 2)
    std = gp.predict_latent(X[30:], return_std=True)[1][:, 0]
    stated = label_probabilities(gp, latent, std[:, None] ** 2)
    np.testing.assert_allclose(decision, np.log(stated[:, 1] / stated[:, 0]))
    np.testing.assert_array_equal(decision > 0, gp.predict(X[30:]) == gp.classes_[1])


def test_labels_may_be_words_in_any_order():
    X, y = blobs(45)
    words = np.array(["pear", "apple", "quince"])
    gp = ConvNetGPClassifier(rbf(1.0)).fit(X, words[y])
    numbers = ConvNetGPClassifier(rbf(1.0)).fit(X, y)
    assert list(gp.classes_) == ["apple", "pear", "quince"]
    np.testing.assert_array_equal(gp.predict(X), words[numbers.predict(X)])
    np.testing.assert_allclose(
        gp.predict_proba(X)[:, [1, 0, 2]], numbers.predict_proba(X), rtol=1e-9
    )


@pytest.mark.parametrize("labels", [[-5, 100], [True, False], [0.0, 1.0]])
def test_labels_may_be_any_two_values(labels):
    X, y = blobs(30, 2)
    gp = ConvNetGPClassifier(rbf(1.0)).fit(X, np.array(labels)[y])
    assert set(gp.predict(X)) == set(labels)
    assert list(gp.classes_) == sorted(labels)


def test_column_of_labels_warns_and_is_raveled():
    X, y = blobs(12)
    with pytest.warns(DataConversionWarning):
        gp = ConvNetGPClassifier(rbf(1.0)).fit(X, y[:, None])
    assert gp.predict(X).shape == (12,)


def test_evidence_is_the_density_of_the_label_code():
    X, y = blobs(20)
    gp, dense = fit_and_dense(rbf(1.0), X, y)
    model = multivariate_normal(np.zeros(20), dense.covariance)
    expected = sum(model.logpdf(column) for column in dense.targets.T)
    assert gp.log_marginal_likelihood() == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("amplitude", ["profile", 2.0, None])
def test_amplitude_scales_the_deviations_only(amplitude):
    X, y = blobs(40)
    held = {"noise_variance": 1e-4}
    reference = ConvNetGPClassifier(rbf(1.0), **held).fit(X[:30], y[:30])
    gp = ConvNetGPClassifier(3.0 * rbf(1.0), amplitude=amplitude, **held)
    gp.fit(X[:30], y[:30])
    expected = {"profile": reference.amplitude_, 2.0: 2.0, None: 3.0}[amplitude]
    assert gp.amplitude_ == pytest.approx(expected)
    mean, std = gp.predict_latent(X[30:], return_std=True)
    unit_mean, unit_std = reference.predict_latent(X[30:], return_std=True)
    np.testing.assert_allclose(mean, unit_mean, rtol=1e-6, atol=1e-9)
    factor = np.sqrt(expected / reference.amplitude_)
    np.testing.assert_allclose(std, factor * unit_std, rtol=1e-6)


def test_scale_of_the_kernel_does_not_matter_with_a_profiled_amplitude():
    X, y = digits(40)
    gp = ConvNetGPClassifier(tiny_network(), **EXACT).fit(X[:30], y[:30])
    big = ConvNetGPClassifier(1e12 * tiny_network(), **EXACT).fit(X[:30], y[:30])
    for got, expected in zip(
        big.predict_latent(X[30:], return_std=True),
        gp.predict_latent(X[30:], return_std=True),
        strict=True,
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(
        big.predict_proba(X[30:]), gp.predict_proba(X[30:]), atol=1e-7
    )


@pytest.mark.parametrize("word", ["loo", "evidence"])
def test_noise_can_be_chosen(word):
    X, y = blobs(60)
    gp = ConvNetGPClassifier(rbf(1.0), noise_variance=word).fit(X[:40], y[:40])
    assert 1e-3 < gp.noise_variance_ <= 10.0  # the clouds overlap
    assert gp.score(X[40:], y[40:]) > 0.5


def test_chosen_noise_has_the_largest_evidence():
    X, y = blobs(40)
    best = ConvNetGPClassifier(rbf(1.0), noise_variance="evidence").fit(X, y)
    for factor in (0.3, 3.0):
        noise = factor * best.noise_variance_
        other = ConvNetGPClassifier(rbf(1.0), noise_variance=noise).fit(X, y)
        assert other.log_marginal_likelihood() < best.log_marginal_likelihood()


def test_parts_may_be_objects_and_are_copied():
    X, y = blobs(20)
    likelihood, solver = Gaussian(), Cholesky()
    gp = ConvNetGPClassifier(rbf(1.0), likelihood=likelihood, solver=solver).fit(X, y)
    assert gp.likelihood_ == likelihood
    assert gp.likelihood_ is not likelihood
    assert gp.solver_ is not solver
    words = ConvNetGPClassifier(rbf(1.0), likelihood="gaussian", solver="cholesky")
    np.testing.assert_array_equal(gp.predict_proba(X), words.fit(X, y).predict_proba(X))


def test_score_is_the_accuracy():
    X, y = digits(300)
    gp = ConvNetGPClassifier(tiny_network()).fit(X[:200], y[:200])
    expected = accuracy_score(y[200:], gp.predict(X[200:]))
    assert gp.score(X[200:], y[200:]) == expected
    assert expected > 0.85


def test_refitting_forgets_the_first_fit():
    X, y = blobs(30)
    gp = ConvNetGPClassifier(rbf(1.0)).fit(*digits(20))
    gp.fit(X, y)
    fresh = ConvNetGPClassifier(rbf(1.0)).fit(X, y)
    assert gp.n_features_in_ == 2
    np.testing.assert_array_equal(gp.predict_proba(X), fresh.predict_proba(X))


@dataclass
class Shrinking(Part):
    """A likelihood of a third party: it reads variances and has no temperature."""

    @property
    def needs_variance(self):
        return True

    def targets(self, codes, n_classes, weights):
        return Gaussian().targets(codes, n_classes, weights)

    def probabilities(self, mean, var):
        return torch.softmax(mean / torch.sqrt(0.01 + var), dim=1)


def shrunk(mean, var):
    return softmax(mean / np.sqrt(0.01 + var), axis=1)


def test_likelihood_of_a_third_party_gets_the_variances():
    X, y = blobs(60)
    gp = ConvNetGPClassifier(rbf(1.0), likelihood=Shrinking(), noise_variance=NOISE)
    gp.fit(X[:40], y[:40])
    assert gp.temperature_ == 1.0
    mean, std = gp.predict_latent(X[40:], return_std=True)
    np.testing.assert_allclose(gp.predict_proba(X[40:]), shrunk(mean, std**2))


def test_likelihood_of_a_third_party_gets_leave_one_out_variances_of_the_latent():
    X, y = blobs(20)
    settings = {"likelihood": Shrinking(), "noise_variance": NOISE, "amplitude": 0.5}
    got = ConvNetGPClassifier(rbf(1.0), **settings).fit(X, y).loo_predict_proba()
    for i in range(20):
        rest = np.arange(20) != i
        refit = ConvNetGPClassifier(rbf(1.0), **settings).fit(X[rest], y[rest])
        expected = refit.predict_proba(X[i : i + 1])[0]
        np.testing.assert_allclose(got[i], expected, rtol=1e-6)


def test_likelihood_that_needs_variances_cannot_be_precomputed_without():
    X, y = blobs(20)
    gram = gram_matrix(rbf(1.0), X)
    gp = ConvNetGPClassifier("precomputed", likelihood=Shrinking()).fit(gram, y)
    labels = gp.classes_[gp.predict_latent(gram).argmax(1)]
    np.testing.assert_array_equal(gp.predict(gram), labels)
    np.testing.assert_array_equal(
        gp.decision_function(gram).argmax(1), gp.predict_latent(gram).argmax(1)
    )
    with pytest.raises(ValueError, match=r"precomputed.*`diag`"):
        gp.predict_proba(gram)


def test_variances_that_rounding_made_negative_are_reported(monkeypatch):
    X, y = blobs(20)
    gp = ConvNetGPClassifier(rbf(1.0)).fit(X, y)
    monkeypatch.setattr(
        "skconvgp.inference.CovarianceUpdate.variance",
        lambda half, diag: (torch.zeros_like(diag), 1e-3),
    )
    with pytest.warns(UserWarning, match=r"-1\.0e-03 of the prior.*`noise_variance`"):
        std = gp.predict_latent(X, return_std=True)[1]
    assert (std == 0.0).all()
