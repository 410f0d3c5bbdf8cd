"""What comes in: rows and images, shapes that are guessed, frames, maps, dtypes."""

import re
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    PatchGPClassifier,
    PatchGPRegressor,
    as_sklearn_kernel,
    gram_diag,
    gram_matrix,
)
from skconvgp.estimators import _warn
from skconvgp.exceptions import ImageShapeWarning
from skconvgp.kernels import Conv2d, Dense, Flatten, ReLU, Sequential, dense, rbf
from tests.helpers.estimators import blobs, digits, tiny_network, wave

FORMS = {
    "rows": lambda images: images.reshape(len(images), -1),
    "3-D": lambda images: images[:, 0],
    "4-D": lambda images: images,
}
GUESSES = [
    (63, (63, 1, 1)),
    (64, (1, 8, 8)),
    (65, (65, 1, 1)),
    (192, (3, 8, 8)),
    (3072, (3, 32, 32)),
]


@pytest.mark.parametrize("predicted", FORMS)
@pytest.mark.parametrize("fitted", FORMS)
def test_rows_and_images_give_the_same(fitted, predicted):
    X, y = digits(30)
    reference = ConvNetGPClassifier(tiny_network()).fit(X[:20], y[:20])
    gp = ConvNetGPClassifier(tiny_network(), image_shape=(1, 8, 8))
    gp.fit(FORMS[fitted](X[:20]), y[:20])
    assert gp.image_shape_ == (1, 8, 8)
    assert gp.n_features_in_ == 64
    np.testing.assert_array_equal(
        gp.predict_proba(FORMS[predicted](X[20:])), reference.predict_proba(X[20:])
    )


@pytest.mark.parametrize(
    "gp",
    [ConvNetGPRegressor(tiny_network()), PatchGPRegressor(n_inducing=4)],
    ids=["network", "patches"],
)
@pytest.mark.parametrize("predicted", FORMS)
def test_the_shape_of_the_fit_holds_for_rows_at_predict(predicted, gp):
    X, y = digits(30)
    gp.fit(X[:20], y[:20])
    np.testing.assert_array_equal(
        gp.predict(FORMS[predicted](X[20:])), gp.predict(X[20:])
    )


@pytest.mark.parametrize(("n_features", "shape"), GUESSES)
def test_auto_reads_squares_from_eight_pixels_on(n_features, shape):
    X = np.random.default_rng(0).normal(size=(4, n_features))
    is_image = shape[1] > 1
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gp = ConvNetGPRegressor(tiny_network()).fit(X, [0.0, 1.0, 2.0, 3.0])
        gp.predict(X)
    assert gp.image_shape_ == shape
    assert [w.category for w in caught] == [ImageShapeWarning] * is_image
    if is_image:
        assert repr(shape) in str(caught[0].message)
        assert "image_shape=None" in str(caught[0].message)
        assert caught[0].filename == __file__  # points at the line of the user


@pytest.mark.parametrize("n_features", [64, 192])
def test_guessed_shape_changes_the_kernel_as_the_explicit_one_does(n_features):
    X = np.random.default_rng(0).normal(size=(5, n_features))
    y, channels = np.arange(5.0), n_features // 64
    with pytest.warns(ImageShapeWarning):
        guessed = ConvNetGPRegressor(tiny_network()).fit(X, y)
    explicit = ConvNetGPRegressor(tiny_network(), image_shape=(channels, 8, 8))
    vector = ConvNetGPRegressor(tiny_network(), image_shape=None)
    explicit.fit(X, y)
    vector.fit(X, y)
    np.testing.assert_array_equal(guessed.dual_coef_, explicit.dual_coef_)
    assert not np.allclose(guessed.dual_coef_, vector.dual_coef_)
    assert vector.image_shape_ == (n_features, 1, 1)


@pytest.mark.parametrize("shape", [(1, 8, 8), (8, 8), (4, 16), None])
def test_explicit_shape_is_silent(shape):
    X, y = digits(6)
    gp = ConvNetGPRegressor(tiny_network(), image_shape=shape)
    gp.fit(X.reshape(6, -1), y)
    expected = {None: (64, 1, 1), (4, 16): (1, 4, 16)}.get(shape, (1, 8, 8))
    assert gp.image_shape_ == expected


@pytest.mark.parametrize(
    "kernel", [rbf(1.0), dense(depth=1), rbf(1.0) + dense(depth=1)]
)
def test_kernels_without_images_are_silent_and_ignore_the_shape(kernel):
    X, y = digits(8)
    rows = X.reshape(8, -1)
    auto = ConvNetGPRegressor(kernel).fit(rows, y)
    square = ConvNetGPRegressor(kernel, image_shape=(8, 8)).fit(rows, y)
    np.testing.assert_array_equal(auto.dual_coef_, square.dual_coef_)
    np.testing.assert_array_equal(auto.predict(X), square.predict(rows))


def test_sum_with_one_spatial_kernel_is_spatial():
    X, y = digits(6)
    with pytest.warns(ImageShapeWarning):
        ConvNetGPRegressor(tiny_network() + rbf(1.0)).fit(X.reshape(6, -1), y)


def test_gram_functions_warn_of_a_guess_at_the_line_of_the_user():
    X = digits(3)[0].reshape(3, -1)
    for function in (gram_matrix, gram_diag):
        _warn.WARNED.clear()
        with pytest.warns(ImageShapeWarning, match=r"\(1, 8, 8\)") as caught:
            function(tiny_network(), X)
        assert [w.filename for w in caught] == [__file__]


def told(function, *args):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function(*args)
    return [str(w.message) for w in caught if w.category is ImageShapeWarning]


def test_a_search_warns_of_a_guess_once():
    X, y = digits(24)
    rows, grid = X.reshape(24, -1), {"kernel__weight_variance": [1.0, 2.0]}
    search = GridSearchCV(ConvNetGPClassifier(tiny_network()), grid, cv=2)
    (message,) = told(search.fit, rows, y)
    assert "(1, 8, 8)" in message
    (message,) = told(search.fit, np.tile(rows, 3), y)
    assert "(3, 8, 8)" in message
    assert told(search.fit, rows, y) == []


def test_a_kernel_of_scikit_learn_warns_of_a_guess_once():
    X, y = digits(24)
    rows, kernel = X.reshape(24, -1), as_sklearn_kernel(tiny_network())
    search = GridSearchCV(SVC(kernel=kernel), {"C": [1.0, 2.0]}, cv=2)
    assert len(told(search.fit, rows, y)) == 1


def test_threads_that_begin_together_warn_of_a_guess_once():
    rows, n_threads = digits(2)[0].reshape(2, -1), 8
    barrier = threading.Barrier(n_threads)

    def compute(_):
        barrier.wait()
        gram_matrix(tiny_network(), rows)

    def compute_all():
        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(compute, range(n_threads)))

    assert len(told(compute_all)) == 1


def test_a_guess_that_is_made_an_error_is_one_each_time():
    rows = digits(2)[0].reshape(2, -1)
    for _ in range(2):
        with pytest.raises(ImageShapeWarning):  # filters make it an error
            gram_matrix(tiny_network(), rows)


def test_two_sizes_are_height_and_width():
    X, y = digits(6)
    network = Sequential(Conv2d((1, 3), weight_variance=2.0), ReLU(), Flatten())
    flat = ConvNetGPRegressor(network, image_shape=(2, 32)).fit(X.reshape(6, -1), y)
    given = ConvNetGPRegressor(network).fit(X.reshape(6, 2, 32), y)
    assert flat.image_shape_ == given.image_shape_ == (1, 2, 32)
    np.testing.assert_array_equal(flat.dual_coef_, given.dual_coef_)


def test_rows_are_read_as_channels_then_rows_then_columns():
    X = np.random.default_rng(0).normal(size=(5, 3, 4, 6))
    explicit = gram_matrix(tiny_network(), X.reshape(5, -1), image_shape=(3, 4, 6))
    np.testing.assert_array_equal(explicit, gram_matrix(tiny_network(), X))


@pytest.mark.parametrize("shape", [(1, 7, 9), (65,), (8, 9)])
def test_wrong_product_names_both_numbers_and_proposes_shapes(shape):
    X, y = digits(4)
    gp = ConvNetGPRegressor(tiny_network(), image_shape=shape)
    with pytest.raises(ValueError, match="image_shape") as caught:
        gp.fit(X.reshape(4, -1), y)
    message = str(caught.value)
    if len(shape) == 1:
        assert "(height, width)" in message
        return
    assert str(np.prod(shape)) in message
    assert "64" in message
    proposals = re.findall(r"\((\d+), (\d+), (\d+)\)", message.split("use one of")[1])
    assert ("1", "8", "8") in proposals
    assert all(np.prod([int(n) for n in fit]) == 64 for fit in proposals)


def test_explicit_shape_must_agree_with_images():
    X, y = digits(4)
    gp = ConvNetGPRegressor(tiny_network(), image_shape=(1, 4, 16))
    with pytest.raises(ValueError, match=r"\(1, 4, 16\).*\(1, 8, 8\)"):
        gp.fit(X, y)


def test_nested_lists_are_taken():
    X, y = digits(12)
    kernel = tiny_network()
    arrays = ConvNetGPClassifier(kernel).fit(X, y)
    lists = ConvNetGPClassifier(kernel).fit(X.tolist(), y.tolist())
    np.testing.assert_array_equal(lists.predict(X.tolist()), arrays.predict(X))
    rows = ConvNetGPRegressor(rbf(1.0)).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 4.0])
    assert rows.predict([[1.5]]).shape == (1,)


@pytest.mark.parametrize("library", [pd, pl])
@pytest.mark.parametrize(
    "estimator",
    [ConvNetGPClassifier(rbf(1.0)), PatchGPClassifier(random_state=0)],
    ids=["network", "patches"],
)
def test_data_frames_give_feature_names(library, estimator):
    X, y = blobs(15)
    plain = clone(estimator).fit(X, y)
    frame = library.DataFrame({"east": X[:, 0], "north": X[:, 1]})
    gp = clone(estimator).fit(frame, library.Series(y))
    assert gp.n_features_in_ == 2
    if hasattr(StandardScaler().fit(frame), "feature_names_in_"):  # 1.6: pandas only
        assert list(gp.feature_names_in_) == ["east", "north"]
    np.testing.assert_array_equal(gp.predict_proba(frame), plain.predict_proba(X))
    assert not hasattr(plain, "feature_names_in_")


def test_other_feature_names_are_refused():
    X, y = blobs(15)
    gp = ConvNetGPClassifier(rbf(1.0)).fit(pd.DataFrame(X, columns=["a", "b"]), y)
    with pytest.raises(ValueError, match="feature names"):
        gp.predict(pd.DataFrame(X, columns=["b", "a"]))


@pytest.mark.parametrize("cls", [ConvNetGPClassifier, ConvNetGPRegressor])
def test_read_only_memory_maps_are_only_read(cls, tmp_path):
    X, y = digits(20)
    joblib.dump((X, y), tmp_path / "data")
    mapped_X, mapped_y = joblib.load(tmp_path / "data", mmap_mode="r")
    assert not mapped_X.flags.writeable
    gp = cls(tiny_network()).fit(mapped_X, mapped_y)
    expected = cls(tiny_network()).fit(X, y).predict(X)
    np.testing.assert_array_equal(gp.predict(mapped_X), expected)


def test_inputs_are_not_changed():
    X, y = wave(12)
    weights = np.linspace(0.0, 2.0, 12)
    copies = X.copy(), y.copy(), weights.copy()
    gp = ConvNetGPRegressor(rbf(1.0)).fit(X, y, sample_weight=weights)
    gp.predict(X, return_std=True)
    for given, copy in zip((X, y, weights), copies, strict=True):
        np.testing.assert_array_equal(given, copy)


def test_float32_is_kept_as_it_is_and_computed_in_float64():
    X, y = digits(30)
    X32 = X.astype(np.float32)
    gp = ConvNetGPRegressor(tiny_network(), device="cpu").fit(X32[:20], y[:20])
    assert gp.X_train_.dtype == np.float32
    same = ConvNetGPRegressor(tiny_network(), device="cpu")
    same.fit(X32[:20].astype(np.float64), y[:20])
    np.testing.assert_array_equal(gp.dual_coef_, same.dual_coef_)
    np.testing.assert_array_equal(gp.predict(X32[20:]), same.predict(X32[20:]))


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, bool])
def test_integers_are_taken(dtype):
    X, y = digits(20)
    integers = (X * 16).astype(dtype)
    gp = ConvNetGPRegressor(tiny_network()).fit(integers, y)
    expected = ConvNetGPRegressor(tiny_network()).fit(integers.astype(float), y)
    np.testing.assert_array_equal(
        gp.predict(integers), expected.predict(integers.astype(float))
    )


def test_fortran_order_and_strides_do_not_matter():
    X, y = digits(20)
    expected = ConvNetGPRegressor(tiny_network()).fit(X, y)
    strided = np.asfortranarray(np.repeat(X, 2, axis=0))[::2]
    gp = ConvNetGPRegressor(tiny_network()).fit(strided, y)
    np.testing.assert_allclose(gp.predict(strided), expected.predict(X), rtol=1e-10)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dtype_is_that_of_the_tiles(dtype):
    X, y = digits(20)
    gp = ConvNetGPRegressor(tiny_network(), dtype=dtype).fit(X, y)
    exact = ConvNetGPRegressor(tiny_network(), dtype="float64").fit(X, y)
    assert gp.dtype_ == dtype
    difference = np.abs(gp.predict(X) - exact.predict(X)).max()
    assert (difference == 0.0) == (dtype == "float64")
    assert difference < 1e-3


def test_solve_dtype_is_that_of_the_factor():
    X, y = digits(20)
    gp = ConvNetGPRegressor(tiny_network(), solve_dtype="float32").fit(X, y)
    exact = ConvNetGPRegressor(tiny_network()).fit(X, y)
    assert gp.solver_state_.factor.dtype == np.float32
    assert exact.solver_state_.factor.dtype == np.float64
    np.testing.assert_allclose(gp.predict(X), exact.predict(X), atol=1e-2)


@pytest.mark.parametrize("budget", ["60 KB", 60_000, "0.06 MB"])
def test_small_memory_budget_gives_the_same_matrix(budget):
    X = digits(25)[0]
    whole = gram_matrix(tiny_network(), X)
    tiled = gram_matrix(tiny_network(), X, memory_budget=budget)
    np.testing.assert_allclose(tiled, whole, rtol=1e-12)
    np.testing.assert_array_equal(tiled, tiled.T)


def test_default_network_accepts_vectors():
    X, y = blobs(9)
    gp = ConvNetGPClassifier().fit(X, y)
    assert gp.image_shape_ == (2, 1, 1)
    assert gp.score(X, y) > 1 / 3


def test_closed_network_without_dense_is_a_kernel():
    X = digits(6)[0]
    network = Sequential(Conv2d(3), ReLU(), Flatten(), Dense(weight_variance=4.0))
    bare = Sequential(Conv2d(3), ReLU(), Flatten())
    np.testing.assert_allclose(gram_matrix(network, X), 4.0 * gram_matrix(bare, X))


@pytest.mark.parametrize("form", FORMS)
def test_rows_without_a_shape_go_with_images(form):
    X, y = digits(8)
    gp = ConvNetGPRegressor(tiny_network(), image_shape=None).fit(FORMS[form](X), y)
    for other in FORMS.values():
        np.testing.assert_array_equal(gp.predict(other(X)), gp.predict(X))
        gram = gram_matrix(rbf(1.0), FORMS[form](X), other(X))
        np.testing.assert_allclose(gram, gram_matrix(rbf(1.0), X), rtol=1e-12)
