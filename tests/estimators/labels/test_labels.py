"""Classifiers whose labels fix their noise, against dense formulas and refits."""

import itertools
import pickle

import numpy as np
import pytest
import torch
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.metrics import log_loss

from skconvgp import (
    ConvNetGPClassifier,
    KernelFlowsClassifier,
    NystromCompletedGP,
    gram_matrix,
)
from skconvgp._protocols import Objective
from skconvgp.completion import IterativeSVD, NearestNeighbors, Nystrom, SubsetOfData
from skconvgp.exceptions import NotPSDError, TileMemoryError
from skconvgp.flows import LBFGS, Adam
from skconvgp.flows._label_evidence import LabelEvidence
from skconvgp.kernels import matern, rbf
from skconvgp.likelihoods import Beta, Dirichlet, Laplace
from skconvgp.processes import _plan
from skconvgp.processes.fits import _label_choice
from skconvgp.processes.fits._label_models import LinkModel, spread_over_classes
from tests.helpers.estimators import blobs, digits, label_probabilities
from tests.helpers.memory import needs_peak, peak_memory
from tests.helpers.oracles import seeded
from tests.helpers.tolerances import assert_close

LIKELIHOODS = {
    "dirichlet": Dirichlet(),
    "beta": Beta(0.01),
    "softmax": Laplace("softmax"),
    "logit": Laplace("logit"),
    "probit": Laplace("probit"),
}
ONE_LATENT = ("beta", "logit", "probit")
NOISE = 1e-2
every_likelihood = pytest.mark.parametrize("name", LIKELIHOODS)


def data(name, n=60):
    return blobs(n, 2 if name in ONE_LATENT else 3)


def classifier(name, **settings):
    settings = {"noise_variance": NOISE, "dtype": "float64"} | settings
    return ConvNetGPClassifier(rbf(1.0), likelihood=LIKELIHOODS[name], **settings)


def dense_dirichlet(gp, X, y, X_new):
    """Return latent means and covariances of one class after the other."""
    targets = gp.likelihood_.targets(
        torch.as_tensor(y), len(gp.classes_), torch.ones(len(y))
    )
    a = gp.amplitude_
    gram, cross = gram_matrix(rbf(1.0), X), gram_matrix(rbf(1.0), X_new, X)
    prior = a * gram_matrix(rbf(1.0), X_new)
    offset = targets.offset.numpy()
    means, covariances = [], []
    for c in range(len(gp.classes_)):
        noise = targets.noise[:, c].numpy() + a * gp.noise_variance_
        matrix = a * gram + np.diag(noise)
        residual = targets.values[:, c].numpy() - offset[c]
        means.append(offset[c] + a * cross @ np.linalg.solve(matrix, residual))
        covariances.append(prior - a**2 * cross @ np.linalg.solve(matrix, cross.T))
    return np.stack(means, 1), np.stack(covariances, 2)


@pytest.mark.parametrize("name", ["dirichlet", "beta"])
def test_latents_are_those_of_the_dense_formulas(name):
    X, y = data(name)
    gp = classifier(name).fit(X[:40], y[:40])
    mean, cov = dense_dirichlet(gp, X[:40], y[:40], X[40:])
    found, std = gp.predict_latent(X[40:], return_std=True)
    assert_close(found, mean, kind="solve")
    assert_close(
        std**2,
        np.stack([np.diag(cov[:, :, c]) for c in range(std.shape[1])], 1),
        kind="solve",
    )
    assert_close(gp.predict_latent(X[40:], return_cov=True)[1], cov, kind="solve")
    np.testing.assert_array_equal(gp.predict(X[40:]), found.argmax(1))


@every_likelihood
@pytest.mark.parametrize(
    "completion",
    [
        None,
        Nystrom(30),
        SubsetOfData(),
        pytest.param(IterativeSVD(10), marks=pytest.mark.slow),
    ],
    ids=lambda part: type(part).__name__,
)
def test_classifier_learns_with_and_without_a_completion(name, completion):
    X, y = data(name, 120)
    gp = classifier(name, completion=completion, observed_fraction=0.5, random_state=0)
    gp.fit(X[:80], y[:80])
    exact = classifier(name).fit(X[:80], y[:80])
    assert gp.score(X[80:], y[80:]) > exact.score(X[80:], y[80:]) - 0.1
    for given in (gp.predict_proba(X[80:]), gp.loo_predict_proba()):
        np.testing.assert_allclose(given.sum(1), 1.0, atol=1e-9)
    assert np.isfinite(gp.log_marginal_likelihood())


@every_likelihood
def test_leave_one_out_is_near_what_refits_say(name):
    X, y = data(name, 30)
    gp = classifier(name, amplitude=4.0).fit(X, y)
    found = gp.loo_predict_proba()
    again = []
    for i in range(len(X)):
        rest = np.arange(len(X)) != i
        again.append(
            classifier(name, amplitude=4.0)
            .fit(X[rest], y[rest])
            .predict_proba(X[[i]])[0]
        )
    # The prior means, and the mode of Laplace, are those with the sample.
    np.testing.assert_allclose(found, again, atol=0.05)
    np.testing.assert_array_equal(gp.loo_predict(), gp.classes_[found.argmax(1)])


@pytest.mark.parametrize("name", ["dirichlet", "beta"])
def test_weights_equal_repetitions(name):
    X, y = data(name)
    weights = np.random.default_rng(0).integers(0, 4, 40)
    again = np.repeat(np.arange(40), weights)
    weighted = classifier(name).fit(X[:40], y[:40], weights)
    many = classifier(name).fit(X[again], y[again])
    assert weighted.amplitude_ == pytest.approx(many.amplitude_, rel=1e-6)
    evidence = many.log_marginal_likelihood()
    assert weighted.log_marginal_likelihood() == pytest.approx(evidence, rel=1e-6)
    np.testing.assert_allclose(
        weighted.predict_proba(X[40:]), many.predict_proba(X[40:]), atol=1e-6
    )


@pytest.mark.parametrize("name", ["softmax", "logit"])
def test_weights_other_than_zero_and_one_are_refused_by_laplace(name):
    X, y = data(name)
    weights = np.arange(60) // 3 % 2
    some = classifier(name).fit(X, y, weights)
    chosen = weights == 1
    few = classifier(name).fit(X[chosen], y[chosen])
    np.testing.assert_allclose(some.predict_proba(X), few.predict_proba(X), atol=1e-9)
    with pytest.raises(ValueError, match="takes no sample weights other than 0 and 1"):
        classifier(name).fit(X, y, 2.0 * weights)


@every_likelihood
def test_amplitude_has_the_largest_evidence(name):
    X, y = data(name)
    gp = classifier(name).fit(X, y)
    best = gp.log_marginal_likelihood()
    for factor in (0.7, 1.4):
        other = classifier(name, amplitude=factor * gp.amplitude_).fit(X, y)
        assert other.amplitude_ == pytest.approx(factor * gp.amplitude_)
        assert other.log_marginal_likelihood() < best


def test_amplitude_of_the_kernel_is_taken_as_it_is():
    X, y = data("dirichlet")
    kernel = 3.0 * rbf(1.0)
    gp = ConvNetGPClassifier(kernel, likelihood="dirichlet", amplitude=None).fit(X, y)
    assert gp.amplitude_ == pytest.approx(3.0)


def test_amplitude_of_many_samples_is_chosen_on_some_of_each_class(monkeypatch):
    X, y = blobs(300)
    whole = classifier("dirichlet").fit(X, y)
    monkeypatch.setattr(_label_choice, "CHOOSING", 100)
    some = classifier("dirichlet").fit(X, y)
    assert some.amplitude_ != whole.amplitude_
    assert 0.5 < some.amplitude_ / whole.amplitude_ < 2.0
    numbers = spread_over_classes(np.repeat([0, 1, 2], [5, 1, 14]), 10)
    assert len(numbers) == 10
    assert np.bincount(np.repeat([0, 1, 2], [5, 1, 14])[numbers])[0] in (2, 3)
    ends = spread_over_classes(np.repeat([2, 1, 0], [1, 18, 1]), 10)
    assert (int(ends[0]), int(ends[-1])) == (0, 19)  # classes of one sample each


def test_count_chosen_by_leave_one_out_has_the_least_loss():
    X, y = data("dirichlet")
    chosen = classifier("dirichlet").set_params(likelihood=Dirichlet("loo")).fit(X, y)

    def loss(alpha_eps):
        gp = classifier("dirichlet").set_params(likelihood=Dirichlet(alpha_eps))
        own = gp.fit(X, y).loo_predict_proba()[np.arange(len(y)), y]
        return -np.log(own).mean()

    losses = {alpha_eps: loss(alpha_eps) for alpha_eps in (0.1, 0.01, 0.001)}
    assert chosen.likelihood_.alpha_eps == min(losses, key=losses.get)
    own = chosen.loo_predict_proba()[np.arange(len(y)), y]
    assert -np.log(own).mean() == pytest.approx(min(losses.values()))


@pytest.mark.parametrize("name", ["dirichlet", "softmax", "logit"])
def test_far_from_the_data_probabilities_return_to_the_prior(name):
    X, y = data(name)
    gp = classifier(name).fit(X, y)
    near = gp.predict_proba(X).max(1).mean()
    far = gp.predict_proba([[1e3, 1e3]])[0]
    assert far.max() < near
    # The classes are equally frequent; the draws are few.
    np.testing.assert_allclose(far, 1.0 / len(far), atol=0.06)


@every_likelihood
def test_draws_have_the_mean_and_deviation_of_the_latents(name):
    X, y = data(name)
    gp = classifier(name).fit(X, y)
    draws = gp.sample_y(X[:3], 4000, random_state=0)
    mean, std = gp.predict_latent(X[:3], return_std=True)
    assert draws.shape == (3, len(gp.classes_), 4000)
    error = std / np.sqrt(4000)
    assert (np.abs(draws.mean(2) - mean) < 5.0 * error).all()
    np.testing.assert_allclose(draws.std(2), std, rtol=0.08)


@pytest.mark.parametrize("name", ONE_LATENT)
def test_draws_of_two_classes_are_of_one_latent_function(name):
    X, y = data(name)
    draws = classifier(name).fit(X, y).sample_y(X[:5], 3, random_state=0)
    np.testing.assert_array_equal(draws[:, 0], -draws[:, 1])


def test_draws_of_classes_with_latent_functions_of_their_own_differ():
    X, y = blobs(60, 2)
    draws = classifier("dirichlet").fit(X, y).sample_y(X[:5], 3, random_state=0)
    assert not np.allclose(draws[:, 0], -draws[:, 1])
    gaussian = ConvNetGPClassifier(rbf(1.0), likelihood="beta").fit(X, y)
    gaussian.set_params(likelihood="gaussian").fit(X, y)
    draws = gaussian.sample_y(X[:5], 3, random_state=0)
    assert not np.allclose(draws[:, 0], -draws[:, 1])


@pytest.mark.parametrize("name", ONE_LATENT)
def test_the_first_of_two_classes_has_the_negative_latent_function(name):
    X, y = data(name)
    gp = classifier(name).fit(X, y)
    mean, std = gp.predict_latent(X, return_std=True)
    np.testing.assert_allclose(mean[:, 0], -mean[:, 1], atol=1e-9)
    np.testing.assert_allclose(std[:, 0], std[:, 1], rtol=1e-6)
    odds = np.log(gp.predict_proba(X))
    np.testing.assert_allclose(gp.decision_function(X), odds[:, 1] - odds[:, 0])
    np.testing.assert_array_equal(gp.predict(X) == gp.classes_[1], mean[:, 1] > 0.0)


@every_likelihood
def test_a_pickled_model_predicts_the_same(name):
    X, y = data(name)
    gp = classifier(name).fit(X, y)
    again = pickle.loads(pickle.dumps(gp))
    np.testing.assert_array_equal(again.predict_proba(X), gp.predict_proba(X))
    assert again.log_marginal_likelihood() == gp.log_marginal_likelihood()


def test_another_likelihood_leaves_nothing_of_the_last_fit():
    X, y = data("dirichlet")
    gp = classifier("dirichlet").fit(X, y)
    gp.set_params(likelihood="gaussian").fit(X, y)
    fresh = ConvNetGPClassifier(rbf(1.0), noise_variance=NOISE, dtype="float64").fit(
        X, y
    )
    np.testing.assert_array_equal(gp.predict_proba(X), fresh.predict_proba(X))
    np.testing.assert_array_equal(gp.loo_predict_proba(), fresh.loo_predict_proba())


@pytest.mark.parametrize("name", ["dirichlet", "beta"])
def test_precomputed_needs_prior_variances_where_probabilities_do(name):
    X, y = data(name)
    gp = ConvNetGPClassifier(
        "precomputed", likelihood=LIKELIHOODS[name], noise_variance=NOISE
    )
    gp.fit(gram_matrix(rbf(1.0), X[:40]), y[:40])
    cross = gram_matrix(rbf(1.0), X[40:], X[:40])
    same = classifier(name).fit(X[:40], y[:40])
    mean, std = gp.predict_latent(cross, diag=np.ones(20), return_std=True)
    again = same.predict_latent(X[40:], return_std=True)
    for found, expected in zip((mean, std), again, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6)
    if name == "beta":
        with pytest.raises(ValueError, match="need the prior variances"):
            gp.predict_proba(cross)
        return
    assert gp.calibration_.spread == 0.0 < same.calibration_.spread
    scaled = torch.as_tensor(gp.predict_latent(cross))
    expected = torch.softmax(gp.calibration_.latents(scaled, torch.empty(0))[0], 1)
    np.testing.assert_allclose(gp.predict_proba(cross), expected, rtol=1e-6)
    np.testing.assert_array_equal(gp.predict(cross), same.predict(X[40:]))


def test_probabilities_of_dirichlet_labels_are_calibrated_on_left_out_samples():
    X, y = data("dirichlet", 120)
    gp = classifier("dirichlet").fit(X[:60], y[:60])
    stated, right = gp.loo_predict_proba(), gp.loo_predict() == y[:60]
    assert stated.max(1).mean() == pytest.approx(right.mean(), abs=0.05)
    latent, std = gp.predict_latent(X[60:], return_std=True)
    variance = (std**2).mean(axis=1, keepdims=True)
    expected = label_probabilities(gp, latent, variance, X[60:])
    np.testing.assert_allclose(gp.predict_proba(X[60:]), expected, rtol=1e-6)
    np.testing.assert_array_equal(gp.predict(X[60:]), latent.argmax(1))


def test_kernel_flows_end_in_the_likelihood_that_was_asked_for():
    X, y = data("dirichlet")
    gp = KernelFlowsClassifier(
        rbf(1.0), optimizer=Adam(max_iter=3), likelihood="dirichlet", random_state=0
    )
    gp.fit(X, y)
    same = ConvNetGPClassifier(gp.kernel_, likelihood="dirichlet").fit(X, y)
    np.testing.assert_allclose(gp.predict_proba(X), same.predict_proba(X), atol=1e-9)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"solver": "lsqr"}, "is fitted by Cholesky factors: use solver='auto'"),
        ({"noise_variance": "loo"}, "use a number, got 'loo'"),
        (
            {"noise_variance": "evidence", "optimizer": "evidence"},
            "use a number, got 'evidence'",
        ),
        ({"noise_variance": -1.0}, "'noise_variance' parameter"),
    ],
    ids=["solver", "noise", "learned", "negative"],
)
@pytest.mark.parametrize("name", ["dirichlet", "softmax"])
def test_settings_that_need_a_common_noise_are_refused(name, settings, message):
    X, y = data(name)
    with pytest.raises(ValueError, match=message):
        classifier(name, **settings).fit(X, y)


def test_a_link_has_no_neighbours():
    X, y = data("softmax")
    with pytest.raises(ValueError, match="needs a likelihood whose targets share"):
        classifier("softmax", completion=NearestNeighbors(5)).fit(X, y)


@pytest.mark.parametrize("name", ONE_LATENT)
def test_likelihoods_of_two_classes_refuse_three(name):
    X, y = blobs(30, 3)
    with pytest.raises(ValueError, match="is for two classes, got 3"):
        classifier(name).fit(X, y)


@pytest.mark.parametrize("wrong", ["logistic", 3, None])
def test_unknown_link_is_refused(wrong):
    X, y = blobs(30, 2)
    with pytest.raises(ValueError, match="'link' parameter of Laplace"):
        ConvNetGPClassifier(rbf(1.0), likelihood=Laplace(wrong)).fit(X, y)


@pytest.mark.parametrize(
    ("name", "word"),
    [("dirichlet", "evidence"), ("beta", "evidence"), ("logit", "loo")],
)
def test_kernel_is_chosen_by_label_regression_with_a_noise_of_its_own(name, word):
    X, y = data(name)
    gp = ConvNetGPClassifier(rbf(0.1), likelihood=LIKELIHOODS[name], optimizer=word)
    gp.fit(X, y)
    regression = ConvNetGPClassifier(rbf(0.1), optimizer=word, noise_variance=word)
    regression.fit(X, y)
    np.testing.assert_allclose(gp.kernel_.theta, regression.kernel_.theta, rtol=1e-6)
    assert gp.noise_variance_ == 1e-4
    assert gp.kernel_.lengthscale > 0.1  # not one that keeps samples apart
    n_classes = len(gp.classes_)
    X_new, y_new = blobs(300, n_classes, seed=1)
    centres = np.stack(
        [
            blobs(9000, n_classes, seed=2)[0][k::n_classes].mean(axis=0)
            for k in range(n_classes)
        ]
    )
    nearest = ((X_new[:, None] - centres) ** 2).sum(axis=-1).argmin(axis=1)
    assert gp.score(X_new, y_new) > np.mean(nearest == y_new) - 0.1


def noisy(n=80, seed=0):
    """Return vectors and labels of two classes that overlap."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, (np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=n) > 0.0) * 1


def test_kernel_and_amplitude_of_labels_as_labels_are_those_of_scikit_learn():
    X, y = noisy()
    gp = ConvNetGPClassifier(
        rbf(1.0),
        likelihood="laplace",
        optimizer="evidence",
        noise_variance=1e-10,
        dtype="float64",
    )
    gp.fit(X, y)
    kernel = ConstantKernel(1.0, (1e-3, 1e7)) * RBF(1.0, (1e-4, 1e4))
    peer = GaussianProcessClassifier(kernel).fit(X, y)
    found = [np.log(gp.amplitude_), *gp.kernel_.theta]
    np.testing.assert_allclose(found, peer.kernel_.theta, atol=2e-2)
    assert gp.log_marginal_likelihood() == pytest.approx(
        peer.log_marginal_likelihood_value_, abs=1e-4
    )
    assert gp.optimizer_result_.labels == ("lengthscale", "amplitude")
    assert gp.amplitude_ == gp.optimizer_result_.values["amplitude"]
    # Nothing of the search is left.
    gp.set_params(optimizer=None, likelihood=Laplace()).fit(X, y)
    fresh = ConvNetGPClassifier(
        rbf(1.0), likelihood="laplace", noise_variance=1e-10, dtype="float64"
    )
    assert gp.amplitude_ == fresh.fit(X, y).amplitude_


@pytest.mark.parametrize(
    "settings",
    [
        {"optimizer": LBFGS(gradient="autograd"), "solve_dtype": "float32"},
        {"n_restarts_optimizer": 2, "random_state": 0},
        {},
    ],
    ids=["graph", "restarts", "weights"],
)
def test_ways_to_the_same_kernel_of_labels_agree(settings):
    X, y = noisy(100)
    weights = np.append(np.ones(80), np.zeros(20))
    usual = {"likelihood": "laplace", "optimizer": "evidence", "noise_variance": 1e-4}
    expected = ConvNetGPClassifier(rbf(1.0), **usual).fit(X[:80], y[:80])
    gp = ConvNetGPClassifier(rbf(1.0), **usual | settings).fit(X, y, weights)
    np.testing.assert_allclose(gp.kernel_.theta, expected.kernel_.theta, atol=1e-3)
    assert gp.amplitude_ == pytest.approx(expected.amplitude_, rel=1e-2)


@pytest.mark.parametrize("name", ["logit", "softmax"])
def test_a_search_by_labels_that_does_not_fit_is_refused(monkeypatch, name):
    X, y = data(name)
    copies = LabelEvidence(
        LinkModel(LIKELIHOODS[name], torch.as_tensor(y), y.max() + 1), 0.0
    ).n_copies()
    assert copies == {"logit": 8, "softmax": 3 + 8}[name]
    room = 8 * len(X) ** 2 * (copies - 1)
    monkeypatch.setattr("skconvgp.engine._devices.free_memory", lambda _: room)
    classifier(name).fit(X, y)
    with pytest.raises(TileMemoryError, match="60 samples"):
        classifier(name, optimizer="evidence").fit(X, y)


@pytest.mark.parametrize("kernel", [rbf(1.0), matern(1.0, nu=1.5)])
@pytest.mark.parametrize("name", ["softmax", "probit"])
def test_no_kernel_nearby_has_a_larger_evidence_of_labels(name, kernel):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    score = X[:, 0] + 0.5 * rng.normal(size=60)
    y = np.digitize(score, [-0.5, 0.5]) if name == "softmax" else score > 0.0
    gp = ConvNetGPClassifier(
        kernel, likelihood=LIKELIHOODS[name], optimizer="evidence", dtype="float64"
    )
    best = gp.fit(X, y).log_marginal_likelihood()
    assert gp.optimizer_result_.rho == pytest.approx(-best / 60, abs=1e-7)
    for i, step in itertools.product(range(len(gp.kernel_.theta) + 1), (-0.3, 0.3)):
        moved = np.append(gp.kernel_.theta, np.log(gp.amplitude_))
        moved[i] += step
        other = ConvNetGPClassifier(
            kernel.with_theta(moved[:-1]),
            likelihood=LIKELIHOODS[name],
            amplitude=float(np.exp(moved[-1])),
            dtype="float64",
        )
        assert other.fit(X, y).log_marginal_likelihood() < best


@pytest.mark.parametrize("noise", [0.0, 1e-2])
@pytest.mark.parametrize("name", ["softmax", "logit", "probit"])
def test_derivatives_of_the_evidence_of_labels_are_differences(name, noise):
    X, y = data(name, 30)
    targets = torch.nn.functional.one_hot(torch.as_tensor(y)).double()
    model = LinkModel(LIKELIHOODS[name], torch.as_tensor(y), targets.shape[1])
    objective = LabelEvidence(model, noise)
    assert isinstance(objective, Objective)
    gram = 3.0 * torch.as_tensor(gram_matrix(rbf(2.0), X))
    score = objective.score(gram, targets, 5.0)
    half = torch.randn(30, 3, generator=seeded(), dtype=torch.float64)
    step, change = 1e-5, half @ half.mT
    ahead, behind = (
        objective.score(gram + sign * step * change, targets, 5.0).value
        for sign in (1.0, -1.0)
    )
    expected = (ahead - behind) / (2.0 * step)
    assert float((score.by_gram * change).sum()) == pytest.approx(expected, rel=1e-5)
    ahead, behind = (
        objective.score(gram, targets, 5.0 * np.exp(sign * step)).value
        for sign in (1.0, -1.0)
    )
    assert score.by_parameter == pytest.approx(
        (ahead - behind) / (2.0 * step), rel=1e-5
    )
    # The order of a batch does not matter, and a multiple of the kernel does not.
    order = torch.randperm(30, generator=seeded())
    other = objective.score(7.0 * gram[order][:, order], targets[order], 5.0)
    assert other.value == pytest.approx(score.value, rel=1e-9)


def test_amplitude_is_chosen_anew_for_a_completed_matrix():
    X, y = noisy()
    settings = {"likelihood": "laplace", "completion": Nystrom(), "random_state": 0}
    gp = ConvNetGPClassifier(rbf(1.0), optimizer="evidence", **settings).fit(X, y)
    learned = gp.optimizer_result_.values["amplitude"]
    fixed = ConvNetGPClassifier(gp.kernel_, **settings).fit(X, y)
    assert gp.amplitude_ == fixed.amplitude_ != learned


def test_a_kernel_that_is_zero_has_no_evidence_of_labels():
    model = LinkModel(Laplace(), torch.arange(30) % 2, 2)
    with pytest.raises(NotPSDError, match="mean prior variance is 0"):
        LabelEvidence(model, 0.0).score(torch.zeros(30, 30), torch.eye(30))


SETUP = """
import numpy as np, torch
from skconvgp import ConvNetGPClassifier
from skconvgp.kernels import rbf
from skconvgp.inference import _laplace_states
from skconvgp.likelihoods import Dirichlet, Laplace

_laplace_states.VALUES = 1 << 16
torch.set_num_threads(1)
X = np.linspace(0.0, 90.0, 1400)[:, None]
y = np.arange(1400) % 10 == 0
gp = ConvNetGPClassifier(rbf(1.0), likelihood={likelihood}, memory_budget="8 MiB")
gp.set_params(dtype="float64", noise_variance=1e-2).fit(X[:60], y[:60])
"""


@needs_peak
@pytest.mark.parametrize(
    "likelihood",
    [
        Dirichlet(),
        pytest.param(Dirichlet("loo"), marks=pytest.mark.slow),
        pytest.param(Laplace(), marks=pytest.mark.slow),
    ],
)
def test_a_fit_holds_what_is_said(likelihood, monkeypatch):
    said = []
    placement_of_fit = _plan.placement_of_fit

    def spy(n, size, resources, dtype):
        said.append(size.held / n**2)
        return placement_of_fit(n, size, resources, dtype)

    monkeypatch.setattr(_plan, "placement_of_fit", spy)
    X, y = blobs(40, 2)
    ConvNetGPClassifier(rbf(1.0), likelihood=likelihood).fit(X, y)
    peak = peak_memory(SETUP.format(likelihood=likelihood), "gp.fit(X, y)")
    assert peak / (8 * 1400**2) < said[0] + 0.5


def test_beta_is_as_good_as_chance_where_labels_are_random():
    X, y = digits(120)
    random = np.random.default_rng(0).integers(0, 2, 120)
    gp = ConvNetGPClassifier(rbf(2.0), likelihood="beta").fit(X[:60], random[:60])
    chance = np.log(2.0)
    assert log_loss(random[60:], gp.predict_proba(X[60:])) < chance + 0.01
    certain = ConvNetGPClassifier(rbf(2.0), likelihood=Beta(0.01))
    certain.fit(X[:60], random[:60])
    assert log_loss(random[60:], certain.predict_proba(X[60:])) > chance + 0.05
    clean = ConvNetGPClassifier(rbf(2.0), likelihood="beta").fit(X[:60], y[:60] % 2)
    assert clean.likelihood_ == Beta(0.01)


@pytest.mark.parametrize("cls", [Beta, Dirichlet])
def test_a_count_is_not_chosen_where_leave_one_out_tells_nothing(cls):
    """With one image of a class, each left-out label is missed."""
    X, y = digits(40)
    few = np.r_[np.flatnonzero(y == 0)[:2], np.flatnonzero(y == 1)[:1]]
    gp = ConvNetGPClassifier(rbf(2.0), likelihood=cls("loo")).fit(X[few], y[few])
    assert gp.likelihood_ == cls(0.01)
    again = NystromCompletedGP(rbf(2.0), likelihood=cls("loo")).fit(X[few], y[few])
    assert again.likelihood_ == cls(0.01)
