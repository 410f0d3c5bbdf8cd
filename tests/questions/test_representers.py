"""Training samples that carry a prediction."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    ImageClassifier,
    NystromCompletedGP,
    NystromCompletedGPRegressor,
    PatchGPClassifier,
    PatchGPRegressor,
    gram_matrix,
)
from skconvgp.augmentation import Flip
from skconvgp.completion import NearestNeighbors, RandomFeatures
from skconvgp.kernels import PatchKernel, rbf
from skconvgp.likelihoods import Dirichlet, Laplace
from skconvgp.questions import attribution, novelty, representer_points
from skconvgp.solvers import ConjugateGradient
from tests.helpers.conformal import count_factors
from tests.helpers.estimators import blobs, digits, label_targets, tiny_network

NOISE = 0.2
PATCHES = PatchKernel(rbf(1.0), patch_size=3)


def scores(gp, X, outputs):
    """Return latent means, less prior means, of outputs (n,)."""
    known = gp.latent_offset_ if hasattr(gp, "classes_") else gp.y_mean_
    latent = gp.predict_latent(X).reshape(len(X), -1) - known
    return latent[np.arange(len(X)), outputs]


def all_values(gp, new, target, n):
    """Return the values (b, n) of all samples."""
    indices, values = representer_points(gp, new, target, n_points=n)
    found = np.zeros((len(new), n))
    for row, at, own in zip(found, indices, values, strict=True):
        np.add.at(row, at[at >= 0], own[at >= 0])
    return found


def covariances(gp, X, new):
    """Return covariances (b, n), and those of the samples (n, n), in their unit."""
    whole = gram_matrix(gp.kernel_, np.concatenate([X, new]))
    unit = gp._process.model.mean_diag
    return whole[len(X) :, : len(X)] / unit, whole[: len(X), : len(X)] / unit


@pytest.mark.parametrize("has_weights", [False, True])
def test_values_of_labels_are_those_of_dense_algebra(has_weights):
    X, y = blobs(40)
    X[7] = X[3]  # a copy
    new, _ = blobs(6, seed=1)
    weights = 1.0 + np.arange(40) % 3 if has_weights else np.ones(40)
    gp = ConvNetGPClassifier(rbf(1.0), noise_variance=NOISE)
    gp.fit(X, y, sample_weight=weights if has_weights else None)
    cross, gram = covariances(gp, X, new)
    alpha = np.linalg.solve(gram + np.diag(NOISE / weights), label_targets(y))
    labels = np.arange(6) % 3
    expected = cross * alpha[:, labels].T
    found = all_values(gp, new, labels, 40)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
    assert np.abs(found.sum(1) - scores(gp, new, labels)).max() < 1e-9


def test_values_of_targets_have_their_units():
    X, _ = blobs(30)
    new, _ = blobs(4, seed=1)
    y = np.stack([5.0 + 3.0 * X[:, 0], 40.0 * X[:, 1]], 1)
    gp = ConvNetGPRegressor(rbf(2.0), noise_variance=NOISE).fit(X, y)
    cross, gram = covariances(gp, X, new)
    alpha = np.linalg.solve(gram + NOISE * np.eye(30), y - y.mean(0))
    for output in (0, 1):
        found = all_values(gp, new, output, 30)
        np.testing.assert_allclose(found, cross * alpha[:, output], atol=1e-9, rtol=0)
    alone = ConvNetGPRegressor(rbf(2.0), noise_variance=NOISE).fit(X, y[:, 1])
    np.testing.assert_allclose(all_values(alone, new, None, 30), found, atol=1e-9)


def test_the_largest_come_first_for_and_against():
    X, y = digits(60)
    gp = ConvNetGPClassifier(tiny_network()).fit(X[:50], y[:50])
    whole = all_values(gp, X[50:], None, 50)
    indices, values = representer_points(gp, X[50:], n_points=4)
    order = np.argsort(whole, 1)
    np.testing.assert_array_equal(indices[:, 0], order[:, :-5:-1])
    np.testing.assert_array_equal(indices[:, 1], order[:, :4])
    rows = np.arange(10)[:, None, None]
    np.testing.assert_allclose(whole[rows, indices], values, rtol=1e-12)
    # The samples that speak most for a label have it.
    predicted = gp.predict(X[50:])
    assert (y[indices[:, 0, 0]] == predicted).all()


def test_where_no_more_values_have_a_sign_there_is_none():
    X = np.array([[0.0], [1.0], [9.0]])
    gp = ConvNetGPRegressor(rbf(0.5), noise_variance=NOISE, normalize_y=False)
    gp.fit(X, [1.0, 1.0, -1.0])
    indices, values = representer_points(gp, [[0.1], [9.0]], n_points=4)
    assert set(indices[0, 0].tolist()) == {0, 1, -1}
    np.testing.assert_array_equal(indices[1, 1, :2], [2, -1])
    np.testing.assert_array_equal(values[indices == -1], 0.0)
    assert (values[:, 0] >= 0.0).all()
    assert (values[:, 1] <= 0.0).all()
    np.testing.assert_allclose(values.sum((1, 2)), gp.predict([[0.1], [9.0]]))


def test_indices_are_those_of_the_samples_that_fit_was_given():
    X, y = blobs(30)
    weights = np.ones(30)
    weights[::3] = 0.0  # all of a class
    y[:3] = 0
    weights[0] = 1.0
    gp = ConvNetGPClassifier(rbf(1.0), noise_variance=NOISE)
    gp.fit(X, y, sample_weight=weights)
    used = np.flatnonzero(weights)
    indices, _ = representer_points(gp, X[used], n_points=len(used))
    assert set(indices[indices >= 0].tolist()) == set(used.tolist())
    own = ConvNetGPClassifier(rbf(1.0), noise_variance=NOISE).fit(X[used], y[used])
    one, other = all_values(gp, X, 1, 30)[:, used], all_values(own, X, 1, len(used))
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "gp",
    [
        ConvNetGPClassifier(rbf(1.0), likelihood=Laplace()),
        ConvNetGPClassifier(rbf(1.0), likelihood=Dirichlet()),
        ConvNetGPClassifier(rbf(1.0), solver=ConjugateGradient(tolerance=1e-9)),
        ConvNetGPClassifier(rbf(1.0), completion=RandomFeatures(60), random_state=0),
        NystromCompletedGP(rbf(1.0), n_landmarks=7, random_state=0),
        NystromCompletedGP(rbf(1.0), n_landmarks=7, variance="fitc", random_state=0),
        NystromCompletedGP(rbf(1.0), n_landmarks=40, random_state=0),
    ],
    ids=repr,
)
def test_values_of_all_samples_add_up_to_the_score(gp):
    X, y = blobs(40)
    X[5] = X[4]
    new, _ = blobs(5, seed=1)
    has_weights = not isinstance(getattr(gp, "likelihood", None), Laplace)
    weights = 1.0 + np.arange(40) % 2
    gp.fit(X, y, sample_weight=weights if has_weights else None)
    labels = np.arange(5) % 3
    found = all_values(gp, new, labels, 40)
    expected = scores(gp, new, labels)
    np.testing.assert_allclose(found.sum(1), expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize(
    "gp",
    [
        ImageClassifier([PATCHES, rbf(2.0)], random_state=0),
        ConvNetGPClassifier(tiny_network(), augment=Flip()),
        ConvNetGPClassifier("precomputed"),
        PatchGPClassifier(PATCHES, n_inducing=8, random_state=0),
        PatchGPRegressor(PATCHES, n_inducing=8, random_state=0),
    ],
    ids=repr,
)
def test_values_of_images_add_up_to_the_score(gp):
    X, y = digits(40)
    y = y % 3
    given, new = X[:34], X[34:]
    if getattr(gp, "kernel", None) == "precomputed":
        whole = gram_matrix(rbf(3.0), X)
        given, new = whole[:34, :34], whole[34:, :34]
    gp.fit(given, y[:34])
    outputs = np.zeros(6, dtype=int)
    found = all_values(gp, new, 0, 34)
    np.testing.assert_allclose(
        found.sum(1), scores(gp, new, outputs), rtol=0, atol=1e-5
    )


def test_values_of_features_are_those_of_dense_algebra():
    X, y = blobs(40)
    new, _ = blobs(5, seed=1)
    gp = NystromCompletedGPRegressor(
        rbf(1.0), n_landmarks=9, noise_variance=NOISE, random_state=0
    ).fit(X, 3.0 * y)
    whole = gram_matrix(gp.kernel_, np.concatenate([X, new, gp.X_train_]))
    among = np.linalg.inv(whole[45:, 45:])
    unit = gp._process.model.mean_diag
    product = whole[:45, 45:] @ among @ whole[45:, :45] / unit
    targets = 3.0 * y - (3.0 * y).mean()
    alpha = np.linalg.solve(product[:40, :40] + NOISE * np.eye(40), targets)
    found = all_values(gp, new, None, 40)
    np.testing.assert_allclose(found, product[40:, :40] * alpha, rtol=0, atol=1e-7)


def test_features_of_all_samples_give_the_values_of_the_exact_process():
    X, y = blobs(25)
    new, _ = blobs(5, seed=1)
    settings = {"noise_variance": NOISE, "random_state": 0}
    exact = ConvNetGPClassifier(rbf(0.7), **settings).fit(X, y)
    features = NystromCompletedGP(rbf(0.7), n_landmarks=25, **settings).fit(X, y)
    one, other = (all_values(gp, new, 2, 25) for gp in (exact, features))
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)


def test_a_sample_alone_has_the_points_that_it_has_among_others():
    X, y = digits(60)
    for gp in (
        ConvNetGPClassifier(tiny_network(), memory_budget="1MB"),
        PatchGPClassifier(PATCHES, n_inducing=8, random_state=0),
    ):
        gp.fit(X[:50], y[:50])
        indices, values = representer_points(gp, X[50:])
        for i in range(10):
            one, own = representer_points(gp, X[50 + i : 51 + i])
            np.testing.assert_array_equal(one[0], indices[i])
            np.testing.assert_allclose(own[0], values[i], rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, bool])
def test_images_of_whole_numbers_have_the_points_of_floats(dtype):
    X, y = digits(40)
    X = (16.0 * X).astype(dtype)
    found = representer_points(ConvNetGPClassifier(rbf(20.0)).fit(X, y), X[:4], 3)
    X = X.astype(np.float64)
    expected = representer_points(ConvNetGPClassifier(rbf(20.0)).fit(X, y), X[:4], 3)
    np.testing.assert_array_equal(found, expected)
    assert (found[1] != 0.0).all()


def test_frames_keep_the_names_of_their_columns():
    pandas = pytest.importorskip("pandas")
    X, y = blobs(30)
    frame = pandas.DataFrame(X, columns=["width", "height"])
    gp = ConvNetGPClassifier(rbf(1.0)).fit(frame[:25], y[:25])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        indices, _ = representer_points(gp, frame[25:])
        maps = attribution(gp, frame[25:])
    plain = ConvNetGPClassifier(rbf(1.0)).fit(X[:25], y[:25])
    np.testing.assert_array_equal(indices, representer_points(plain, X[25:])[0])
    np.testing.assert_allclose(maps, attribution(plain, X[25:]))


def test_nothing_is_factored_again(monkeypatch):
    X, y = digits(50)
    models = [
        ConvNetGPClassifier(tiny_network()),
        PatchGPClassifier(PATCHES, n_inducing=8, random_state=0),
    ]
    fitted = [gp.fit(X[:40], y[:40]) for gp in models]
    counts = count_factors(monkeypatch)
    for gp in fitted:
        representer_points(gp, X[40:])
        attribution(gp, X[40:])
    assert not counts
    novelty(fitted[0], X[40:])  # which factors once
    assert counts


def test_who_cannot_answer_says_what_to_use():
    X, y = digits(40)
    near = ConvNetGPClassifier(rbf(), completion=NearestNeighbors(8)).fit(X, y)
    with pytest.raises(ValueError, match=r"ConvNetGPClassifier cannot answer .*: use"):
        representer_points(near, X)
    light = PatchGPClassifier(PATCHES, n_inducing=8, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="use the estimator that it was made from"):
        representer_points(light.for_prediction(), X)
    pipeline = make_pipeline(StandardScaler(), ConvNetGPClassifier(rbf()))
    pipeline.fit(X.reshape(40, -1), y)
    with pytest.raises(ValueError, match=r"use its last step, `pipeline\[-1\]`"):
        representer_points(pipeline, X)


@pytest.mark.parametrize("n_points", [0, -1, 2.5, None])
def test_wrong_numbers_of_points_are_refused(n_points):
    X, y = digits(40)
    gp = ConvNetGPClassifier(rbf()).fit(X, y)
    with pytest.raises(ValueError, match="`n_points` must be an int >= 1"):
        representer_points(gp, X, n_points=n_points)
    with pytest.raises(ValueError, match="`target` must be labels"):
        representer_points(gp, X, 12)
    with pytest.raises(NotFittedError):
        representer_points(ConvNetGPClassifier(rbf()), X)
