"""Averages over flips in the estimators of patches, against dense formulas."""

import math

import numpy as np
import pytest
import torch

from skconvgp import (
    ConvNetGPRegressor,
    PatchGPClassifier,
    PatchGPRegressor,
    gram_matrix,
)
from skconvgp.kernels import (
    FlipAverage,
    PatchKernel,
    PatchWhitening,
    convnet,
    matern,
    rbf,
)
from tests.helpers.estimators import all_digits

PLAIN = {"noise_variance": 0.05, "dtype": "float64", "random_state": 0}
SMALL = PatchKernel(rbf(2.0), patch_size=3, location_lengthscale=1.5)


def images(n=14, channels=1, seed=0):
    return np.random.default_rng(seed).normal(size=(n, channels, 6, 7))


def targets(n=14):
    return np.random.default_rng(1).normal(size=(n, 2)) + 1.0


def flipped(X):
    return np.ascontiguousarray(X[..., ::-1])


def inducing_of(kernel, X, **settings):
    gp = PatchGPRegressor(kernel, **(PLAIN | settings)).fit(X, targets(len(X)))
    return gp._process.basis.inducing.in_units(1.0)


def features(inducing, X):
    found = inducing.features(torch.as_tensor(X), backend="torch", dtype=torch.float64)
    return found.numpy()


@pytest.mark.parametrize(
    ("kernel", "average"),
    [
        (SMALL, FlipAverage(SMALL)),
        (2.0 * SMALL + rbf(5.0), FlipAverage(2.0 * SMALL + rbf(5.0))),
        (2.0 * SMALL + rbf(5.0), 2.0 * FlipAverage(SMALL) + FlipAverage(rbf(5.0))),
    ],
    ids=["alone", "of a sum", "sum of averages"],
)
def test_features_are_means_over_an_image_and_its_flip(kernel, average):
    X, Z = images(), images(3, seed=5)[:, :, :3, :3]
    whole = [Z, images(4, seed=6)] if kernel is not SMALL else Z
    plain, mean = (inducing_of(one, X, inducing=whole) for one in (kernel, average))
    expected = (features(plain, X) + features(plain, flipped(X))) / 2
    np.testing.assert_allclose(features(mean, X), expected, rtol=1e-12, atol=1e-14)


def test_an_average_of_one_term_leaves_the_others_alone():
    X, Z = images(), [images(3, seed=5)[:, :, :3, :3], images(4, seed=6)]
    kernel = SMALL + rbf(5.0)
    plain = features(inducing_of(kernel, X, inducing=Z), X)
    mixed = features(inducing_of(FlipAverage(SMALL) + rbf(5.0), X, inducing=Z), X)
    is_same = (mixed == plain).all(0)
    assert is_same.sum() == 4
    assert is_same[-4:].all()


@pytest.mark.parametrize(
    "kernel",
    [
        FlipAverage(SMALL),
        FlipAverage(
            PatchKernel(
                matern(2.0),
                patch_size=3,
                color="channels",
                stride=2,
                location_lengthscale=None,
            )
        ),
        0.7 * FlipAverage(SMALL + 0.5 * rbf(3.0)) + convnet(depth=1, kernel_size=3),
    ],
    ids=["locations", "channels", "sum"],
)
def test_prior_variances_are_those_of_the_kernel(kernel):
    X = images(5, channels=2)
    inducing = inducing_of(kernel, X, n_inducing=4)
    variances = inducing.variances(torch.as_tensor(X), "torch").numpy()
    dense = np.diag(gram_matrix(kernel, X, dtype="float64"))
    np.testing.assert_allclose(variances, dense, rtol=1e-10)


def test_all_patches_are_the_exact_process():
    # Each patch of few different ones, so that nothing is cut.
    rng = np.random.default_rng(0)
    X = np.zeros((6, 1, 6, 7))
    X[np.arange(6), 0, rng.integers(1, 5, 6), rng.integers(1, 5, 6)] = 3.0
    X[:, 0, 0, 0] = np.arange(6)
    y, kernel = (
        targets(6),
        FlipAverage(PatchKernel(rbf(1.0), patch_size=3, location_lengthscale=None)),
    )
    exact = ConvNetGPRegressor(kernel, **PLAIN).fit(X[:5], y[:5])
    gp = PatchGPRegressor(kernel, inducing="unique", **PLAIN).fit(X[:5], y[:5])
    pairs = [
        (one.predict(X, return_std=True), one.loo_predict()) for one in (gp, exact)
    ]
    (found, found_loo), (wanted, wanted_loo) = pairs
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found_loo, wanted_loo, rtol=1e-5, atol=1e-6)


def test_derivatives_by_an_image_are_those_by_its_flip():
    X, kernel = images(), FlipAverage(SMALL)
    for gp in (
        PatchGPRegressor(kernel, n_inducing=9, **PLAIN),
        ConvNetGPRegressor(kernel, **PLAIN),
    ):
        gp.fit(X, targets())
        slopes, step = gp.latent_gradient(X[:2]), np.zeros_like(X[:2])
        step[:, 0, 2, 1] = 1e-5
        moved = (gp.predict(X[:2] + step) - gp.predict(X[:2] - step)) / 2e-5
        by_pixel = slopes.reshape(2, -1, *X.shape[1:])
        np.testing.assert_allclose(by_pixel[:, :, 0, 2, 1], moved, rtol=1e-5, atol=1e-8)
        by_flip = gp.latent_gradient(flipped(X[:2])).reshape(by_pixel.shape)
        np.testing.assert_allclose(flipped(by_flip), by_pixel, rtol=1e-8, atol=1e-12)


def test_patches_of_both_views_count_against_the_budget():
    X = images()
    plain, mean = (inducing_of(one, X).n_numbers for one in (SMALL, FlipAverage(SMALL)))
    assert mean == (2 * plain[0], plain[1])
    grid = SMALL.grid(X.shape[1:])
    n_pixels = grid.channels * math.prod(grid.size)
    assert plain == (grid.n_patches * n_pixels, grid.n_positions**2)


@pytest.mark.filterwarnings("ignore:All .* training samples are equal")
def test_inducing_patches_are_of_images_and_of_flips():
    X = np.zeros((20, 1, 6, 7))
    X[:, 0, :, :3] = 1.0  # an edge, with the light at the left
    kernel = PatchKernel(
        rbf(1.0), patch_size=3, normalization=None, location_lengthscale=None
    )
    Z = inducing_of(FlipAverage(kernel), X).terms[0].patches[:, 0, 0]
    found = {tuple(row) for row in Z.tolist()}
    assert found == {(0, 0, 0), (1, 1, 1), (0, 0, 1), (0, 1, 1), (1, 0, 0), (1, 1, 0)}


def test_a_classifier_of_color_images():
    X, y = all_digits()
    X = X[:120].reshape(-1, 1, 8, 8) * np.array([1.0, 0.5, -0.3])[:, None, None]
    X += np.random.default_rng(0).normal(size=X.shape)
    own = PatchKernel(normalization=PatchWhitening(), location_lengthscale=None)
    with pytest.raises(ValueError, match=r"PatchWhitening\(flips=True\)"):
        PatchGPClassifier(FlipAverage(own)).fit(X, y[:120])
    kernel = PatchKernel(patch_size=3)
    gp = PatchGPClassifier(FlipAverage(kernel), n_inducing=32, random_state=0)
    gp.fit(X[:100], y[:100])
    values = gp.predict_proba(X[100:])
    np.testing.assert_allclose(gp.predict_proba(flipped(X[100:])), values, atol=1e-4)
    gp.partial_fit(X[100:], y[100:120])
    assert gp.loo_predict().shape == (120,)
