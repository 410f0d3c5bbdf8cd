"""sample_y of processes whose noise follows from the labels: draws of functions."""

import numpy as np
import pytest

from skconvgp import ConvNetGPClassifier
from skconvgp.completion import Nystrom, RandomFeatures
from skconvgp.kernels import rbf
from tests.helpers.estimators import blobs
from tests.helpers.memory import needs_peak, peak_memory

N_NEW, DRAWS, SEEDS = 5, 20_000, 20
PARTS = {"exact": None, "random": RandomFeatures(40), "landmarks": Nystrom(20)}


def fitted(part=None, n_classes=3, likelihood="dirichlet", kernel=None):
    X, labels = blobs(30)
    y = np.unique(labels, return_inverse=True)[1] % n_classes
    gp = ConvNetGPClassifier(
        kernel or 2.0 * rbf(1.5),
        completion=part,
        likelihood=likelihood,
        dtype="float64",
        random_state=0,
    )
    weights = np.tile([1.0, 0.4, 3.0], len(X))[: len(X)]
    return gp.fit(X, y, weights), X[:N_NEW] + 0.3


@pytest.mark.parametrize(
    ("name", "method"),
    [("exact", "pathwise"), ("random", "pathwise"), ("random", "bootstrap")],
)
def test_moments_are_those_of_the_posterior(name, method):
    gp, new = fitted(PARTS[name])
    draws = np.concatenate(
        [
            gp.sample_y(new, DRAWS // SEEDS, seed, method, n_features=500)
            for seed in range(SEEDS)
        ],
        axis=2,
    )
    mean, std = gp.predict_latent(new, return_std=True)
    latent = gp._latent(new, None, needs_cov=True)
    for c in range(3):
        covariance = latent.cov[:, :, c] * latent.cov_scale * gp.amplitude_
        np.testing.assert_allclose(np.sqrt(np.diag(covariance)), std[:, c], rtol=1e-6)
        own = draws[:, c]
        assert np.abs((own.mean(1) - mean[:, c]) / std[:, c]).max() < 0.05
        sizes = np.outer(std[:, c], std[:, c])
        # Errors of 20,000 draws, and of 20 draws of 500 features, are near 0.01.
        assert np.abs((np.cov(own) - covariance) / sizes).max() < 0.06
    assert abs(np.corrcoef(draws[0, 0], draws[0, 1])[0, 1]) < 0.05


@pytest.mark.parametrize("name", PARTS)
def test_draws_are_the_same_after_a_device_had_no_room(name, monkeypatch):
    gp, new = fitted(PARTS[name])
    expected = gp.sample_y(new, 3, 0, "pathwise")

    def twice(placement, compute):
        compute(placement)  # as if the end of it were an error of memory
        return compute(placement)

    monkeypatch.setattr("skconvgp.processes.posterior._labelled.compute_at", twice)
    assert np.array_equal(gp.sample_y(new, 3, 0, "pathwise"), expected)


def test_many_samples_are_drawn_as_functions(monkeypatch):
    monkeypatch.setattr("skconvgp.estimators._samples.MOST_JOINT", 3)
    gp, new = fitted(kernel=rbf(1.5))
    expected = gp.sample_y(new, 2, 0, "pathwise")
    np.testing.assert_array_equal(gp.sample_y(new, 2, 0), expected)
    assert not np.allclose(gp.sample_y(new, 2, 0, "joint"), expected)


def test_draws_of_landmarks_leave_out_what_these_leave_out():
    gp, new = fitted(PARTS["landmarks"])
    draws = gp.sample_y(new, 4000, 0, "bootstrap")
    mean, std = gp.predict_latent(new, return_std=True)
    assert np.abs((draws.mean(2) - mean) / std).max() < 0.1
    assert (draws.std(2) < 1.05 * std).all()


def test_two_classes_of_one_function_are_negatives():
    gp, new = fitted(RandomFeatures(40), 2, "beta")
    assert gp._process.has_one_latent
    draws = gp.sample_y(new, 4000, 0, "bootstrap")
    np.testing.assert_array_equal(draws[:, 0], -draws[:, 1])
    mean, std = gp.predict_latent(new, return_std=True)
    assert np.abs((draws.mean(2) - mean) / std).max() < 0.1


def test_links_have_no_targets_to_perturb():
    X, labels = blobs(10)
    gp = ConvNetGPClassifier(rbf(1.0), likelihood="laplace").fit(X, labels)
    for method in ("pathwise", "bootstrap"):
        with pytest.raises(ValueError, match=r"like Gaussian\(\) or Dirichlet\(\)"):
            gp.sample_y(X, 2, 0, method)


LARGE = """
import numpy as np
from skconvgp import ConvNetGPClassifier
from skconvgp.completion import RandomFeatures
from skconvgp.kernels import rbf
X = np.random.default_rng(0).normal(size=(100_000, 2))
gp = ConvNetGPClassifier(
    rbf(1.5),
    completion=RandomFeatures(20),
    likelihood="dirichlet",
    memory_budget="16 MiB",
)
gp.fit(X[:30], X[:30, 0] > 0.0).sample_y(X[:3000], 1, 0, "bootstrap")
"""


@needs_peak
def test_a_hundred_thousand_samples_fit_in_the_budget():
    call = "assert gp.sample_y(X, 1, 0, 'bootstrap').shape == (100_000, 2, 1)"
    # Some columns of numbers of all samples; a covariance takes 75 GiB.
    assert peak_memory(LARGE, call) < 16 * 2**20 + 8 * 100_000 * 30
