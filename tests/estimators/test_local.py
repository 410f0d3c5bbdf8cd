"""completion=NearestNeighbors: an exact process on the neighbours of each sample."""

import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from skconvgp import ConvNetGPClassifier, ConvNetGPRegressor, gram_diag, gram_matrix
from skconvgp._protocols import Localization
from skconvgp.completion import NearestNeighbors, Nystrom
from skconvgp.engine import KernelOracle
from skconvgp.kernels import rbf
from skconvgp.likelihoods import Gaussian
from skconvgp.processes.posterior import _neighbors
from tests.helpers.dense_gp import noisy, refit_without_sample
from tests.helpers.estimators import (
    blobs,
    digits,
    label_targets,
    tiny_network,
    wave,
)

N, N_NEW, K = 40, 15, 8
NOISE, AMPLITUDE = 0.05, 2.5
WEIGHTS = np.tile([1.0, 0.4, 3.0, 1.5], N // 4)
EXACT = {"dtype": "float64"}
PLAIN = {"normalize_y": False, "noise_variance": NOISE, "amplitude": AMPLITUDE}
ESTIMATORS = {"classifier": ConvNetGPClassifier, "regressor": ConvNetGPRegressor}
every_estimator = pytest.mark.parametrize("cls", ESTIMATORS.values(), ids=ESTIMATORS)
every_weighting = pytest.mark.parametrize(
    "weights", [None, WEIGHTS], ids=["unweighted", "weighted"]
)


def two_outputs(X, seed=0):
    """Return targets (n, 2) that are not zero in the mean."""
    rng = np.random.default_rng(seed)
    sums = X.reshape(len(X), -1) @ rng.normal(size=(X[0].size, 2))
    return sums / sums.std(axis=0) + rng.normal(size=sums.shape) + 1.0


def problem():
    X, _ = digits(N + N_NEW)
    return X[:N], two_outputs(X[:N]), X[N:]


class Dense:
    """The same by dense formulas, one sample after the other."""

    def __init__(self, X, targets, weights, metric="cosine", kernel=None):
        self.kernel = kernel or tiny_network()
        self.X, self.targets, self.metric = X, targets, metric
        self.weights = np.ones(len(X)) if weights is None else weights
        gram = gram_matrix(self.kernel, X, **EXACT)
        self.mean_diag = np.average(np.diag(gram), weights=self.weights)
        self.gram = gram / self.mean_diag

    def order(self, sample):
        """Return all training samples, the nearest first."""
        rows, row = self.X.reshape(len(self.X), -1), sample.ravel()
        if self.metric == "cosine":
            lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(row)
            return np.argsort(-(rows @ row) / lengths)
        return np.argsort(np.linalg.norm(rows - row, axis=1))

    def predict(self, new):
        cross = gram_matrix(self.kernel, new, self.X, **EXACT) / self.mean_diag
        prior = gram_diag(self.kernel, new, **EXACT) / self.mean_diag
        moments = [
            self.condition(self.order(sample)[:K], cross[i], prior[i])
            for i, sample in enumerate(new)
        ]
        return (np.array(part) for part in zip(*moments, strict=True))

    def condition(self, near, cross, prior):
        """Return mean and variance given some of the training samples."""
        matrix = noisy(self.gram[np.ix_(near, near)], NOISE, self.weights[near])
        weights = np.linalg.solve(matrix, cross[near])
        return weights @ self.targets[near], prior - weights @ cross[near]

    def leave_one_out(self):
        """Return means (n, c) and variances of targets without the sample of each."""
        moments = []
        for i, sample in enumerate(self.X):
            order = self.order(sample)
            near = np.append(order[order != i][:K], i)
            some = self.gram[np.ix_(near, near)], self.targets[near]
            moments.append(refit_without_sample(*some, NOISE, self.weights[near], K))
        return (np.array(part) for part in zip(*moments, strict=True))

    def evidence(self):
        """Return the log density of all observations, each given earlier samples."""
        total = 0.0
        for i, sample in enumerate(self.X):
            order = self.order(sample)
            mean, var = self.condition(order[order < i][:K], self.gram[i], 1.0)
            var += self.gram[i, i] - 1.0 + NOISE / self.weights[i]
            error = self.targets[i] - mean
            density = error**2 / (AMPLITUDE * var) + np.log(AMPLITUDE * var)
            w, n_outputs = self.weights[i], self.targets.shape[1]
            # Of w observations, all but their mean: it alone depends on the others.
            rest = (w - 1.0) * np.log(AMPLITUDE * NOISE) + np.log(w)
            constant = rest + w * np.log(2.0 * np.pi)
            total -= 0.5 * (density.sum() + n_outputs * constant)
        return total


def fitted(weights=None, metric="cosine", **settings):
    X, y, _ = problem()
    completion = NearestNeighbors(K, metric)
    gp = ConvNetGPRegressor(
        tiny_network(), completion=completion, **EXACT | PLAIN | settings
    )
    return gp.fit(X, y, weights)


def test_is_a_strategy_with_settings_only():
    part = NearestNeighbors()
    assert isinstance(part, Localization)
    assert clone(part) == part
    assert repr(NearestNeighbors(7, "euclidean")) == (
        "NearestNeighbors(n_neighbors=7, metric='euclidean')"
    )


@every_weighting
@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("backend", ["torch", "auto"])
def test_predictions_are_those_of_the_neighbors(weights, metric, backend):
    X, y, new = problem()
    gp = fitted(weights, metric, backend=backend)
    mean, var = Dense(X, y, weights, metric).predict(new)
    got, std = gp.predict(new, return_std=True)
    np.testing.assert_allclose(got, mean, rtol=1e-8)
    np.testing.assert_allclose(std[:, 0], np.sqrt(AMPLITUDE * var), rtol=1e-7)
    noisy_std = gp.predict_latent(new, return_std=True, noise=True)[1]
    expected = np.sqrt(AMPLITUDE * (var + NOISE))
    np.testing.assert_allclose(noisy_std[:, 1], expected, rtol=1e-7)


@every_weighting
def test_evidence_is_that_of_each_sample_after_earlier_ones(weights):
    X, y, _ = problem()
    expected = Dense(X, y, weights).evidence()
    got = fitted(weights).log_marginal_likelihood()
    assert got == pytest.approx(expected, rel=1e-9)


def test_amplitude_none_is_that_of_the_kernel():
    X, _, _ = problem()
    variances = gram_diag(tiny_network(), X, **EXACT)
    assert fitted(amplitude=None).amplitude_ == pytest.approx(variances.mean())


@every_weighting
@pytest.mark.parametrize("noise", [NOISE, "loo"])
def test_regressor_with_all_as_neighbors_is_exact(weights, noise):
    X, y, new = problem()
    settings = EXACT | {"amplitude": AMPLITUDE, "noise_variance": noise}
    exact = ConvNetGPRegressor(tiny_network(), **settings).fit(X, y, weights)
    local = clone(exact).set_params(completion=NearestNeighbors(N))
    local.fit(X, y, weights)
    assert local.noise_variance_ == exact.noise_variance_
    for got, expected in [
        (local.predict(new, True), exact.predict(new, True)),
        (local.loo_predict(True), exact.loo_predict(True)),
    ]:
        np.testing.assert_allclose(got, expected, rtol=1e-7)
    evidence = exact.log_marginal_likelihood()
    assert local.log_marginal_likelihood() == pytest.approx(evidence, rel=1e-9)


@every_weighting
def test_classifier_with_all_as_neighbors_is_exact(weights):
    X, labels = blobs(N + N_NEW)
    new, X, labels = X[N:], X[:N], labels[:N]
    exact = ConvNetGPClassifier(rbf(1.0), noise_variance=NOISE, amplitude=1.0)
    exact.fit(X, labels, weights)
    local = clone(exact).set_params(completion=NearestNeighbors(1000))
    local.fit(X, labels, weights)
    assert local.temperature_ == pytest.approx(exact.temperature_, rel=1e-6)
    np.testing.assert_allclose(
        local.predict_proba(new), exact.predict_proba(new), rtol=1e-6
    )
    np.testing.assert_array_equal(local.predict(new), exact.predict(new))
    np.testing.assert_allclose(
        local.loo_predict_proba(), exact.loo_predict_proba(), rtol=1e-6
    )
    np.testing.assert_array_equal(local.loo_predict(), exact.loo_predict())


def test_classifier_regresses_labels_on_its_neighbors():
    X, labels = digits(N + N_NEW)
    settings = EXACT | {"noise_variance": NOISE, "completion": NearestNeighbors(K)}
    gp = ConvNetGPClassifier(tiny_network(), **settings).fit(X[:N], labels[:N])
    mean, _ = Dense(X[:N], label_targets(labels[:N]), None).predict(X[N:])
    np.testing.assert_allclose(gp.predict_latent(X[N:]), mean, rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(gp.predict(X[N:]), gp.classes_[mean.argmax(1)])


def test_temperature_is_that_of_the_left_out_samples():
    X, labels = blobs(60)
    settings = {"noise_variance": NOISE, "completion": NearestNeighbors(K)}
    gp = ConvNetGPClassifier(rbf(1.0), likelihood=Gaussian(spread=False), **settings)
    gp.fit(X, labels)
    loo = Dense(X, label_targets(labels), None, kernel=rbf(1.0)).leave_one_out()
    mean = torch.as_tensor(next(iter(loo)))
    ones = torch.ones(60, dtype=torch.float64)
    best = Gaussian().calibrate(mean, None, torch.as_tensor(labels), ones)
    assert gp.temperature_ == pytest.approx(best.temperature, rel=1e-6)


@every_estimator
def test_order_of_the_samples_does_not_matter(cls):
    X, labels = digits(80)
    order = np.random.default_rng(0).permutation(50)
    gp = cls(tiny_network(), completion=NearestNeighbors(K), **EXACT)
    mean, std = gp.fit(X[:50], labels[:50]).predict_latent(X[50:], return_std=True)
    gp.fit(X[order], labels[order])
    for got, expected in zip(
        gp.predict_latent(X[50:], return_std=True), (mean, std), strict=True
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-7, atol=1e-9)


@every_estimator
@pytest.mark.parametrize("noise", [NOISE, "loo"])
def test_weights_equal_repetitions_where_all_are_neighbors(cls, noise):
    X, labels = digits(20)
    weights = np.arange(20) % 3
    settings = {"completion": NearestNeighbors(60), "noise_variance": noise} | EXACT
    weighted = cls(tiny_network(), **settings).fit(X, labels, weights)
    repeated = cls(tiny_network(), **settings)
    repeated.fit(X.repeat(weights, axis=0), labels.repeat(weights))
    assert weighted.noise_variance_ == repeated.noise_variance_
    assert weighted.amplitude_ == pytest.approx(repeated.amplitude_, rel=1e-6)
    assert weighted.log_marginal_likelihood() == pytest.approx(
        repeated.log_marginal_likelihood(), rel=1e-6
    )
    new = digits(9, start=20)[0]
    for got, expected in zip(
        weighted.predict_latent(new, return_std=True),
        repeated.predict_latent(new, return_std=True),
        strict=True,
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-8)


def test_a_given_matrix_has_neighbors_by_correlation():
    X, y, new = problem()
    gram = gram_matrix(tiny_network(), X, **EXACT)
    cross = gram_matrix(tiny_network(), new, X, **EXACT)
    prior = gram_diag(tiny_network(), new, **EXACT)
    gp = ConvNetGPRegressor("precomputed", completion=NearestNeighbors(K), **PLAIN)
    mean, std = gp.fit(gram, y).predict_latent(cross, return_std=True, diag=prior)
    dense = Dense(X, y, None)
    for i in range(N_NEW):
        near = np.argsort(-np.abs(cross[i]) / np.sqrt(np.diag(gram)))[:K]
        scaled = cross[i] / dense.mean_diag, prior[i] / dense.mean_diag
        expected = dense.condition(near, *scaled)
        np.testing.assert_allclose(mean[i], expected[0], rtol=1e-8)
        deviation = np.sqrt(AMPLITUDE * expected[1])
        assert std[i, 0] == pytest.approx(deviation, rel=1e-7)
    with pytest.raises(ValueError, match=r"precomputed.*`diag`"):
        gp.predict(cross, return_std=True)


@every_weighting
def test_a_given_matrix_with_all_as_neighbors_is_that_of_the_kernel(weights):
    X, y, new = problem()
    weights = None if weights is None else weights * (np.arange(N) % 5 > 0)
    settings = PLAIN | {"completion": NearestNeighbors(N), "amplitude": "profile"}
    direct = ConvNetGPRegressor(tiny_network(), **settings, **EXACT).fit(X, y, weights)
    gram = gram_matrix(tiny_network(), X, **EXACT)
    gp = ConvNetGPRegressor("precomputed", **settings).fit(gram, y, weights)
    cross = gram_matrix(tiny_network(), new, X, **EXACT)
    gram[:] = np.nan  # what the model keeps is its own
    assert gp.amplitude_ == pytest.approx(direct.amplitude_, rel=1e-8)
    np.testing.assert_allclose(gp.predict(cross), direct.predict(new), rtol=1e-7)
    np.testing.assert_allclose(gp.loo_predict(), direct.loo_predict(), rtol=1e-7)
    evidence = direct.log_marginal_likelihood()
    assert gp.log_marginal_likelihood() == pytest.approx(evidence, rel=1e-9)


def test_fit_evaluates_no_pair_that_it_does_not_need():
    X, y = wave(30)
    settings = {"completion": NearestNeighbors(5, "euclidean"), "noise_variance": 1e-2}
    gp = ConvNetGPRegressor(rbf(1.0), amplitude=1.0, **settings).fit(X, y)
    assert gp.fit_report_.n_pairs == 30
    assert gp.fit_report_.observed_fraction == pytest.approx(30 / 465)
    gp = ConvNetGPRegressor(rbf(1.0), **settings).fit(X, y)
    assert gp.fit_report_.n_pairs == 30 + 30 * 15
    assert gp.fit_report_.observed_fraction == 1.0


@pytest.mark.parametrize("method", ["predict", "loo_predict", "fit"])
def test_no_matrix_of_all_samples_is_made(method, monkeypatch):
    X, y, new = problem()
    gp = fitted()

    def fail(*args):
        raise AssertionError(args)

    for name in ("gram", "cross", "block", "stream"):
        monkeypatch.setattr(KernelOracle, name, fail)
    arguments = {"predict": (new,), "loo_predict": (), "fit": (X, y)}
    getattr(gp, method)(*arguments[method])


@every_estimator
@pytest.mark.parametrize("noise", [NOISE, "loo"])
def test_a_fit_looks_at_some_samples_only(cls, noise, monkeypatch):
    X, labels = blobs(60)
    settings = {"completion": NearestNeighbors(K), "noise_variance": noise}
    gp = cls(rbf(1.0), random_state=0, **settings)
    whole = clone(gp).fit(X, labels)
    monkeypatch.setattr(_neighbors, "LEFT_OUT", 30)
    gp.fit(X, labels)
    assert gp.fit_report_.n_pairs == 60 + 30 * K * (K + 1) // 2
    assert gp.amplitude_ != whole.amplitude_
    assert gp.amplitude_ == pytest.approx(whole.amplitude_, rel=0.7)
    assert gp.amplitude_ == clone(gp).fit(X, labels).amplitude_
    other = clone(gp).set_params(random_state=1).fit(X, labels)
    assert gp.amplitude_ != other.amplitude_
    assert gp.loo_predict().shape == (60,)
    if noise == NOISE:
        np.testing.assert_array_equal(gp.loo_predict(), whole.loo_predict())


class Earliest:
    """Third-party strategy: neighbours are the samples with the smallest numbers."""

    def count(self, n):
        return min(4, n)

    def similarities(self, new, points):
        return -torch.arange(len(points)).expand(len(new), -1).to(points)


def test_any_object_with_the_methods_is_a_strategy():
    X, y, new = problem()
    settings = EXACT | PLAIN
    gp = ConvNetGPRegressor(tiny_network(), completion=Earliest(), **settings)
    gp.fit(X, y)
    dense = Dense(X, y, None)
    dense.order = lambda sample: np.arange(4)
    np.testing.assert_allclose(gp.predict(new), next(dense.predict(new)), rtol=1e-8)


@pytest.mark.gpu
@every_estimator
def test_gpu_and_cpu_agree(cls):
    X, labels = digits(60)
    settings = EXACT | {"completion": NearestNeighbors(K), "noise_variance": "loo"}
    gpu = cls(tiny_network(), device="cuda", **settings).fit(X[:40], labels[:40])
    cpu = cls(tiny_network(), device="cpu", **settings).fit(X[:40], labels[:40])
    assert gpu.device_ == "cuda"
    for method, arguments in [
        ("predict_latent", (X[40:], True)),
        ("loo_predict", ()),
        ("log_marginal_likelihood", ()),
    ]:
        got, expected = (getattr(gp, method)(*arguments) for gp in (gpu, cpu))
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-8)


def test_covariances_and_samples_need_a_joint_posterior():
    X, _, new = problem()
    gp = ConvNetGPRegressor(tiny_network(), completion=NearestNeighbors(K))
    assert gp.sample_y(X, 2).shape == (N, 2)  # from the prior
    gp = fitted()
    for method in (gp.predict, gp.predict_latent):
        with pytest.raises(ValueError, match=r"NearestNeighbors.*completion=None"):
            method(new, return_cov=True)
    with pytest.raises(ValueError, match=r"NearestNeighbors.*completion=None"):
        gp.sample_y(new)


@pytest.mark.parametrize("n_neighbors", [0, -1, 1.0, 2.5, True, None, "auto"])
def test_bad_numbers_are_refused_before_any_work(n_neighbors, monkeypatch):
    monkeypatch.setattr(KernelOracle, "diag", None)
    gp = ConvNetGPRegressor(rbf(1.0), completion=NearestNeighbors(n_neighbors))
    message = r"The 'n_neighbors' parameter of NearestNeighbors must be an int >= 1\. "
    with pytest.raises(ValueError, match=message + rf"Got {n_neighbors!r} instead"):
        gp.fit(*wave(9))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"completion": NearestNeighbors(metric="l1")}, "'metric'.*'cosine' or"),
        ({"completion": NearestNeighbors}, "'completion'.*a strategy"),
        ({"solver": "lsqr"}, "NearestNeighbors.*solver='auto', got 'lsqr'"),
        ({"noise_variance": "evidence"}, "NearestNeighbors.*'evidence'.*'loo'"),
    ],
)
def test_bad_settings_are_refused_before_any_work(settings, message, monkeypatch):
    monkeypatch.setattr(KernelOracle, "diag", None)
    gp = ConvNetGPRegressor(rbf(1.0), **{"completion": NearestNeighbors()} | settings)
    with pytest.raises(ValueError, match=message):
        gp.fit(*wave(9))


@pytest.mark.parametrize("amplitude", [1.0, "profile"])
@pytest.mark.parametrize("noise", [NOISE, "loo"])
def test_noise_of_a_sample_must_be_finite(amplitude, noise):
    settings = {"amplitude": amplitude, "noise_variance": noise}
    gp = ConvNetGPRegressor(rbf(1.0), completion=NearestNeighbors(3), **settings)
    with pytest.raises(ValueError, match="not finite"):
        gp.fit(*wave(3), [1.0, 1e-320, 1.0])


def test_search_over_the_number_of_neighbors():
    X, labels = digits(60)
    gp = ConvNetGPClassifier(tiny_network(), completion=NearestNeighbors())
    grid = {"completion__n_neighbors": [1, 20], "noise_variance": [1e-4, "loo"]}
    search = GridSearchCV(gp, grid, cv=3).fit(X, labels)
    assert search.best_params_["completion__n_neighbors"] == 20
    assert search.best_score_ > 0.7


@every_estimator
def test_a_loaded_model_predicts_the_same(cls):
    X, labels = digits(50)
    gp = cls(tiny_network(), completion=NearestNeighbors(K)).fit(X[:40], labels[:40])
    loaded = pickle.loads(pickle.dumps(gp))
    np.testing.assert_array_equal(loaded.predict(X[40:]), gp.predict(X[40:]))
    np.testing.assert_array_equal(loaded.loo_predict(), gp.loo_predict())
    assert loaded.log_marginal_likelihood() == gp.log_marginal_likelihood()


@pytest.mark.parametrize("backend", ["auto", "torch"])
def test_jobs_change_no_bit(backend):
    results = []
    for n_jobs in (None, 2):
        gp = fitted(n_jobs=n_jobs, backend=backend, amplitude="profile")
        found = gp.predict(problem()[2], return_std=True)
        results.append((*found, gp.loo_predict(), gp.amplitude_))
    for one, two in zip(*results, strict=True):
        np.testing.assert_array_equal(one, two)


@every_estimator
def test_another_fit_forgets_the_neighbors(cls):
    X, labels = digits(50)
    X, new, labels = X[:40], X[40:], labels[:40]
    gp = cls(tiny_network()).fit(X, labels)
    mean = gp.predict_latent(new)
    evidence = gp.log_marginal_likelihood()
    gp.set_params(completion=NearestNeighbors(K)).fit(X, labels)
    assert not {"dual_coef_", "solver_state_"} & set(vars(gp))
    assert not np.allclose(gp.predict_latent(new), mean)
    gp.set_params(completion=None).fit(X, labels)
    np.testing.assert_array_equal(gp.predict_latent(new), mean)
    assert gp.log_marginal_likelihood() == evidence
    assert gp.predict_latent(new, return_cov=True)[1].shape[:2] == (10, 10)


def test_another_fit_forgets_what_was_left_out():
    X, y, _ = problem()
    gp = fitted(amplitude="profile").set_params(amplitude=AMPLITUDE)
    gp.fit(X[:30], y[:30])
    fresh = clone(gp).fit(X[:30], y[:30])
    np.testing.assert_array_equal(gp.loo_predict(), fresh.loo_predict())


def test_one_sample_leaves_the_prior():
    gp = ConvNetGPRegressor(rbf(1.0), completion=NearestNeighbors(), **PLAIN)
    mean, std = gp.fit([[1.0]], [3.0]).loo_predict(return_std=True)
    assert mean == 0.0
    assert std == pytest.approx(np.sqrt(AMPLITUDE * (1.0 + NOISE)))


def test_blank_images_have_neighbors():
    X, labels = digits(30)
    X[::5] = 0.0
    gp = ConvNetGPClassifier(tiny_network(), completion=NearestNeighbors(4))
    gp.fit(X, labels)
    assert np.isfinite(gp.predict_proba(np.zeros((2, 1, 8, 8)))).all()


def test_known_values_are_met_without_noise():
    X, y = wave(25)
    settings = {"noise_variance": 0.0, "amplitude": 1.0}
    neighbors = NearestNeighbors(3, "euclidean")
    gp = ConvNetGPRegressor(rbf(0.05), completion=neighbors, **settings).fit(X, y)
    mean, std = gp.predict(X, return_std=True)
    np.testing.assert_allclose(mean, y, atol=1e-5)
    np.testing.assert_allclose(std, 0.0, atol=1e-3)


def test_variance_below_zero_is_reported_after_any_fit():
    X, y = wave(20)
    gram = gram_matrix(rbf(1.0), X)
    gp = ConvNetGPRegressor("precomputed", completion=Nystrom(n_landmarks=5))
    gp.fit(gram, y).set_params(completion=NearestNeighbors(6)).fit(gram, y)
    with pytest.warns(UserWarning, match="Posterior variances down to"):
        gp.predict_latent(gram, diag=np.full(20, 0.3), return_std=True)
