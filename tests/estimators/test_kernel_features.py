"""KernelFeatures: features of a kernel as a transformer."""

import pickle
import re

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import skconvgp
from skconvgp import ConvNetGPRegressor, KernelFeatures, gram_matrix
from skconvgp.completion import (
    IterativeSVD,
    NearestNeighbors,
    Nystrom,
    RandomFeatures,
)
from skconvgp.datasets import load_digits_images
from skconvgp.exceptions import NotFiniteError, TileMemoryError
from skconvgp.kernels import PatchKernel, convnet, polynomial, rbf

PARTS = [RandomFeatures(40), Nystrom(n_landmarks=20, landmarks="greedy_pivoted")]


def digits(n):
    X, y = load_digits_images(return_X_y=True)
    return X[:n], y[:n]


def rows(n=50, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 3))


@pytest.mark.parametrize("part", PARTS, ids=repr)
@pytest.mark.parametrize("kernel", [rbf(2.0), convnet(1, 3)], ids=repr)
def test_products_of_features_are_near_the_kernel(kernel, part):
    X, _ = digits(60)
    part = clone(part).set_params(**{next(iter(part.get_params())): 50})
    if isinstance(part, RandomFeatures):
        part.set_params(n_features=4000)
    phi = KernelFeatures(kernel, part, random_state=0)
    features = phi.fit_transform(X)
    gram = gram_matrix(kernel, X)
    error = np.abs(features @ features.T - gram).max() / gram.max()
    assert error < 0.2
    assert features.shape == (60, len(phi.get_feature_names_out()))
    assert phi.kernel_ == kernel
    assert hasattr(phi, "landmark_indices_") == isinstance(part, Nystrom)


def test_landmarks_reproduce_their_columns():
    X, new = rows(), rows(5, seed=1)
    phi = KernelFeatures(rbf(1.0), Nystrom(n_landmarks=10), random_state=0).fit(X)
    landmarks = X[phi.landmark_indices_]
    assert len(landmarks) == 10
    products = phi.transform(new) @ phi.transform(landmarks).T
    np.testing.assert_allclose(
        products, gram_matrix(rbf(1.0), new, landmarks), atol=1e-8
    )


def test_features_are_those_of_the_process():
    X = rows()
    y = np.sin(X[:, 0])
    part = RandomFeatures(20)
    gp = ConvNetGPRegressor(rbf(), completion=part, random_state=3, amplitude=1.0)
    phi = KernelFeatures(rbf(), part, random_state=3).fit(X)
    mean = gp.fit(X, y).predict(X)
    expected = phi.transform(X) @ gp.dual_coef_ + gp.y_mean_
    np.testing.assert_allclose(mean, expected[:, 0], rtol=1e-10)


@pytest.mark.parametrize("part", PARTS, ids=repr)
def test_single_precision_is_kept_and_blocks_do_not_matter(part):
    X = digits(40)[0].astype(np.float64)
    phi = KernelFeatures(convnet(1, 3), part, dtype="float64", random_state=0)
    whole = phi.fit(X).transform(X)
    assert whole.dtype == np.float64
    assert phi.transform(X.astype(np.float32)).dtype == np.float32
    phi.set_params(memory_budget="3 MiB")
    np.testing.assert_allclose(phi.transform(X), whole, rtol=0, atol=1e-12)
    copy = pickle.loads(pickle.dumps(phi))
    np.testing.assert_array_equal(copy.transform(X), phi.transform(X))


def test_data_frames_have_names():
    pytest.importorskip("pandas")
    phi = KernelFeatures(rbf(1.0), 4, random_state=0).set_output(transform="pandas")
    frame = phi.fit_transform(rows())
    assert list(frame.columns) == [f"kernelfeatures{i}" for i in range(4)]


def test_files_of_skops_are_read(tmp_path):
    skops = pytest.importorskip("skops.io")
    for part in PARTS:
        phi = KernelFeatures(rbf(1.0), part, random_state=0).fit(rows())
        skops.dump(phi, tmp_path / "phi.skops")
        trusted = skconvgp.SKOPS_TRUSTED_TYPES
        copy = skops.load(tmp_path / "phi.skops", trusted=trusted)
        np.testing.assert_array_equal(copy.transform(rows()), phi.transform(rows()))


def test_a_grid_compares_kinds_of_features():
    X, y = digits(120)
    model = make_pipeline(
        KernelFeatures(rbf(2.0), random_state=0), LogisticRegression(max_iter=50)
    )
    grid = {"kernelfeatures__features": [30, Nystrom(n_landmarks=40)]}
    search = GridSearchCV(model, grid, cv=2).fit(X, y)
    assert search.best_score_ > 0.6


def test_landmarks_may_be_stratified():
    X, y = digits(60)
    part = Nystrom(n_landmarks=10, landmarks="stratified")
    phi = KernelFeatures(rbf(2.0), part, random_state=0).fit(X, y)
    assert sorted(y[phi.landmark_indices_]) == list(range(10))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        phi.fit(X, y[:50])
    with pytest.raises(ValueError, match="Unknown label type"):
        phi.fit(X, y + 0.5)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"features": 0}, ValueError, "'features' parameter of KernelFeatures"),
        ({"features": 1}, ValueError, "'n_features' parameter of RandomFeatures"),
        ({"features": 2.5}, ValueError, "'features' parameter of KernelFeatures"),
        ({"features": Nystrom}, ValueError, "an object, not a class"),
        ({"features": NearestNeighbors()}, ValueError, "None, an int, RandomFeatures"),
        ({"features": IterativeSVD(5)}, ValueError, "None, an int, RandomFeatures"),
        ({"kernel": "precomputed"}, ValueError, "None or a kernel"),
        ({"kernel": rbf}, ValueError, "None or a kernel"),
        ({"device": 3}, ValueError, "'device' parameter of KernelFeatures"),
        ({"dtype": "half"}, ValueError, "'dtype' parameter of KernelFeatures"),
        ({"n_jobs": 0}, ValueError, "'n_jobs' parameter of KernelFeatures"),
        ({"random_state": "a"}, ValueError, "random_state must be"),
        ({"kernel": PatchKernel(patch_size=1)}, TypeError, "has no random features"),
        (
            {"features": Nystrom(n_landmarks=5, landmarks="stratified")},
            ValueError,
            "needs labels y in `fit`",
        ),
    ],
)
def test_bad_settings_are_refused(settings, error, message):
    phi = KernelFeatures(**{"kernel": rbf(1.0), "features": 10} | settings)
    with pytest.raises(error, match=re.escape(message)):
        phi.fit(rows())
    assert not [name for name in vars(phi) if name.endswith("_")]


def test_budgets_are_for_at_least_a_sample():
    with pytest.raises(ValueError, match="'memory_budget' parameter"):
        KernelFeatures(rbf(1.0), 10, memory_budget=-1).fit(rows())
    with pytest.raises(TileMemoryError, match="`memory_budget`"):
        KernelFeatures(rbf(1.0), 4000, memory_budget=100, random_state=0).fit(rows())
    X = digits(2)[0]
    with pytest.raises(TileMemoryError, match="`memory_budget`"):  # of the weights
        KernelFeatures(convnet(1, 3), 200, memory_budget="1 MiB").fit(X)
    part = RandomFeatures(200, readout="exact")
    with pytest.raises(TileMemoryError, match="features of a sample need"):
        KernelFeatures(convnet(1, 3), part, memory_budget=10_000).fit(X)


def test_one_column_has_no_orthogonal_frequencies():
    column = rows()[:, :1]
    found = [
        KernelFeatures(
            rbf(1.0), RandomFeatures(20, orthogonal=flag), random_state=0
        ).fit_transform(column)
        for flag in (True, False)
    ]
    np.testing.assert_array_equal(*found)


def test_the_usual_kernel_is_that_of_vectors():
    assert isinstance(KernelFeatures(random_state=0).fit(rows()).kernel_, rbf)


def test_other_shapes_are_refused():
    phi = KernelFeatures(convnet(1, 3), 10, random_state=0).fit(digits(5)[0])
    with pytest.raises(ValueError, match="shape"):
        phi.transform(np.zeros((2, 1, 4, 4)))


def test_features_that_the_precision_of_X_does_not_hold_are_an_error():
    X = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
    features = KernelFeatures(polynomial(degree=2), 20, random_state=0).fit(X)
    assert np.isfinite(features.transform(X)).all()
    with pytest.raises(NotFiniteError, match=r"not finite in float32.*scale X"):
        features.transform(1e30 * X)
