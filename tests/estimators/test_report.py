"""What a fit tells: its report, and progress on stderr."""

import dataclasses
import re
import sys

import numpy as np
import pytest

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    KernelFlowsRegressor,
    KernelFlowsWarp,
    NystromCompletedGP,
    PatchGPClassifier,
    gram_matrix,
)
from skconvgp.completion import RandomFeatures
from skconvgp.engine import KernelOracle
from skconvgp.estimators.compute._progress import FitLine, ProgressLine
from skconvgp.exceptions import JitterWarning
from skconvgp.flows import Adam
from skconvgp.flows._batches import Batches
from skconvgp.kernels import rbf
from skconvgp.solvers import Cholesky
from tests.helpers.estimators import digits, tiny_network, wave

LINE = r"{label}: +\d+%, \S+ pairs/s, \d+:\d\d elapsed, \d+:\d\d left"


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
    for part in ("10", "55 pairs in", "cpu", "torch", "float64", "MiB", "jitter 0"):
        assert part in text
    assert len(text.splitlines()) == 5


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
    values |= {"n_pairs": 100, "gram_seconds": 0.5}
    text = str(dataclasses.replace(report, **values))
    assert "1 one\n" in text
    assert "left out two\n" in text
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


def test_verbose_writes_progress_to_stderr(capfd):
    X, y = digits(20)
    gp = ConvNetGPClassifier(tiny_network(), verbose=1).fit(X, y)
    out, err = capfd.readouterr()
    assert out == ""
    last = err.splitlines()[-1]
    assert re.fullmatch(LINE.format(label="fit"), last), last
    assert "100%" in last
    first = r"fit: 210 pairs of samples, 64 pairs of positions each, about 0:\d\d"
    assert re.fullmatch(first, err.splitlines()[0])
    assert "210 pairs, 64 pairs of positions each, in" in str(gp.fit_report_)
    gp.predict(X)
    out, err = capfd.readouterr()
    assert out == ""
    assert re.fullmatch(LINE.format(label="predict"), err.splitlines()[-1])


def test_verbose_gram_matrix_writes_progress_to_stderr(capfd):
    gram_matrix(tiny_network(), digits(10)[0], verbose=1)
    out, err = capfd.readouterr()
    assert out == ""
    assert re.fullmatch(LINE.format(label="gram"), err.splitlines()[-1])


@pytest.mark.parametrize(
    ("completion", "unit"), [(RandomFeatures(20), "samples"), (None, "pairs")]
)
def test_progress_names_what_it_counts(completion, unit, capfd):
    X, y = wave(30)
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=0.1, completion=completion)
    gp.set_params(verbose=1).fit(X, y)
    units = re.findall(r"^fit: .* (\w+)/s", capfd.readouterr().err, re.MULTILINE)
    assert set(units) == {unit}


def test_progress_is_whole_lines_where_there_is_no_terminal(capfd, monkeypatch):
    monkeypatch.setattr("skconvgp.estimators.compute._progress.INTERVAL", 0.0)
    settings = {"memory_budget": "40 KB", "backend": "torch"}  # several blocks
    gram_matrix(tiny_network(), digits(20)[0], verbose=1, **settings)
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) > 2
    assert all(re.fullmatch(LINE.format(label="gram"), line) for line in lines)
    shares = [int(re.search(r"(\d+)%", line)[1]) for line in lines]
    assert shares == sorted(shares)
    assert shares[-1] == 100


def test_progress_of_a_repeated_computation_is_timed_anew(capfd, monkeypatch):
    times = iter([0.0, 1.0, 1.1, 1.2, 1.9, 2.0, 2.1])
    monkeypatch.setattr("time.perf_counter", lambda: next(times))
    line = ProgressLine("fit", 1)
    line(100, 100)
    line(100, 100)  # short, and the first one has been told
    line(50, 100)
    line(75, 100)
    line(100, 100)  # the end of one that was told of
    line(10, 1000)
    assert capfd.readouterr().err.splitlines() == [
        "fit: 100%, 100 pairs/s, 0:01 elapsed, 0:00 left",
        "fit:  75%, 93.8 pairs/s, 0:01 elapsed, 0:00 left",
        "fit: 100%, 111 pairs/s, 0:01 elapsed, 0:00 left",
    ]


def test_a_long_fit_is_told_of_after_its_first_pairs(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    short, long = FitLine("fit", 0), FitLine("fit", 0)
    clock[0] = 60.0  # of tables, which pairs do not take
    long.report(1, 10_000)
    short.report(1, 10_000)
    clock[0] = 61.0
    long.report(2, 10_000)  # too early to say
    clock[0] = 64.0
    short.report(101, 10_000)
    with pytest.warns(UserWarning, match=r"take some 667 minutes .* 2.5 a .*Nystrom"):
        long.report(11, 100_000)
    clock[0] = 69.0
    long.report(21, 100_000)  # once is enough


def test_the_first_line_says_what_a_fit_takes(capfd, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    one, two = FitLine("fit", 1, 4096), FitLine("fit", 1, n_workers=2)
    clock[0] = 10.0  # of tables
    one.report(0, 1000)
    two.report(0, 1000)
    assert not capfd.readouterr().err
    clock[0] = 12.0
    one.report(20, 1000)
    first, second = capfd.readouterr().err.splitlines()
    assert first == (
        "fit: 1000 pairs of samples, 4096 pairs of positions each, about 1:40"
    )
    assert second == "fit:   2%, 10 pairs/s, 0:12 elapsed, 1:38 left"
    two.report(20, 1000)  # the other worker is as far as this one
    assert not capfd.readouterr().err
    clock[0] = 12.1
    two.report(42, 1000)
    first, second = capfd.readouterr().err.splitlines()
    assert first == "fit: 1000 pairs of samples, about 0:50"
    assert second.startswith("fit:   4%")
    clock[0] = 30.0
    two.report(0, 1000)
    two.report(60, 1000)
    (only,) = capfd.readouterr().err.splitlines()
    assert only.startswith("fit:   6%")


def test_a_long_fit_through_landmarks_is_told_to_take_fewer(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    line = FitLine("fit", 0, is_part=True)
    line.report(0, 10_000)
    clock[0] = 10.0
    with pytest.warns(UserWarning, match=r"some 166 minutes .* Fewer landmarks"):
        line.report(10, 10_000)


def test_a_fit_of_several_workers_is_judged_when_all_have_reported(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    line = FitLine("fit", 0, n_workers=4)
    line.report(0, 6000)
    clock[0] = 5.0  # each worker has done one block: all together take 12 minutes
    line.report(10, 6000)  # alone it would take 50
    line.report(20, 6000)
    line.report(30, 6000)
    with pytest.warns(UserWarning, match=r"some 12 minutes"):
        line.report(40, 6000)


def test_a_long_warp_is_told_to_take_fewer_steps(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    draw = Batches.draw

    def draw_slowly(self, size):
        clock[0] += 60.0
        return draw(self, size)

    monkeypatch.setattr(Batches, "draw", draw_slowly)
    X, y = np.linspace(0.0, 6.0, 20)[:, None], np.arange(20) % 2
    with pytest.warns(UserWarning, match=r"some 38 minutes .* 40 flow .* `n_steps`"):
        KernelFlowsWarp(n_steps=40).fit(X, y)


def test_a_long_fit_to_samples_without_pairs_promises_nothing(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    line = FitLine("fit", 0, unit="samples")
    line.report(0, 10_000)
    clock[0] = 10.0
    with pytest.warns(UserWarning, match=r"the 10000 samples, .* 1 a second\.$"):
        line.report(10, 10_000)


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


def test_progress_overwrites_its_line_on_a_terminal(capfd, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    gram_matrix(tiny_network(), digits(10)[0], verbose=1)
    err = capfd.readouterr().err
    assert err.startswith("\r")
    assert err.endswith("\n")


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
