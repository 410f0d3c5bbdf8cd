"""The loaders: arrays, folders, and no download in a test."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.utils import Bunch

from skconvgp.datasets import fetch_mnist, load_digits_images

SIZES = {"train": 12, "test": 5}


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    parts = {}
    for part, n in SIZES.items():
        parts[f"x_{part}"] = rng.integers(0, 256, (n, 28, 28), dtype=np.uint8)
        parts[f"y_{part}"] = rng.integers(0, 10, n, dtype=np.uint8)
    return parts


@pytest.fixture
def folder(arrays, tmp_path):
    np.savez(tmp_path / "mnist.npz", **arrays)
    return tmp_path


@pytest.fixture(autouse=True)
def no_variable(monkeypatch):
    monkeypatch.delenv("SKCONVGP_DATA", raising=False)


@pytest.fixture(autouse=True)
def no_download(monkeypatch):
    def fail(*args, **settings):
        raise AssertionError("a download was tried")

    monkeypatch.setattr("skconvgp.datasets._images.fetch_openml", fail)


def assert_is_mnist(parts, arrays):
    for got, name in zip(
        parts, ("x_train", "y_train", "x_test", "y_test"), strict=True
    ):
        if name.startswith("y"):
            assert got.dtype == np.int64
            np.testing.assert_array_equal(got, arrays[name])
        else:
            assert got.dtype == np.float32
            assert got.shape[1:] == (1, 28, 28)
            np.testing.assert_allclose(got[:, 0] * 255.0, arrays[name], atol=1e-4)


def test_digits_are_images_between_zero_and_one():
    bunch = load_digits_images()
    X, y = load_digits_images(return_X_y=True)
    original = load_digits()
    assert X.shape == (1797, 1, 8, 8)
    assert X.dtype == np.float32
    assert (X.min(), X.max()) == (0.0, 1.0)
    np.testing.assert_array_equal(X.reshape(1797, 64) * 16, original.data)
    np.testing.assert_array_equal(y, original.target)
    np.testing.assert_array_equal(bunch.data, X)
    np.testing.assert_array_equal(bunch.target, y)
    assert bunch.DESCR == original.DESCR


def test_mnist_from_a_folder(folder, arrays):
    assert_is_mnist(fetch_mnist(data_home=folder), arrays)
    assert_is_mnist(fetch_mnist(data_home=str(folder)), arrays)


def test_mnist_from_the_folder_of_the_variable(folder, arrays, monkeypatch):
    monkeypatch.setenv("SKCONVGP_DATA", str(folder))
    assert_is_mnist(fetch_mnist(), arrays)


def test_folder_wins_over_the_variable(folder, arrays, monkeypatch, tmp_path):
    monkeypatch.setenv("SKCONVGP_DATA", str(tmp_path / "elsewhere"))
    assert_is_mnist(fetch_mnist(data_home=folder), arrays)


@pytest.mark.parametrize("where", ["data_home", "SKCONVGP_DATA"])
def test_missing_file_is_named_with_the_remedy(where, tmp_path, monkeypatch):
    settings = {"data_home": tmp_path} if where == "data_home" else {}
    monkeypatch.setenv("SKCONVGP_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"mnist\.npz") as caught:
        fetch_mnist(**settings)
    assert str(tmp_path) in str(caught.value)
    assert "OpenML" in str(caught.value)


def test_only_the_first_images_are_kept(folder, arrays):
    parts = fetch_mnist(n_train=7, n_test=2, data_home=folder)
    cut = {
        name: values[: 7 if "train" in name else 2] for name, values in arrays.items()
    }
    assert_is_mnist(parts, cut)


def test_without_a_folder_scikit_learn_downloads(arrays, monkeypatch):
    def fetch_openml(name, *, version, as_frame):
        assert (name, version, as_frame) == ("mnist_784", 1, False)
        x = np.concatenate([arrays["x_train"], arrays["x_test"]]).reshape(-1, 784)
        y = np.concatenate([arrays["y_train"], arrays["y_test"]]).astype(str)
        return Bunch(data=x.astype(float), target=y.astype(object))

    monkeypatch.setattr("skconvgp.datasets._images.fetch_openml", fetch_openml)
    monkeypatch.setattr("skconvgp.datasets._images.MNIST_TRAIN", SIZES["train"])
    assert_is_mnist(fetch_mnist(), arrays)
