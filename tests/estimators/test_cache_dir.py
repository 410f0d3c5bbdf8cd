"""`cache_dir`: nothing computed is lost when a run is killed."""

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
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
from skconvgp.completion import CoarseKernel, Nystrom
from skconvgp.engine import TileCache
from skconvgp.estimators import _kept_tiles
from skconvgp.flows import Adam
from skconvgp.kernels import (
    Conv2d,
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
PROGRAM = """
import sys
import numpy as np
import skconvgp
from skconvgp.kernels import convnet
X = np.load(sys.argv[1])
skconvgp.gram_matrix(convnet(), X, cache_dir=sys.argv[2], backend="torch")
"""


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
    monkeypatch.setattr("skconvgp.engine._cache.FEWEST_PAIRS", 1)
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
    assert report.n_pairs_read >= report.n_pairs - len(images)  # but the diagonal
    assert f"{report.n_pairs_read} of them read from `cache_dir`" in str(report)


def test_a_killed_run_goes_on_where_it_stopped(tmp_path, monkeypatch):
    X = np.random.default_rng(0).random((300, 28, 28))
    path, cache = tmp_path / "X.npy", tmp_path / "cache"
    np.save(path, X)
    command = [sys.executable, "-c", PROGRAM, str(path), str(cache)]
    with subprocess.Popen(command) as process:
        while process.poll() is None and len(list(cache.glob("*/*.tile"))) < 4:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    kept = len(list(cache.glob("*/*.tile")))
    written, keep = [], TileCache.keep

    def count(self, *block):
        written.append(block)
        keep(self, *block)

    monkeypatch.setattr(TileCache, "keep", count)
    K = gram_matrix(convnet(), X, cache_dir=cache, backend="torch")
    n_tiles = len(list(cache.glob("*/*.tile")))
    assert kept >= 4
    assert len(written) == n_tiles - kept
    expected = gram_matrix(convnet(), X, backend="torch")
    np.testing.assert_allclose(K, expected, rtol=1e-12)


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
    assert count(dtype="float64", backend="torch") == 6
    assert count(X=images.reshape(90, 64), image_shape=(4, 16)) == 7
    monkeypatch.setattr(_kept_tiles, "version", lambda _: "0.0.1")
    assert count() == 8


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


@pytest.mark.parametrize("wrong", [5, "", b"x", True])
def test_other_settings_are_refused(wrong, images, labels):
    with pytest.raises(ValueError, match="'cache_dir' parameter"):
        ConvNetGPRegressor(KERNEL, cache_dir=wrong).fit(images, labels)
    with pytest.raises(ValueError, match="'cache_dir' parameter"):
        gram_matrix(KERNEL, images, cache_dir=wrong)


def test_a_kernel_without_a_name_is_refused_before_work(images, labels, tmp_path):
    kernel = Sequential(Conv2d(3), Elementwise(lambda x: x.tanh()), Flatten(), Dense())
    gp = ConvNetGPRegressor(kernel, optimizer="evidence", cache_dir=tmp_path)
    with pytest.raises(ValueError, match="can be pickled"):
        gp.fit(images, labels)


def test_a_precomputed_matrix_needs_none(images, labels, tmp_path):
    K = gram_matrix(rbf(), images.reshape(90, 64))
    ConvNetGPRegressor("precomputed", cache_dir=tmp_path).fit(K, labels)
    assert not folders(tmp_path)
