"""Averages over orbits in the estimators of patches, against dense formulas."""

import pickle

import numpy as np
import pytest
import torch

from skconvgp import (
    ConvNetGPRegressor,
    PatchGPClassifier,
    PatchGPRegressor,
    gram_diag,
)
from skconvgp.augmentation import Shift
from skconvgp.kernels import OrbitAverage, PatchKernel, rbf
from skconvgp.kernels._orbit_maps import versions_of
from skconvgp.questions import attribution
from tests.estimators.patches.test_patch_flips import (
    PLAIN,
    SMALL,
    features,
    inducing_of,
)
from tests.helpers.estimators import digits

ROLLED = np.roll(np.arange(36), 6)  # rows of pixels go round
MAPS = ["flips", "quarter_turns", "symmetries", Shift(1), [ROLLED]]
each_maps = pytest.mark.parametrize("maps", MAPS, ids=["f", "q", "s", "shift", "own"])


def images(n=14, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 1, 6, 6))


def turned(X):
    return np.ascontiguousarray(np.rot90(X, axes=(-2, -1)))


@each_maps
def test_features_are_means_over_versions(maps):
    X, Z = images(), images(3, seed=5)[:, :, :3, :3]
    plain, mean = (
        inducing_of(one, X, inducing=Z) for one in (SMALL, OrbitAverage(SMALL, maps))
    )
    versions = versions_of(torch.as_tensor(X), maps)
    expected = sum(features(plain, one.numpy()) for one in versions) / len(versions)
    np.testing.assert_allclose(features(mean, X), expected, rtol=1e-12, atol=1e-14)


@each_maps
@pytest.mark.parametrize(
    "kernel",
    [
        SMALL,
        SMALL.replace(weights=np.linspace(-1.0, 2.0, 16)),  # that turns change
        2.0 * SMALL.replace(patch_size=(2, 3)) + 0.5 * rbf(3.0),
    ],
    ids=["plain", "weights", "sum"],
)
def test_prior_variances_are_those_of_the_kernel(kernel, maps):
    X, average = images(5), OrbitAverage(kernel, maps)
    inducing = inducing_of(average, X, n_inducing=4)
    variances = inducing.variances(torch.as_tensor(X), "torch").numpy()
    dense = gram_diag(average, X, dtype="float64")
    np.testing.assert_allclose(variances, dense, rtol=1e-10)


@pytest.mark.parametrize("maps", ["symmetries", Shift(1)], ids=str)
def test_all_patches_are_the_exact_process(maps):
    # Each patch of few different ones, so that nothing is cut.
    rng = np.random.default_rng(0)
    X = np.zeros((6, 1, 6, 6))
    X[np.arange(6), 0, rng.integers(1, 5, 6), rng.integers(1, 5, 6)] = 3.0
    X[:, 0, 0, 0] = np.arange(6)
    y = rng.normal(size=(6, 2))
    kernel = OrbitAverage(
        PatchKernel(rbf(1.0), patch_size=3, location_lengthscale=None), maps
    )
    exact = ConvNetGPRegressor(kernel, **PLAIN).fit(X[:5], y[:5])
    gp = PatchGPRegressor(kernel, inducing="unique", **PLAIN).fit(X[:5], y[:5])
    (found, wanted) = (one.predict(X, return_std=True) for one in (gp, exact))
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(gp.loo_predict(), exact.loo_predict(), 1e-5, 1e-6)


def test_predictions_and_contributions_turn_with_the_images():
    X, y = digits(40)
    kernel = OrbitAverage(PatchKernel(rbf(1.0), patch_size=3, location_lengthscale=2.0))
    gp = PatchGPClassifier(kernel, n_inducing=12, **PLAIN).fit(X[:30], y[:30])
    new = X[30:]
    np.testing.assert_allclose(
        gp.predict_latent(turned(new)), gp.predict_latent(new), rtol=1e-7, atol=1e-9
    )
    labels = gp.predict(new)
    maps = attribution(gp, new, labels)
    found = attribution(gp, turned(new), labels)
    np.testing.assert_allclose(found, turned(maps), rtol=1e-6, atol=1e-9)
    small = gp.for_prediction()
    np.testing.assert_allclose(small.predict_latent(new), gp.predict_latent(new), 1e-4)
    again = pickle.loads(pickle.dumps(gp))
    np.testing.assert_array_equal(again.predict_latent(new), gp.predict_latent(new))


@each_maps
def test_derivatives_by_an_image_are_finite_differences(maps):
    X, y = images(), images(seed=1).mean((1, 2, 3))
    gp = PatchGPRegressor(OrbitAverage(SMALL, maps), n_inducing=9, **PLAIN).fit(X, y)
    slopes, step = gp.latent_gradient(X[:2]), np.zeros_like(X[:2])
    step[:, 0, 2, 1] = 1e-5
    moved = (gp.predict(X[:2] + step) - gp.predict(X[:2] - step)) / 2e-5
    by_pixel = slopes.reshape(2, *X.shape[1:])
    np.testing.assert_allclose(by_pixel[:, 0, 2, 1], moved, rtol=1e-5, atol=1e-8)


def test_maps_that_cannot_be_undone_have_no_places():
    X, y = digits(40)
    kernel = OrbitAverage(SMALL, Shift(1))
    gp = PatchGPClassifier(kernel, n_inducing=12, **PLAIN).fit(X[:30], y[:30])
    with pytest.raises(ValueError, match="positions"):
        attribution(gp, X[30:], method="positions")


def test_averages_within_averages_are_refused_unless_they_are_the_same():
    X, y = images(), images(seed=1).mean((1, 2, 3))
    twice = OrbitAverage(0.5 * OrbitAverage(SMALL))
    PatchGPRegressor(twice, n_inducing=4, **PLAIN).fit(X, y)
    mixed = OrbitAverage(SMALL + OrbitAverage(SMALL, "flips"), Shift(1))
    with pytest.raises(ValueError, match="within another average"):
        PatchGPRegressor(mixed, n_inducing=4, **PLAIN).fit(X, y)
