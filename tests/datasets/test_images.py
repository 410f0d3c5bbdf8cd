"""The loaders: arrays, folders, and no download in a test."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.utils import Bunch

from skconvgp.datasets import _images, fetch_cifar10, fetch_mnist, load_digits_images

SIZES = {"train": 12, "test": 5}


@dataclass(frozen=True)
class Set:
    """A set of images, and how its arrays look in the file."""

    fetch: Callable
    file: str
    stored: tuple
    shape: tuple
    openml: str
    source: str

    def check(self, parts, arrays):
        """Fail unless these are the images and labels of the arrays."""
        for got, name in zip(
            parts, ("x_train", "y_train", "x_test", "y_test"), strict=True
        ):
            if name.startswith("y"):
                assert got.dtype == np.int64
                np.testing.assert_array_equal(got, arrays[name])
            else:
                assert got.dtype == np.float32
                assert got.shape[1:] == self.shape
                back = got.reshape(-1, *self.stored) * 255.0
                np.testing.assert_allclose(back, arrays[name], atol=1e-4)


SETS = {
    "mnist": Set(fetch_mnist, "mnist.npz", (28, 28), (1, 28, 28), "mnist_784", "MNIST"),
    "cifar10": Set(
        fetch_cifar10, "cifar10.npz", (3, 32, 32), (3, 32, 32), "CIFAR_10", "CIFAR10"
    ),
}


@pytest.fixture(params=SETS)
def images(request):
    return SETS[request.param]


@pytest.fixture
def arrays(images):
    rng = np.random.default_rng(0)
    parts = {}
    for part, n in SIZES.items():
        parts[f"x_{part}"] = rng.integers(0, 256, (n, *images.stored), dtype=np.uint8)
        parts[f"y_{part}"] = rng.integers(0, 10, n, dtype=np.uint8)
    return parts


@pytest.fixture
def folder(images, arrays, tmp_path):
    np.savez(tmp_path / images.file, **arrays)
    return tmp_path


@pytest.fixture(autouse=True)
def no_variable(monkeypatch):
    monkeypatch.delenv("SKCONVGP_DATA", raising=False)


@pytest.fixture(autouse=True)
def no_download(monkeypatch):
    def fail(*args, **settings):
        raise AssertionError("a download was tried")

    monkeypatch.setattr("skconvgp.datasets._images.fetch_openml", fail)


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


def test_images_from_a_folder(images, folder, arrays):
    images.check(images.fetch(data_home=folder), arrays)
    images.check(images.fetch(data_home=str(folder)), arrays)


def test_images_from_the_folder_of_the_variable(images, folder, arrays, monkeypatch):
    monkeypatch.setenv("SKCONVGP_DATA", str(folder))
    images.check(images.fetch(), arrays)


def test_folder_wins_over_the_variable(images, folder, arrays, monkeypatch, tmp_path):
    monkeypatch.setenv("SKCONVGP_DATA", str(tmp_path / "elsewhere"))
    images.check(images.fetch(data_home=folder), arrays)


@pytest.mark.parametrize("where", ["data_home", "SKCONVGP_DATA"])
def test_missing_file_is_named_with_the_remedy(images, where, tmp_path, monkeypatch):
    settings = {"data_home": tmp_path} if where == "data_home" else {}
    monkeypatch.setenv("SKCONVGP_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=images.file) as caught:
        images.fetch(**settings)
    assert str(tmp_path) in str(caught.value)
    assert "OpenML" in str(caught.value)


def test_only_the_first_images_are_kept(images, folder, arrays):
    parts = images.fetch(n_train=7, n_test=2, data_home=folder)
    cut = {
        name: values[: 7 if "train" in name else 2] for name, values in arrays.items()
    }
    images.check(parts, cut)


def test_without_a_folder_scikit_learn_downloads(images, arrays, monkeypatch):
    def fetch_openml(name, *, version, as_frame):
        assert (name, version, as_frame) == (images.openml, 1, False)
        x = np.concatenate([arrays["x_train"], arrays["x_test"]])
        y = np.concatenate([arrays["y_train"], arrays["y_test"]]).astype(str)
        x = x.reshape(len(x), -1).astype(float)
        return Bunch(data=x, target=y.astype(object))

    module = "skconvgp.datasets._images"
    source = getattr(_images, images.source)
    short = replace(source, n_train=SIZES["train"])
    monkeypatch.setattr(f"{module}.fetch_openml", fetch_openml)
    monkeypatch.setattr(f"{module}.{images.source}", short)
    images.check(images.fetch(), arrays)


def test_downloads_are_cut_where_the_test_images_begin():
    assert (_images.MNIST.n_train, _images.CIFAR10.n_train) == (60_000, 50_000)
