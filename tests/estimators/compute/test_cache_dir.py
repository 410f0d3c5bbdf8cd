"""`cache_dir`: nothing computed is lost when a run is killed."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    KernelFlowsClassifier,
    KernelFlowsRegressor,
    NystromCompletedGP,
    NystromCompletedGPRegressor,
    gram_matrix,
)
from skconvgp.backends import extension_file
from skconvgp.completion import CoarseKernel, Nystrom
from skconvgp.engine import TileCache
from skconvgp.estimators.compute import _kept_tiles
from skconvgp.flows import Adam
from skconvgp.kernels import (
    Dense,
    Elementwise,
    Flatten,
    Sequential,
    convnet,
    rbf,
)

KERNEL = convnet(depth=1, kernel_size=3)
FLOW = {"optimizer": Adam(max_iter=2), "batch_size": 40, "random_state": 0}
PARTS = {"n_landmarks": 60, "random_state": 0}
ESTIMATORS = {
    "classifier": ConvNetGPClassifier(KERNEL),
    "regressor": ConvNetGPRegressor(KERNEL),
    "completion": ConvNetGPRegressor(
        KERNEL, completion=Nystrom(), observed_fraction=0.5, random_state=0
    ),
    "flow classifier": KernelFlowsClassifier(KERNEL, **FLOW),
    "flow regressor": KernelFlowsRegressor(KERNEL, **FLOW),
    "nystrom classifier": NystromCompletedGP(KERNEL, **PARTS),
    "nystrom regressor": NystromCompletedGPRegressor(KERNEL, **PARTS),
}
DIED = 3
NETWORK = """
from skconvgp.kernels import Dense, Elementwise, Flatten, Sequential

class Slope:
    def __call__(self, x):
        return x.tanh()

    def cache_key(self):
        return "tanh", 1

kernel = Sequential(Flatten(), Dense(), Elementwise(Slope()), Dense())
"""
PROGRAM = f"""
import os, sys
import numpy as np
import skconvgp
{NETWORK}
replace, moved = os.replace, []

def die(*paths):  # as if killed, with the fifth block written beside its place
    if len(moved) == 1 + 4:  # about.json comes first
        os._exit({DIED})
    moved.append(paths)
    replace(*paths)

os.replace = die
skconvgp.gram_matrix(kernel, np.load(sys.argv[1]), cache_dir=sys.argv[2])
"""


@pytest.fixture(autouse=True)
def small_matrices(monkeypatch):
    """Let matrices of any size be kept."""
    monkeypatch.setattr("skconvgp.engine._cache.FEWEST_PAIRS", 1)


@pytest.fixture
def images():
    return np.random.default_rng(0).random((90, 8, 8))


@pytest.fixture
def labels():
    return np.arange(90) % 3


def folders(path):
    return sorted(path.iterdir())


def forbid_work(monkeypatch):
    def refuse(*_):
        raise AssertionError("a tile was computed")

    monkeypatch.setattr(TileCache, "keep", refuse)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_second_fit_computes_no_tile(name, images, labels, tmp_path, monkeypatch):
    usual = clone(ESTIMATORS[name]).fit(images, labels)
    gp = clone(ESTIMATORS[name]).set_params(cache_dir=tmp_path)
    expected = gp.fit(images, labels).predict_latent(images[:9])
    assert gp.fit_report_.n_pairs_read == 0
    np.testing.assert_allclose(expected, usual.predict_latent(images[:9]), rtol=1e-4)
    assert len(folders(tmp_path)) == 1
    forbid_work(monkeypatch)
    again = gp.fit(images, labels)
    np.testing.assert_array_equal(again.predict_latent(images[:9]), expected)
    report = again.fit_report_
    n = len(images)
    assert report.n_pairs - n <= report.n_pairs_read <= report.n_pairs
    assert f"{report.n_pairs_read} of them read from `cache_dir`" in str(report)


def test_a_run_that_died_goes_on_where_it_stopped(tmp_path, monkeypatch):
    X = np.random.default_rng(0).random((800, 8, 8))
    path, cache = tmp_path / "X.npy", tmp_path / "cache"
    np.save(path, X)
    command = [sys.executable, "-c", PROGRAM, str(path), str(cache)]
    assert subprocess.run(command, check=False).returncode == DIED
    assert len(list(cache.glob("*/*.tile"))) == 4
    (folder,) = folders(cache)
    assert len(folders(folder)) == 4 + 1 + 1  # what was being written, and about.json
    written, keep = [], TileCache.keep

    def count(self, *block):
        written.append(block)
        keep(self, *block)

    monkeypatch.setattr(TileCache, "keep", count)
    names = {"__name__": "__main__"}  # what is defined there is known elsewhere too
    exec(NETWORK, names)
    K = gram_matrix(names["kernel"], X, cache_dir=cache)
    assert len(written) == len(list(cache.glob("*/*.tile"))) - 4 > 0
    np.testing.assert_allclose(K, gram_matrix(names["kernel"], X), rtol=1e-12)
    assert folders(cache) == [folder]


def test_tiles_of_something_else_are_not_taken(images, tmp_path, monkeypatch):
    def count(kernel=KERNEL, X=images, Y=None, **settings):
        gram_matrix(kernel, X, Y, cache_dir=tmp_path, **settings)
        return len(folders(tmp_path))

    assert count() == count() == 1
    assert count(convnet(depth=1, kernel_size=3, bias_variance=7.0)) == 2
    other = images.copy()
    other[3, 4, 5] += 1e-9
    assert count(X=other) == 3
    assert count(Y=other) == 4
    assert count(X=other, Y=images) == 5
    torch_only = {"backend": "torch", "X": other}
    known = count(dtype="float64", **torch_only)
    assert count(dtype="float32", **torch_only) == known + 1
    assert count(X=images.reshape(90, 64), image_shape=(4, 16)) == known + 2
    monkeypatch.setattr(_kept_tiles, "version", lambda _: "0.0.1")
    assert count() == known + 3
    monkeypatch.setattr(_kept_tiles, "_code_of_package", lambda: "changed")
    assert count() == known + 4


def test_samples_are_the_same_in_any_layout(images, tmp_path):
    gram_matrix(KERNEL, images, cache_dir=tmp_path)
    gram_matrix(KERNEL, np.asfortranarray(images), cache_dir=tmp_path)
    gram_matrix(KERNEL, images.reshape(90, 64), image_shape=(8, 8), cache_dir=tmp_path)
    (folder,) = folders(tmp_path)
    about = json.loads((folder / "about.json").read_text())
    assert about["kernel"] == repr(KERNEL)
    assert about["images"] == [[90, 1, 8, 8]]


def test_images_read_or_pooled_otherwise_are_others(images, labels, tmp_path):
    rows = images.reshape(90, 64)
    kernel = convnet(depth=2, kernel_size=3)
    whole = ConvNetGPRegressor(kernel, image_shape=(8, 8), cache_dir=tmp_path)
    whole.fit(rows, labels)
    clone(whole).set_params(image_shape=(4, 16)).fit(rows, labels)
    clone(whole).set_params(completion=CoarseKernel(depth=None)).fit(rows, labels)
    assert len(folders(tmp_path)) == 3


def test_a_file_is_no_folder(images, labels, tmp_path):
    path = tmp_path / "file"
    path.write_text("")
    with pytest.raises(ValueError, match="`cache_dir` must be a folder"):
        gram_matrix(KERNEL, images, cache_dir=path)
    with pytest.raises(ValueError, match="`cache_dir` must be a folder"):
        ConvNetGPClassifier(KERNEL, cache_dir=path).fit(images, labels)


class PathLike:
    """A path of bytes, or of nothing."""

    def __init__(self, name):
        self.name = name

    def __fspath__(self):
        return self.name


@pytest.mark.parametrize("wrong", ["~nobody-of-this-name/x", "a\0b"])
def test_a_path_that_leads_nowhere_is_no_folder(wrong, images):
    with pytest.raises(ValueError, match="`cache_dir` must be a folder"):
        gram_matrix(KERNEL, images, cache_dir=wrong)


@pytest.mark.parametrize("wrong", [5, "", b"x", True, PathLike(b"x"), PathLike("")])
def test_other_settings_are_refused(wrong, images, labels):
    with pytest.raises(ValueError, match="'cache_dir' parameter"):
        ConvNetGPRegressor(KERNEL, cache_dir=wrong).fit(images, labels)
    with pytest.raises(ValueError, match="'cache_dir' parameter"):
        gram_matrix(KERNEL, images, cache_dir=wrong)


class Slope:
    """An activation of a third party, with its key."""

    def __init__(self, factor):
        self.factor = factor

    def __call__(self, x):
        return (self.factor * x).tanh()

    def cache_key(self):
        return "version 1", self.factor


def elementwise(function):
    return Sequential(Flatten(), Dense(), Elementwise(function), Dense())


def test_an_object_with_another_key_is_another_one(images, tmp_path):
    def gram(function):
        return gram_matrix(elementwise(function), images, cache_dir=tmp_path)

    first = gram(Slope(1.0))
    np.testing.assert_array_equal(gram(Slope(1.0)), first)
    assert len(folders(tmp_path)) == 1
    assert abs(gram(Slope(5.0)) - first).max() > 0.01 * first.max()
    gram(torch.tanh)
    assert len(folders(tmp_path)) == 3


@pytest.mark.parametrize("library", ["skconvgp", "torch", "numpy"])
def test_another_version_of_what_computes_begins_anew(
    library, images, tmp_path, monkeypatch
):
    gram_matrix(KERNEL, images, cache_dir=tmp_path)
    known = _kept_tiles.version

    def version(name):
        return "0.0.1" if name == library else known(name)

    monkeypatch.setattr(_kept_tiles, "version", version)
    gram_matrix(KERNEL, images, cache_dir=tmp_path)
    assert len(folders(tmp_path)) == 2


def test_the_extension_that_is_loaded_is_part_of_the_code(tmp_path, monkeypatch):
    code = _kept_tiles._code_of_package.__wrapped__
    assert extension_file() is None or extension_file().suffix in {".so", ".pyd"}
    library, digests = tmp_path / "_native.so", [code()]
    monkeypatch.setattr(_kept_tiles, "extension_file", lambda: library)
    for content in (b"one", b"other"):
        library.write_bytes(content)
        digests.append(code())
    assert len(set(digests)) == 3


def tanh(x):
    return x.tanh()


def test_a_kernel_that_cannot_be_told_from_others_is_not_kept(
    images, labels, tmp_path, monkeypatch
):
    forbid_work(monkeypatch)
    kernel = elementwise(tanh)
    told = r"No tiles are kept.*Elementwise.*uses <function tanh.*`cache_key\(\)`"
    gp = ConvNetGPRegressor(kernel, cache_dir=tmp_path)
    with pytest.warns(UserWarning, match=told) as caught:
        gp.fit(images, labels)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert gp.fit_report_.n_pairs_read == 0
    with pytest.warns(UserWarning, match=told):
        K = gram_matrix(kernel, images, cache_dir=tmp_path)
    np.testing.assert_array_equal(K, gram_matrix(kernel, images))
    assert not folders(tmp_path)


def refuse_to_write(monkeypatch, number, n_files=0):
    """Let nothing be written after some files, with this error."""
    left, replace = [n_files], os.replace

    def refuse(*paths):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(number, os.strerror(number))
        replace(*paths)

    monkeypatch.setattr(os, "replace", refuse)


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_a_complete_cache_is_read_where_nothing_can_be_written(
    number, images, labels, tmp_path, monkeypatch
):
    gp = ConvNetGPRegressor(elementwise(Slope(1.0)), cache_dir=tmp_path).fit(
        images, labels
    )
    refuse_to_write(monkeypatch, number)
    again = clone(gp).fit(images, labels)  # no warning: they are errors here
    report = again.fit_report_
    assert report.n_pairs_read >= report.n_pairs - len(images)
    np.testing.assert_array_equal(again.predict(images[:9]), gp.predict(images[:9]))


@pytest.mark.parametrize("n_files", [0, 1, 4])
def test_a_full_disk_is_a_warning_that_names_folder_and_file(
    n_files, images, labels, tmp_path, monkeypatch
):
    refuse_to_write(monkeypatch, errno.ENOSPC, n_files)
    gp = ConvNetGPRegressor(KERNEL, cache_dir=tmp_path)
    with pytest.warns(UserWarning, match="no longer kept in `cache_dir`") as caught:
        gp.fit(images, labels)
    (warning,) = caught
    (folder,) = folders(tmp_path)
    file = "about.json" if n_files == 0 else "gram-"
    assert str(folder / file) in str(warning.message)
    assert "No space left on device" in str(warning.message)
    assert warning.filename == __file__
    assert len(folders(folder)) == n_files
    usual = clone(gp).set_params(cache_dir=None).fit(images, labels)
    np.testing.assert_allclose(gp.predict(images[:9]), usual.predict(images[:9]))


def test_a_folder_in_the_place_of_a_tile_is_a_warning(images, tmp_path):
    expected = gram_matrix(KERNEL, images, cache_dir=tmp_path)
    (folder,) = folders(tmp_path)
    place = min(folder.glob("gram-*"))
    place.unlink()
    place.mkdir()
    with pytest.warns(UserWarning, match=r"because a folder has its name") as caught:
        K = gram_matrix(KERNEL, images, cache_dir=tmp_path)
    (warning,) = caught
    assert repr(str(place)) in str(warning.message)
    np.testing.assert_array_equal(K, expected)


def test_a_folder_where_none_can_be_made_is_a_warning(images, tmp_path, monkeypatch):
    expected = gram_matrix(KERNEL, images)
    mkdir = Path.mkdir

    def refuse(path, *args, **settings):
        if path.parent == tmp_path:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        mkdir(path, *args, **settings)

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.warns(UserWarning, match=r"no longer kept.*Permission denied\. The"):
        K = gram_matrix(KERNEL, images, cache_dir=tmp_path)
    np.testing.assert_allclose(K, expected, rtol=1e-12)


def test_a_precomputed_matrix_needs_none(images, labels, tmp_path):
    K = gram_matrix(rbf(1.0), images.reshape(90, 64))
    ConvNetGPRegressor("precomputed", cache_dir=tmp_path).fit(K, labels)
    assert not folders(tmp_path)
