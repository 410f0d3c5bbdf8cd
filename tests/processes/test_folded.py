"""Folded weights: latent means in less time, the same as by features."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.base import clone

import skconvgp as sk
from skconvgp import kernels
from skconvgp.backends import Responses
from skconvgp.processes import NewRows, fold
from skconvgp.processes.posterior import _means_alone
from tests.helpers.estimators import digits
from tests.helpers.public import PATCHES

TWO = kernels.FlipAverage(PATCHES) + kernels.Scale(kernels.PatchKernel(patch_size=2), 2)
INDUCING = {"n_inducing": 8, "random_state": 0}
PARTS = [PATCHES, kernels.rbf(2.0), kernels.PatchKernel(patch_size=2)]
# The patches of two parts are the same.
SHARED = [PATCHES, kernels.rbf(2.0), PATCHES.replace(location_lengthscale=None)]
IMAGES = {"flips": True, "part_weights": [0.5, 0.2, 0.3], "random_state": 0}
ESTIMATORS = {
    "patches": sk.PatchGPClassifier(PATCHES, **INDUCING),
    "terms": sk.PatchGPClassifier(TWO, **INDUCING),
    "dirichlet": sk.PatchGPClassifier(PATCHES, likelihood="dirichlet", **INDUCING),
    "softmax": sk.PatchGPClassifier(PATCHES, likelihood="softmax", **INDUCING),
    "parts": sk.ImageClassifier(PARTS, **IMAGES),
    "shared": sk.ImageClassifier(SHARED, **IMAGES),
    "landmarks": sk.ImageClassifier(PARTS, n_landmarks=20, **IMAGES),
    "targets": sk.PatchGPRegressor(PATCHES, **INDUCING),
}
every = pytest.mark.parametrize("name", ESTIMATORS)
N, NEW = 60, 10


def data():
    X, y = digits(N + NEW)
    return X[:N], (y % 3)[:N], X[N:]


def fitted(name, **settings):
    X, y, _ = data()
    return clone(ESTIMATORS[name]).set_params(**settings).fit(X, y)


def features(process, rows, gp):
    """Return what the basis gives for rows (n, d), in double precision."""
    run = gp._resources().run(gp._resources().placement(0))
    blocks = [one for one, _ in process.basis.stream(NewRows(rows), run)]
    return torch.cat(blocks).numpy()


@every
def test_folded_means_are_features_times_coefficients(name):
    gp, new = fitted(name, dtype="float64"), data()[2].reshape(NEW, -1)
    process = gp._process
    expected = features(process, new, gp) @ process.dual
    found = process.latent(NewRows(new), gp._resources()).mean
    assert process.folded is not None
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-8)


@every
def test_single_precision_changes_means_by_little(name):
    gp, new = fitted(name), data()[2].reshape(NEW, -1)
    process, resources = gp._process, gp._resources()
    exact = replace(process, folded=None).latent(NewRows(new), resources).mean
    means = process.latent(NewRows(new), resources).mean
    assert np.abs(means - exact).max() <= 1e-3 * np.nanstd(process.left_out.known_means)


def weights_of(process):
    return [
        term.weights
        for part in process.folded.parts
        for term in getattr(part, "terms", ())
    ]


@every
def test_weights_are_double_where_single_precision_is_too_coarse(name, monkeypatch):
    assert {one.dtype for one in weights_of(fitted(name)._process)} == {
        np.dtype("float32")
    }
    monkeypatch.setattr(_means_alone, "SINGLE_ERROR", 0.0)
    double = weights_of(fitted(name)._process)
    assert {one.dtype for one in double} == {np.dtype("float64")}


@pytest.mark.parametrize("name", ["parts", "shared"])
def test_terms_of_the_same_patches_share_responses(name, monkeypatch):
    gp, new = fitted(name, flips=False), data()[2]
    counts, pooled = [], Responses.pooled

    def counted(self, *args):
        counts.append(1)
        return pooled(self, *args)

    monkeypatch.setattr(Responses, "pooled", counted)
    gp.predict_latent(new)
    assert len(counts) == (2 if name == "parts" else 1)
    assert len(gp._process.folded.parts) == 2


def test_covariances_alone_are_not_folded():
    X, y, _ = data()
    for gp in (
        sk.ConvNetGPClassifier(kernels.rbf(1.0)),
        sk.ImageClassifier([kernels.rbf(1.0)]),
    ):
        process = gp.fit(X, y)._process
        assert process.folded is None
        assert fold(process, X.reshape(N, -1), gp._resources()) is process


@pytest.mark.parametrize("name", ["patches", "landmarks"])
def test_further_images_change_folded_means(name):
    X, y, new = data()
    gp = fitted(name)
    before = gp.predict_latent(new)
    gp.partial_fit(X[::-1] * 0.9, y[::-1])
    after = gp.predict_latent(new)
    assert np.abs(after - before).max() > 1e-2
    by_features = gp.predict_latent(new, return_std=True)[0]
    np.testing.assert_allclose(after, by_features, atol=1e-3 * by_features.std())


@pytest.mark.parametrize("name", ["parts", "landmarks"])
def test_quick_products_change_probabilities_by_little(name):
    gp, new = fitted(name), data()[2]
    found = gp.predict_proba(new)
    mean, std = gp.predict_latent(new, return_std=True)
    expected = gp._probabilities(mean, std**2, gp._uncalibrated(new)[2])
    np.testing.assert_allclose(found, expected, atol=1e-4)
