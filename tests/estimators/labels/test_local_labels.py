"""Labels that give targets and noise, predicted from nearest neighbours."""

import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone

from skconvgp import ConvNetGPClassifier, gram_matrix
from skconvgp.completion import NearestNeighbors
from skconvgp.kernels import rbf
from skconvgp.likelihoods import Beta, Dirichlet
from tests.helpers.estimators import digits, tiny_network

AMPLITUDE, NOISE, K = 1.7, 0.03, 8
EUCLIDEAN = NearestNeighbors(K, metric="euclidean")


def samples(n=40, n_classes=3, seed=0):
    """Return inputs, labels that follow them in part, and new inputs."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    labels = np.floor((X[:, 0] + 2.0) / 4.0 * n_classes).astype(int)
    labels = np.where(
        rng.uniform(size=n) < 0.2, rng.integers(n_classes, size=n), labels
    )
    labels[:n_classes] = np.arange(n_classes)
    return X, labels, rng.uniform(-2.0, 2.0, (6, 2))


def targets_of(likelihood, y, weights, amplitude=AMPLITUDE, noise=NOISE):
    """Return targets (n, k) less their offset, the offset, and noise (n, k)."""
    found = likelihood.targets(
        torch.from_numpy(y), int(y.max()) + 1, torch.from_numpy(weights)
    )
    offset = found.offset.numpy()
    each = found.noise.numpy() + noise * amplitude
    return found.values.numpy() - offset, offset, each / weights[:, None]


def posterior(gram, targets, noise, near, i, more=1.0):
    """Return means and variances (k,) of sample i, by dense algebra."""
    means, variances = [], []
    for c in range(targets.shape[1]):
        matrix = gram[np.ix_(near, near)] + np.diag(noise[near, c] / more)
        gains = np.linalg.solve(matrix, gram[near, i])
        means.append(gains @ targets[near, c])
        variances.append(gram[i, i] - gains @ gram[near, i])
    return np.array(means), np.array(variances)


def nearest(X, x, count=K):
    return np.argsort(((X - x) ** 2).sum(1), kind="stable")[:count]


@pytest.mark.parametrize(
    ("likelihood", "n_classes"),
    [(Dirichlet(0.05), 3), (Dirichlet(0.05), 2), (Beta(), 2)],
)
@pytest.mark.parametrize("is_weighted", [False, True])
def test_each_neighbourhood_is_dense_algebra(likelihood, n_classes, is_weighted):
    X, y, new = samples(n_classes=n_classes)
    weights = np.ones(len(y))
    if is_weighted:
        weights = np.random.default_rng(1).uniform(0.5, 3.0, len(y))
    gp = ConvNetGPClassifier(
        rbf(1.0),
        completion=EUCLIDEAN,
        likelihood=likelihood,
        amplitude=AMPLITUDE,
        noise_variance=NOISE,
    )
    gp.fit(X, y, sample_weight=weights)
    targets, offset, noise = targets_of(gp.likelihood_, y, weights)
    gram = AMPLITUDE * gram_matrix(rbf(1.0), np.vstack([X, new]))
    mean, std = gp.predict_latent(new, return_std=True)
    for i, x in enumerate(new):
        given = gram, targets, noise, nearest(X, x), len(X) + i
        expected, var = posterior(*given)
        np.testing.assert_allclose(mean[i], expected + offset, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(std[i] ** 2, var, rtol=1e-9)
    left_out = gp._process.leave_out(gp._resources())
    assert not left_out.has_noise
    for i, x in enumerate(X):
        near = nearest(X, x, K + 1)
        near = near[near != i]
        expected, var = posterior(gram, targets, noise, near, i)
        np.testing.assert_allclose(left_out.mean[i], expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(left_out.var[i], var, rtol=1e-9)


def test_near_samples_count_more():
    X, y, new = samples()
    part = NearestNeighbors(K, metric="euclidean", weights="epanechnikov")
    gp = ConvNetGPClassifier(
        rbf(1.0), completion=part, likelihood=Dirichlet(0.05), amplitude=AMPLITUDE
    )
    gp.set_params(noise_variance=NOISE).fit(X, y)
    targets, offset, noise = targets_of(gp.likelihood_, y, np.ones(len(y)))
    gram = AMPLITUDE * gram_matrix(rbf(1.0), np.vstack([X, new]))
    mean = gp.predict_latent(new)
    for i, x in enumerate(new):
        near, far = nearest(X, x), nearest(X, x, K + 1)[-1]
        distances = np.sqrt(((X[near] - x) ** 2).sum(1))
        both = torch.tensor([[*distances, np.sqrt(((X[far] - x) ** 2).sum())]])
        own = part.weigh(both).numpy()[0]
        expected, _ = posterior(gram, targets, noise, near, len(X) + i, own)
        np.testing.assert_allclose(mean[i], expected + offset, rtol=1e-9)


@pytest.mark.parametrize(
    ("likelihood", "n_classes"),
    [("dirichlet", 3), (Dirichlet("loo"), 3), ("beta", 2)],
)
@pytest.mark.parametrize("kind", ["different", "copies", "few"])
def test_with_all_samples_it_is_the_exact_process(likelihood, n_classes, kind):
    X, y, new = samples(12 if kind == "few" else 40, n_classes)
    weights = 1.0 + np.arange(len(y)) % 2
    if kind != "different":
        X[5:8], X[9] = X[0], X[1]
    exact = ConvNetGPClassifier(rbf(1.0), likelihood=likelihood, random_state=0)
    local = clone(exact).set_params(completion=NearestNeighbors(len(y)))
    exact.fit(X, y, weights), local.fit(X, y, weights)
    assert repr(local.likelihood_) == repr(exact.likelihood_)
    np.testing.assert_allclose(local.amplitude_, exact.amplitude_, rtol=1e-9)
    for one, other in zip(
        [*local.predict_latent(new, return_std=True), local.predict_proba(new)],
        [*exact.predict_latent(new, return_std=True), exact.predict_proba(new)],
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(
        local.loo_predict_proba(), exact.loo_predict_proba(), rtol=1e-7
    )
    np.testing.assert_allclose(
        local.log_marginal_likelihood(), exact.log_marginal_likelihood(), rtol=1e-8
    )


def test_the_evidence_is_that_of_earlier_neighbours():
    X, y, _ = samples(20)
    gp = ConvNetGPClassifier(
        rbf(1.0),
        completion=EUCLIDEAN,
        likelihood=Dirichlet(0.05),
        amplitude=AMPLITUDE,
        noise_variance=NOISE,
    ).fit(X, y)
    targets, _, noise = targets_of(gp.likelihood_, y, np.ones(20))
    gram, total = AMPLITUDE * gram_matrix(rbf(1.0), X), 0.0
    for i in range(20):
        order = nearest(X, X[i], 20)
        mean, var = posterior(gram, targets, noise, order[order < i][:K], i)
        var = var + noise[i]
        total -= 0.5 * ((targets[i] - mean) ** 2 / var + np.log(2 * np.pi * var)).sum()
    assert gp.log_marginal_likelihood() == pytest.approx(total, rel=1e-9)


def test_a_given_matrix_has_neighbours():
    X, y, new = samples()
    settings = {"likelihood": "dirichlet", "amplitude": AMPLITUDE}
    gram, cross = gram_matrix(rbf(1.0), X), gram_matrix(rbf(1.0), new, X)
    part = NearestNeighbors(K, metric="euclidean")
    given = ConvNetGPClassifier("precomputed", completion=part, **settings)
    found = given.fit(gram, y).predict_latent(cross)
    exact = ConvNetGPClassifier(rbf(1.0), completion=part, **settings).fit(X, y)
    np.testing.assert_allclose(found, exact.predict_latent(new), rtol=1e-9)


def test_images_are_classified_and_models_are_kept():
    X, labels = digits(150)
    gp = ConvNetGPClassifier(
        tiny_network(),
        completion=NearestNeighbors(20),
        likelihood="dirichlet",
        random_state=0,
    )
    gp.fit(X[:100], labels[:100])
    assert gp.score(X[100:], labels[100:]) > 0.7
    probabilities = gp.predict_proba(X[100:])
    np.testing.assert_allclose(probabilities.sum(1), 1.0)
    again = pickle.loads(pickle.dumps(gp))
    np.testing.assert_array_equal(again.predict_proba(X[100:]), probabilities)
    assert gp.plan(X, labels).stages
    assert 0.0 < gp.fit_report_.observed_fraction <= 1.0


def test_what_does_not_go_together_is_refused():
    X, y, new = samples()
    gp = ConvNetGPClassifier(rbf(1.0), completion=EUCLIDEAN, likelihood="dirichlet")
    with pytest.raises(ValueError, match="use a number, got 'loo'"):
        clone(gp).set_params(noise_variance="loo").fit(X, y)
    with pytest.raises(ValueError, match="Cholesky factor"):
        clone(gp).set_params(solver="cg").fit(X, y)
    with pytest.raises(ValueError, match="leaves out single samples"):
        clone(gp).fit(X, y, groups=np.arange(40) // 2)
    with pytest.raises(ValueError, match="completion=None"):
        gp.fit(X, y).predict_latent(new, return_cov=True)
    with pytest.raises(ValueError, match="targets share one noise"):
        clone(gp).set_params(likelihood="laplace").fit(X, y)
