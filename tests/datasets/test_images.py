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

    def check(self, arrays, **settings):
        """Fail unless the images and labels of both parts are those of the arrays."""
        for part in ("train", "test"):
            bunch = self.fetch(subset=part, **settings)
            assert bunch.target.dtype == np.int64
            np.testing.assert_array_equal(bunch.target, arrays[f"y_{part}"])
            assert bunch.data.dtype == np.float32
            assert bunch.data.shape[1:] == self.shape
            back = bunch.data.reshape(-1, *self.stored) * 255.0
            np.testing.assert_allclose(back, arrays[f"x_{part}"], atol=1e-4)


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
    images.check(arrays, data_home=folder)
    images.check(arrays, data_home=str(folder))


def test_images_from_the_folder_of_the_variable(images, folder, arrays, monkeypatch):
    monkeypatch.setenv("SKCONVGP_DATA", str(folder))
    images.check(arrays)


def test_folder_wins_over_the_variable(images, folder, arrays, monkeypatch, tmp_path):
    monkeypatch.setenv("SKCONVGP_DATA", str(tmp_path / "elsewhere"))
    images.check(arrays, data_home=folder)


def test_parts_are_those_for_training_then_those_for_tests(images, folder):
    X, y = images.fetch(data_home=folder, return_X_y=True)
    X_test, y_test = images.fetch(subset="test", data_home=folder, return_X_y=True)
    bunch = images.fetch(subset="all", data_home=folder)
    np.testing.assert_array_equal(bunch.data, np.concatenate([X, X_test]))
    np.testing.assert_array_equal(bunch.target, np.concatenate([y, y_test]))
    assert str(images.shape[1]) in bunch.DESCR


def test_unknown_part_is_refused(images, folder):
    with pytest.raises(ValueError, match=r"`subset` must be one of 'train', .*'valid'"):
        images.fetch(subset="valid", data_home=folder)


@pytest.mark.parametrize("where", ["data_home", "SKCONVGP_DATA"])
def test_missing_file_is_named_with_the_remedy(images, where, tmp_path, monkeypatch):
    settings = {"data_home": tmp_path} if where == "data_home" else {}
    monkeypatch.setenv("SKCONVGP_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=images.file) as caught:
        images.fetch(**settings)
    assert str(tmp_path) in str(caught.value)
    assert "OpenML" in str(caught.value)


def test_only_the_first_images_are_kept(images, folder, arrays):
    cut = {name: values[:3] for name, values in arrays.items()}
    images.check(cut, n_samples=3, data_home=folder)


@pytest.mark.parametrize("stored", ["rows", "channels first"])
def test_other_shapes_of_an_image_are_read_alike(images, stored, arrays, tmp_path):
    shape = (-1,) if stored == "rows" else images.shape
    reshaped = {
        name: values.reshape(len(values), *shape) if name[0] == "x" else values
        for name, values in arrays.items()
    }
    np.savez(tmp_path / images.file, **reshaped)
    images.check(arrays, data_home=tmp_path)


def without(name):
    return lambda arrays: arrays.pop(name)


def with_array(name, make):
    return lambda arrays: arrays.update({name: make(arrays[name])})


BAD_FILES = {
    "channels last": (
        with_array("x_test", lambda x: np.zeros((5, 28, 28, 3), np.uint8)),
        r"'x_test' must be of shape \(n, .*got \(5, 28, 28, 3\)\. Channels come before",
    ),
    "fewer labels": (
        with_array("y_test", lambda y: y[:-1]),
        r"'y_test' must be of shape \(n,\).*got \(4,\) and \(5, ",
    ),
    "column of labels": (
        with_array("y_test", lambda y: y[:, None]),
        r"'y_test' must be of shape \(n,\).*got \(5, 1\)",
    ),
    "labels that are no integers": (
        with_array("y_test", lambda y: y + 0.5),
        "'y_test' must be integers, got float64",
    ),
    "pixels up to 1": (
        with_array("x_test", lambda x: x / x.max()),
        r"'x_test' must be bytes \(uint8\) from 0 to 255, got float64 from 0.0 to 1.0",
    ),
    "bytes up to 1": (
        with_array("x_test", lambda x: x // x.max()),
        r"'x_test' must be bytes \(uint8\) from 0 to 255, got uint8 from 0 to 1",
    ),
    "no images": (without("x_test"), "no array 'x_test'.*holds 'x_train', 'y_train'"),
    "no labels": (without("y_test"), "no array 'y_test'"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_file_with_other_arrays_is_refused(images, case, arrays, tmp_path):
    spoil, message = BAD_FILES[case]
    spoil(arrays)
    np.savez(tmp_path / images.file, **arrays)
    with pytest.raises(ValueError, match=message) as caught:
        images.fetch(subset="test", data_home=tmp_path)
    assert str(tmp_path / images.file) in str(caught.value)
    images.fetch(data_home=tmp_path)  # the other part is as it should be


DAMAGED = {
    "empty": lambda whole: b"",
    "no archive": lambda whole: b"<!DOCTYPE html>",
    "half an archive": lambda whole: whole[: len(whole) // 2],
    "other bytes": lambda whole: whole[:200] + bytes(200) + whole[400:],
}


def refusal(images, folder):
    """Return what is said of a file that cannot be read."""
    with pytest.raises(ValueError, match=r"empty, damaged or .*: download") as caught:
        images.fetch(data_home=folder)
    return str(caught.value)


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_file_is_named_with_the_remedy(images, case, folder):
    path = folder / images.file
    path.write_bytes(DAMAGED[case](path.read_bytes()))
    assert str(path) in refusal(images, folder)


def test_a_file_of_other_contents_is_named(images, arrays, folder):
    with (folder / images.file).open("wb") as file:
        np.save(file, arrays["x_train"])
    assert "a single array" in refusal(images, folder)
    np.savez(folder / images.file, **arrays | {"x_train": np.array([None])})
    assert "Object arrays" in refusal(images, folder)


@pytest.mark.parametrize("n_samples", [-1, 0, 2.5, True, "3"])
def test_a_number_of_images_is_a_whole_number(images, n_samples, tmp_path):
    message = rf"`n_samples` must be None or an int >= 1, got {n_samples!r}"
    with pytest.raises(ValueError, match=message):  # before the folder is looked into
        images.fetch(n_samples=n_samples, data_home=tmp_path)


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
    images.check(arrays)


def test_downloads_are_cut_where_the_test_images_begin():
    assert (_images.MNIST.n_train, _images.CIFAR10.n_train) == (60_000, 50_000)
