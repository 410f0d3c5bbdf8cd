"""What a fit tells: its report, and progress on stderr."""

import dataclasses
import sys

import numpy as np
import pytest

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    KernelFlowsRegressor,
    NystromCompletedGP,
    PatchGPClassifier,
    gram_matrix,
)
from skconvgp.completion import RandomFeatures
from skconvgp.engine import KernelOracle
from skconvgp.exceptions import JitterWarning
from skconvgp.flows import Adam
from skconvgp.kernels import rbf
from skconvgp.solvers import Cholesky
from tests.helpers.estimators import digits, tiny_network, wave


def test_report_holds_what_was_done():
    X, y = digits(20)
    settings = {"device": "cpu", "backend": "torch", "dtype": "float32"}
    gp = ConvNetGPClassifier(tiny_network(), **settings).fit(X, y)
    report = gp.fit_report_
    assert report.n_samples == 20
    assert report.n_pairs == 210
    assert report.gram_seconds > 0.0
    assert report.solve_seconds > 0.0
    assert (report.backend, report.device, report.dtype) == ("torch", "cpu", "float32")
    assert report.jitter == 0.0
    assert report.peak_memory > 2**20


class LazyDevice:
    """Puts seconds of work in a queue; a clock sees those that were waited for."""

    def __init__(self):
        self.queued = self.done = 0.0

    def give(self, seconds, compute):
        def later(*args):
            self.queued += seconds
            return compute(*args)

        return later

    def wait_for(self, device):
        self.done, self.queued = self.done + self.queued, 0.0

    def perf_counter(self):
        return self.done


def test_times_are_those_of_the_device_and_not_of_its_queue(monkeypatch):
    lazy = LazyDevice()
    base = "skconvgp.processes._run"
    monkeypatch.setattr(f"{base}.time", lazy)
    monkeypatch.setattr(f"{base}.wait_for", lazy.wait_for)
    monkeypatch.setattr(KernelOracle, "gram", lazy.give(5.0, KernelOracle.gram))
    monkeypatch.setattr(Cholesky, "init", lazy.give(3.0, Cholesky.init))
    report = ConvNetGPRegressor(rbf(1.0), device="cpu").fit(*wave(5)).fit_report_
    assert (report.gram_seconds, report.solve_seconds) == (5.0, 3.0)


def test_report_is_printed_as_text():
    gp = ConvNetGPRegressor(rbf(1.0), device="cpu", backend="torch").fit(*wave(10))
    text = str(gp.fit_report_)
    for part in (
        "10",
        "55 pairs in",
        "cpu",
        "torch",
        "float64",
        "MiB",
        "jitter 0",
        "times",
    ):
        assert part in text
    assert len(text.splitlines()) == 6


@pytest.mark.parametrize(
    ("n_read", "told"),
    [
        (0, "100 pairs in 0.50 s (200 pairs/s)"),
        (75, "100 pairs in 0.50 s (50 pairs/s), 75 of them read from `cache_dir`"),
        (100, "100 pairs in 0.50 s, 100 of them read from `cache_dir`"),
    ],
)
def test_speed_is_that_of_pairs_that_were_computed(n_read, told):
    report = ConvNetGPRegressor(rbf(1.0)).fit(*wave(5)).fit_report_
    told = f"Gram         {told}"
    values = {"n_pairs": 100, "n_pairs_read": n_read, "gram_seconds": 0.5}
    assert str(dataclasses.replace(report, **values)).splitlines()[1] == told


def test_report_of_parts_names_those_left_out_and_no_speed():
    report = ConvNetGPRegressor(rbf(1.0)).fit(*wave(5)).fit_report_
    values = {"part_weights": (1.0, 0.0), "part_names": ("one", "two")}
    values["part_costs"] = (0.25, 3.0)
    values |= {"n_pairs": 100, "gram_seconds": 0.5}
    text = str(dataclasses.replace(report, **values))
    assert "1.00 one (0.25 ms)\n" in text
    assert "left out: two\n" in text
    assert "Gram         100 pairs of samples, of each part, in 0.50 s\n" in text


def test_report_is_read_only():
    gp = ConvNetGPRegressor(rbf(1.0)).fit(*wave(5))
    with pytest.raises(dataclasses.FrozenInstanceError):
        gp.fit_report_.jitter = 1.0


@pytest.mark.filterwarnings("ignore:All .* training samples are equal")
def test_report_names_the_jitter():
    X = np.zeros((6, 1))
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=0.0)
    with pytest.warns(JitterWarning, match="Raise `noise_variance`"):
        gp.fit(X, np.arange(6.0))
    assert 0.0 < gp.fit_report_.jitter <= 1e-4
    assert f"jitter {gp.fit_report_.jitter:.3g}" in str(gp.fit_report_)


def test_peak_memory_is_zero_where_the_system_does_not_tell(monkeypatch):
    monkeypatch.setitem(sys.modules, "resource", None)
    assert ConvNetGPRegressor(rbf(1.0)).fit(*wave(5)).fit_report_.peak_memory == 0


def test_report_of_a_precomputed_matrix_names_no_backend_of_tiles():
    X, y = wave(8)
    gp = ConvNetGPRegressor("precomputed").fit(gram_matrix(rbf(1.0), X), y)
    assert gp.backend_ == gp.fit_report_.backend == "precomputed"


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_nothing_is_written_by_default(capfd, n_jobs):
    X, y = digits(20)
    gp = ConvNetGPClassifier(tiny_network(), n_jobs=n_jobs).fit(X, y)
    gp.predict_proba(X)
    gp.sample_y(X)
    gram_matrix(tiny_network(), X)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("estimator", "n_position_pairs"),
    [
        (ConvNetGPClassifier(tiny_network()), 64),
        (NystromCompletedGP(tiny_network(), n_landmarks=5, random_state=0), 64),
        (ConvNetGPClassifier(tiny_network(), completion=RandomFeatures(50)), 0),
        (PatchGPClassifier(n_inducing=5, random_state=0), 0),
    ],
    ids=["exact", "landmarks", "features", "patches"],
)
def test_pairs_of_positions_are_those_of_pairs_of_samples(estimator, n_position_pairs):
    report = estimator.fit(*digits(20)).fit_report_
    assert report.n_position_pairs == n_position_pairs


def test_default_kernel_for_images_is_told_on_tables():
    X, y = wave(20)
    table = np.column_stack([X, np.cos(X)])
    images = np.random.default_rng(0).normal(size=(20, 1, 4, 4))
    report = ConvNetGPRegressor().fit(table, y).fit_report_
    assert "convnet(), is for images, and rows were read as vectors" in str(report)
    for gp, samples in (
        (ConvNetGPRegressor(), images),
        (ConvNetGPRegressor(rbf(1.0)), table),
        (ConvNetGPRegressor("precomputed"), gram_matrix(rbf(1.0), table)),
        (KernelFlowsRegressor(optimizer=Adam(max_iter=1)), table),
    ):
        told = gp.fit(samples, y).fit_report_
        assert told.kernel_reason == ""
        assert "for images" not in str(told)
