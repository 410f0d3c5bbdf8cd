"""NearestNeighbors(weights=...): near neighbours count more than far ones."""

import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsRegressor

from skconvgp import ConvNetGPClassifier, ConvNetGPRegressor, gram_matrix
from skconvgp._protocols import WeightedLocalization
from skconvgp.completion import NearestNeighbors
from skconvgp.datasets import make_doppler
from skconvgp.engine import KernelOracle
from skconvgp.inference import noise_grid
from skconvgp.kernels import polynomial, rbf
from tests.helpers.dense_gp import noisy
from tests.helpers.estimators import blobs, wave

N, N_NEW, K = 40, 12, 7
NOISE, AMPLITUDE = 0.05, 2.5
SAMPLE_WEIGHTS = np.tile([1.0, 0.4, 3.0, 1.5], N // 4)
PLAIN = {
    "normalize_y": False,
    "noise_variance": NOISE,
    "amplitude": AMPLITUDE,
    "dtype": "float64",
}
WEIGHTS = {
    "uniform": np.ones_like,
    "epanechnikov": lambda r: np.maximum(1.0 - r**2, 1e-9),
    "hilbert": lambda r: 1.0 / np.maximum(r, 1e-3),
    "gaussian": lambda r: np.exp(-2.0 * r**2),
}
every_weighting = pytest.mark.parametrize("weights", list(WEIGHTS)[1:])


def points(n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 3))


def targets(X):
    return np.sin(X @ [1.0, 2.0, -1.0]) + 0.1 * np.cos(9.0 * X[:, 0])


def angles(X, new):
    """Return sqrt(2 - 2 cos) of the angles (n1, n)."""
    units = [one / np.linalg.norm(one, axis=1)[:, None] for one in (new, X)]
    return np.sqrt(np.maximum(2.0 - 2.0 * units[0] @ units[1].T, 0.0))


def lengths(X, new):
    return np.linalg.norm(new[:, None] - X, axis=-1)


def neighborhood(distances, k, weighting):
    """Return the k nearest samples and their weights, from distances (n,)."""
    order = np.argsort(distances)
    near = order[:k]
    far = distances[near]
    beyond = distances[order[k]] if len(order) > k else 1.0001 * far.max()
    return near, WEIGHTS[weighting](far / beyond)


def conditioned(gram, y, cross, prior, near, weights, noise=NOISE):
    matrix = noisy(gram[np.ix_(near, near)], noise, weights)
    solved = np.linalg.solve(matrix, cross[near])
    return solved @ y[near], prior - solved @ cross[near]


@every_weighting
@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_noise_of_a_neighbor_is_divided_by_its_weight(weights, metric):
    X, new = points(N), points(N_NEW, 1)
    completion = NearestNeighbors(K, metric, weights)
    gp = ConvNetGPRegressor(rbf(1.5), completion=completion, **PLAIN)
    gp.fit(X, targets(X), SAMPLE_WEIGHTS)
    mean, std = gp.predict(new, return_std=True)
    gram, cross = gram_matrix(rbf(1.5), X), gram_matrix(rbf(1.5), new, X)
    measure = angles if metric == "cosine" else lengths
    for i, distances in enumerate(measure(X, new)):
        near, own = neighborhood(distances, K, weights)
        both = own * SAMPLE_WEIGHTS[near]
        found = conditioned(gram, targets(X), cross[i], 1.0, near, both)
        assert mean[i] == pytest.approx(found[0], rel=1e-7)
        assert std[i] ** 2 == pytest.approx(AMPLITUDE * found[1], rel=1e-7)


@pytest.mark.parametrize("k", [N - 1, N, 1000])
def test_without_a_sample_beyond_the_radius_is_a_little_larger(k):
    X, new = points(N), points(3, 1)
    completion = NearestNeighbors(k, "euclidean", "epanechnikov")
    gp = ConvNetGPRegressor(rbf(1.5), completion=completion, **PLAIN)
    mean = gp.fit(X, targets(X)).predict(new)
    gram, cross = gram_matrix(rbf(1.5), X), gram_matrix(rbf(1.5), new, X)
    for i, distances in enumerate(lengths(X, new)):
        near, own = neighborhood(distances, min(k, N), "epanechnikov")
        found = conditioned(gram, targets(X), cross[i], 1.0, near, own)
        assert mean[i] == pytest.approx(found[0], rel=1e-7)


def left_out_density(weights, noise, X, y, length=1.5):
    """Return the log density of left-out samples, their amplitude profiled."""
    gram = gram_matrix(rbf(length), X)
    moments = []
    for i, distances in enumerate(lengths(X, X)):
        others = np.delete(np.arange(len(X)), i)
        near, own = neighborhood(distances[others], K, weights)
        cross = gram[i][others]
        some = gram[np.ix_(others, others)], y[others], cross, 1.0
        moments.append(conditioned(*some, near, own, noise))
    mean, var = np.array(moments).T
    var = var + noise
    amplitude = np.mean((y - mean) ** 2 / var)
    return -0.5 * np.sum(np.log(2.0 * np.pi * amplitude * var) + 1.0), amplitude


def test_noise_and_amplitude_are_chosen_with_the_weights():
    X, weights = points(N), "epanechnikov"
    y = targets(X) + 0.3 * np.random.default_rng(5).normal(size=N)
    completion = NearestNeighbors(K, "euclidean", weights)
    settings = PLAIN | {"noise_variance": "loo", "amplitude": "profile"}
    gp = ConvNetGPRegressor(rbf(1.5), completion=completion, **settings).fit(X, y)
    densities = {
        noise: left_out_density(weights, noise, X, y)[0]
        for noise in noise_grid(torch.float64)
    }
    best = max(densities, key=densities.get)
    assert gp.noise_variance_ == pytest.approx(best)
    amplitude = left_out_density(weights, best, X, y)[1]
    assert gp.amplitude_ == pytest.approx(amplitude, rel=1e-6)


@pytest.mark.parametrize("noise", [pytest.param("loo", marks=pytest.mark.slow), NOISE])
def test_optimizer_maximises_the_density_of_left_out_samples(noise):
    X = points(14)
    y = targets(X) + 0.7 * np.random.default_rng(5).normal(size=14)
    completion = NearestNeighbors(K, "euclidean", "gaussian")
    settings = PLAIN | {"noise_variance": noise, "amplitude": "profile"}
    gp = ConvNetGPRegressor(
        rbf(1.0), completion=completion, optimizer="loo", **settings
    ).fit(X, y)
    length = float(gp.kernel_.lengthscale)
    best = left_out_density("gaussian", gp.noise_variance_, X, y, length)[0]
    assert (gp.noise_variance_ == NOISE) == (noise == NOISE)
    for ratio in (0.9, 1.1):
        other = left_out_density("gaussian", gp.noise_variance_, X, y, ratio * length)
        assert other[0] < best
        if noise == "loo":
            changed = ratio**5 * gp.noise_variance_  # where the density is flatter
            assert left_out_density("gaussian", changed, X, y, length)[0] < best
    assert gp.optimizer_result_.rho == pytest.approx(-best / 14, rel=1e-6)


def test_optimizer_makes_no_matrix_of_all_samples(monkeypatch):
    sizes = []
    gram = KernelOracle.gram

    def watched(oracle, *args):
        sizes.append(len(oracle.images))
        return gram(oracle, *args)

    monkeypatch.setattr(KernelOracle, "gram", watched)
    X = points(N)
    completion = NearestNeighbors(K, "euclidean")
    gp = ConvNetGPRegressor(
        rbf(1.0),
        completion=completion,
        optimizer="loo",
        **PLAIN | {"amplitude": "profile"},
    )
    gp.fit(X, targets(X))
    assert set(sizes) == {K + 1}


@every_weighting
def test_evidence_begins_with_samples_without_weights(weights):
    X = points(N)
    completion = NearestNeighbors(K, "euclidean", weights)
    gp = ConvNetGPRegressor(rbf(1.5), completion=completion, **PLAIN)
    y, gram = targets(X), gram_matrix(rbf(1.5), X)
    total = 0.0
    for i, distances in enumerate(lengths(X, X)):
        near, own = np.arange(i), np.ones(i)
        if i > K:
            near, own = neighborhood(distances[:i], K, weights)
        mean, var = conditioned(gram, y, gram[i], 1.0, near, own)
        var = AMPLITUDE * (var + NOISE)
        total -= 0.5 * ((y[i] - mean) ** 2 / var + np.log(2.0 * np.pi * var))
    found = gp.fit(X, y).log_marginal_likelihood()
    assert found == pytest.approx(total, rel=1e-9)


@pytest.mark.filterwarnings("ignore:All covariances of different samples")
def test_a_constant_kernel_has_the_mean_of_the_neighbors():
    X, new = points(N), points(N_NEW, 1)
    constant = polynomial(1, weight_variance=1e-12)
    completion = NearestNeighbors(K, "euclidean")
    settings = PLAIN | {"noise_variance": 1e-3}
    gp = ConvNetGPRegressor(constant, completion=completion, **settings)
    expected = KNeighborsRegressor(K).fit(X, targets(X)).predict(new)
    found = gp.fit(X, targets(X)).predict(new)
    # Shrunk towards zero by the noise of a mean of K values.
    shrunk = expected / (1.0 + 1e-3 / K)
    np.testing.assert_allclose(found, shrunk, rtol=1e-5)


def test_a_linear_kernel_is_a_local_linear_regression():
    X, new = points(N), points(N_NEW, 1)
    y, noise = targets(X), 1e-9
    completion = NearestNeighbors(12, "euclidean", "gaussian")
    settings = PLAIN | {"noise_variance": noise}
    gp = ConvNetGPRegressor(polynomial(1), completion=completion, **settings)
    found = gp.fit(X, y).predict(new)
    for i, distances in enumerate(lengths(X, new)):
        near, own = neighborhood(distances, 12, "gaussian")
        columns = np.column_stack([np.ones(12), X[near]]) * np.sqrt(own)[:, None]
        line = np.linalg.lstsq(columns, np.sqrt(own) * y[near], rcond=None)[0]
        assert found[i] == pytest.approx(line @ [1.0, *new[i]], abs=1e-4)


class Fours(NearestNeighbors):
    """Third-party weights: 4 for every neighbour."""

    is_weighted = True

    def weigh(self, distances):
        return torch.full_like(distances[:, 1:], 4.0)


def test_weights_of_four_are_a_quarter_of_the_noise():
    X, new = points(N), points(N_NEW, 1)
    assert isinstance(Fours(), WeightedLocalization)
    gp = ConvNetGPRegressor(rbf(1.5), completion=Fours(K, "euclidean"), **PLAIN)
    settings = PLAIN | {"noise_variance": NOISE / 4.0}
    completion = NearestNeighbors(K, "euclidean")
    plain = ConvNetGPRegressor(rbf(1.5), completion=completion, **settings)
    for one, two in zip(
        gp.fit(X, targets(X)).predict(new, return_std=True),
        plain.fit(X, targets(X)).predict(new, return_std=True),
        strict=True,
    ):
        np.testing.assert_allclose(one, two, rtol=1e-10)


def test_order_of_the_samples_does_not_matter():
    X, labels = blobs(N)
    order = np.random.default_rng(0).permutation(N)
    completion = NearestNeighbors(K, "euclidean", "hilbert")
    gp = ConvNetGPClassifier(rbf(1.5), completion=completion, dtype="float64")
    found = gp.fit(X, labels).predict_latent(X + 0.1)
    other = gp.fit(X[order], labels[order]).predict_latent(X + 0.1)
    np.testing.assert_allclose(found, other, rtol=1e-8)


def test_repeated_samples_and_small_blocks_change_little(monkeypatch):
    X = np.repeat(points(5), 4, axis=0)
    y = np.arange(20.0) % 4
    completion = NearestNeighbors(4, "euclidean", "epanechnikov")
    gp = ConvNetGPRegressor(rbf(1.0), completion=completion, **PLAIN).fit(X, y)
    whole = gp.predict(X, return_std=True)
    # Four equal neighbours at distance zero weigh 1 each.
    mean = y[:4].sum() / (4.0 + NOISE)
    np.testing.assert_allclose(whole[0], mean, rtol=1e-8)
    monkeypatch.setattr(
        "skconvgp.processes.posterior._neighbor_solver.stream_rows", lambda *sizes: 3
    )
    for one, two in zip(gp.predict(X, return_std=True), whole, strict=True):
        np.testing.assert_array_equal(one, two)


def test_weighted_neighbors_follow_doppler_better_than_one_process():
    X, y = make_doppler(400, random_state=0)
    curve = make_doppler(400, noise=0.0)[1]
    exact = [
        ConvNetGPRegressor(rbf(length), noise_variance=0.2).fit(X, y)
        for length in (0.005, 0.01, 0.02, 0.05)
    ]
    best = max(exact, key=lambda gp: gp.log_marginal_likelihood())
    completion = NearestNeighbors(7, "euclidean", "epanechnikov")
    near = ConvNetGPRegressor(rbf(0.01), completion=completion, noise_variance=0.2)
    errors = [np.mean((gp.predict(X) - curve) ** 2) for gp in (near.fit(X, y), best)]
    assert errors[0] < 0.95 * errors[1]


@pytest.mark.parametrize("weights", ["linear", None, 1.0, ["hilbert"]])
def test_unknown_weights_are_refused_before_any_work(weights, monkeypatch):
    monkeypatch.setattr(KernelOracle, "diag", None)
    gp = ConvNetGPRegressor(rbf(1.0), completion=NearestNeighbors(3, weights=weights))
    message = r"'weights' parameter of NearestNeighbors must be one of 'uniform', 'ep"
    with pytest.raises(ValueError, match=message):
        gp.fit(*wave(9))


def test_a_precomputed_matrix_has_no_distances():
    X = points(N)
    completion = NearestNeighbors(K, weights="hilbert")
    gp = ConvNetGPRegressor("precomputed", completion=completion)
    with pytest.raises(ValueError, match=r"distances.*weights='uniform'"):
        gp.fit(gram_matrix(rbf(1.5), X), targets(X))
