"""How far a call is: its line on stderr, and warnings of fits that take long."""

import re

import numpy as np
import pytest
import torch

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    ImageClassifier,
    KernelEnsembleClassifier,
    KernelFlowsClassifier,
    KernelFlowsWarp,
    PatchGPClassifier,
    gram_matrix,
)
from skconvgp._ambient import ordinary_state
from skconvgp.completion import RandomFeatures
from skconvgp.estimators.compute import _bar
from skconvgp.estimators.compute._progress import progress_of
from skconvgp.flows import LBFGS, Adam
from skconvgp.flows._batches import Batches
from skconvgp.kernels import rbf
from skconvgp.processes import COVARIANCES, FEATURES, FLOPS, NOISE, SOLVING, Stage
from tests.helpers.estimators import blobs, digits, tiny_network, wave
from tests.helpers.lines import show_all

LINE = re.compile(
    r"(\w+): +(\d+)%, \d+:\d\d elapsed(?:, about \d+:\d\d left)?"
    r"(?:, (\d+)% of pairs read from cache_dir)?(?:: (.+))?"
)


class Clock:
    """A clock that tests set."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    """Return the clock by which calls are timed; algebra does 1e9 a second."""
    clock = Clock()
    monkeypatch.setattr("time.perf_counter", clock)
    monkeypatch.setattr(_bar, "speed_of_products", lambda *_: (1e9, 1.0))
    return clock


@pytest.fixture
def every_line(monkeypatch):
    """Write a line whenever there is something to tell."""
    show_all(monkeypatch)


def lines_of(capfd):
    """Return name, share, share that was read and stage of each line."""
    out, err = capfd.readouterr()
    assert out == ""
    lines = [line for line in err.splitlines() if ": parts, " not in line]
    found = [LINE.fullmatch(line) for line in lines]
    assert all(found), err
    return [
        (one[1], int(one[2]), one[3] and int(one[3]), one[4] or "") for one in found
    ]


def assert_honest(lines, name="fit"):
    """Check that shares only grow, and that the last line alone is the whole."""
    shares = [share for _, share, _, _ in lines]
    assert {one for one, *_ in lines} == {name}
    assert shares == sorted(shares)
    assert shares[-1] == 100
    assert 100 not in shares[:-1]


def test_one_line_tells_of_all_stages(clock, capfd):
    with ordinary_state("fit"):
        progress = progress_of(1)
        progress.expect(Stage(COVARIANCES, 100), Stage(SOLVING, 1e10, FLOPS))
        count = progress(COVARIANCES)
        count(0, 100)
        assert not capfd.readouterr().err  # how long it will take is not known
        for done in 50, 100:
            clock.now += 10.0
            count(done, 100)
        progress.enter(SOLVING)
        clock.now += 15.0  # longer than was estimated
    assert capfd.readouterr().err.splitlines() == [
        "fit:  33%, 0:10 elapsed, about 0:20 left: covariances, 50 of 100 pairs, 5/s",
        "fit:  66%, 0:20 elapsed, about 0:10 left: covariances, 100 of 100 pairs, 5/s",
        "fit:  66%, 0:20 elapsed, about 0:10 left: solving",
        "fit: 100%, 0:35 elapsed",
    ]


def test_what_comes_unexpected_does_not_take_the_line_back(clock, every_line, capfd):
    with ordinary_state("predict"):
        progress = progress_of(1)
        for name in "first", "second", "third":
            count = progress(name)
            for done in range(11):
                count(done, 10)
                clock.now += 1.0
    lines = lines_of(capfd)
    assert_honest(lines, "predict")
    assert [name.split(",")[0] for *_, name in lines] == [
        *["first"] * 10,
        *["second"] * 10,
        *["third"] * 10,
        "",
    ]


@pytest.mark.parametrize("n_read", [35, 100])
def test_what_was_read_is_told_and_counted_as_done(n_read, clock, every_line, capfd):
    with ordinary_state("gram_matrix"):
        count = progress_of(1)(COVARIANCES)
        for done in range(n_read, 101, 13):
            count(done, 100)
            clock.now += 1.0
    lines = lines_of(capfd)
    assert_honest(lines, "gram_matrix")
    assert {read for _, _, read, _ in lines} == {n_read}
    if n_read < 100:
        assert [share for _, share, _, _ in lines] == [48, 61, 74, 87, 99, 100]


def test_later_stages_take_as_long_as_those_before(clock, every_line, capfd):
    names = [f"part {i}" for i in range(4)]
    with ordinary_state("fit"):
        progress = progress_of(1)
        progress.expect(*(Stage(name, 1.0, "parts") for name in names))
        for name in names:
            with progress.inside(name):
                progress.enter(NOISE)
                clock.now += 1.0
    lines = lines_of(capfd)
    assert_honest(lines)
    assert [name for *_, name in lines[1::2]] == [f"part {i}, noise" for i in range(4)]
    assert [share for _, share, _, _ in lines[2:8:2]] == [25, 50, 75]


def test_parts_of_parts_end_no_stage(clock, every_line, capfd):
    with ordinary_state("fit"):
        progress = progress_of(1)
        progress.expect(Stage("outer", 1.0, "models"), Stage("next", 1.0, "models"))
        with progress.inside("outer"):
            with progress.inside("first"):
                progress.enter(NOISE)
            with progress.inside("second"):
                clock.now += 1.0
        progress.enter("next")
        clock.now += 1.0
    lines = lines_of(capfd)
    names = ["outer", "outer, first", "outer, noise", "outer, second", "next", ""]
    assert [name for *_, name in lines] == names
    assert lines[-2][1] == 50


def test_stages_that_were_skipped_take_no_time(clock, every_line, capfd):
    with ordinary_state("fit"):
        progress = progress_of(1)
        progress.expect(
            *(Stage(name, 1e9, FLOPS) for name in (NOISE, "weights", SOLVING))
        )
        progress.enter(NOISE)
        clock.now += 1.0
        progress.enter(SOLVING)
        clock.now += 1.0
    assert [share for _, share, _, _ in lines_of(capfd)] == [0, 50, 100]


def test_what_a_stage_counts_decides_how_long_it_takes(clock, every_line, capfd):
    with ordinary_state("fit"):
        progress = progress_of(1)
        progress.expect(Stage("search", 100), Stage(COVARIANCES, 100))
        progress.enter("search")
        clock.now += 10.0  # those of the search, at 10 a second
        count = progress(COVARIANCES)
        count(0, 100)
        clock.now += 1.0
        count(50, 100)
    *_, (_, share, _, _), _ = lines_of(capfd)
    assert share == 91  # 11 of 12 seconds


def test_passes_over_the_same_pairs_are_counted(clock, every_line, capfd):
    with ordinary_state("fit"):
        progress = progress_of(1)
        progress.expect(Stage(COVARIANCES, 10), Stage(SOLVING, 20))
        count = progress(COVARIANCES)
        for _ in range(3):
            count(0, 10)
            clock.now += 1.0
            count(10, 10)
    lines = lines_of(capfd)
    assert_honest(lines)
    assert [name for *_, name in lines[1:3]] == [
        f"covariances, pass {i}, 10 of 10 pairs, 10/s" for i in (2, 3)
    ]
    assert lines[0][1] == 33


def test_lines_become_rarer(clock, capfd):
    with ordinary_state("fit"):
        count = progress_of(1)(COVARIANCES)
        for done in range(10_001):
            count(done, 10_000)
            clock.now += 1.0
    assert 50 < len(lines_of(capfd)) < 200


def test_a_terminal_has_one_line(clock, monkeypatch, capfd):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    with ordinary_state("fit"):
        count = progress_of(1)(COVARIANCES)
        for done in range(3):
            count(done, 2)
            clock.now += 1.0
    first, *lines = re.split("\r\x1b\\[2K", capfd.readouterr().err)
    assert first == ""
    assert lines == [
        "fit:  50%, 0:01 elapsed, about 0:01 lef",
        "fit:  99%, 0:02 elapsed, about 0:00 lef",
        "fit: 100%, 0:03 elapsed\n",
    ]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_call_that_fails_does_not_end_at_the_whole(
    is_terminal, clock, every_line, monkeypatch, capfd
):
    monkeypatch.setattr("sys.stderr.isatty", lambda: is_terminal)

    def fail():
        with ordinary_state("fit"):
            count = progress_of(1)(COVARIANCES)
            count(0, 10)
            clock.now += 1.0
            count(1, 10)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    err = capfd.readouterr().err
    assert "100%" not in err
    assert err.endswith("\n")


def test_a_call_inside_of_another_is_a_part_of_it(clock, every_line, capfd):
    with ordinary_state("fit"):
        progress_of(1).enter(NOISE)
        with ordinary_state("gram_matrix"):
            progress_of(1)(COVARIANCES)(0, 10)
        clock.now += 1.0
    assert_honest(lines_of(capfd))
    with ordinary_state("score"), ordinary_state("predict"):
        progress_of(1).enter(COVARIANCES)
    assert_honest(lines_of(capfd), "predict")


def test_a_call_without_stages_has_no_line(capfd):
    with ordinary_state("fit"):
        progress_of(1).expect(Stage(COVARIANCES, 10))
    assert capfd.readouterr() == ("", "")


def test_algebra_is_timed():
    amount, seconds = _bar.speed_of_products(torch.float64, torch.device("cpu"))
    assert amount == 2 * 512**3
    assert seconds > 0.0


def test_lines_of_a_fit_and_of_predictions(every_line, capfd):
    X, y = digits(20)
    gp = ConvNetGPClassifier(tiny_network(), noise_variance="loo", verbose=1).fit(X, y)
    lines = lines_of(capfd)
    assert_honest(lines)
    pairs = r"covariances, 210 of 210 pairs, \S+/s of 64 pairs of positions"
    first, *others = (name for *_, name in lines[:-1])
    assert re.fullmatch(pairs, first)
    assert others == [NOISE, SOLVING, "calibration"]
    gp.predict(X)
    assert_honest(lines_of(capfd), "predict")
    gp.predict_proba(X)
    assert_honest(lines_of(capfd), "predict_proba")


def test_lines_of_a_matrix(every_line, capfd):
    settings = {"memory_budget": "40 KB", "backend": "torch"}  # several blocks
    gram_matrix(tiny_network(), digits(20)[0], verbose=1, **settings)
    lines = lines_of(capfd)
    assert len(lines) > 2
    assert_honest(lines, "gram_matrix")


def test_a_matrix_that_was_interrupted_goes_on_where_it_was(
    every_line, monkeypatch, tmp_path, capfd
):
    monkeypatch.setattr("skconvgp.engine._cache.FEWEST_PAIRS", 0)
    monkeypatch.setattr("skconvgp.engine._cache.FILES", 8)
    X, _ = digits(100)
    settings = {"cache_dir": tmp_path, "verbose": 1, "backend": "torch"}
    gram_matrix(rbf(1.0), X, **settings)
    lines = lines_of(capfd)
    assert_honest(lines, "gram_matrix")
    assert {read for _, _, read, _ in lines} == {None}
    tiles = sorted(tmp_path.rglob("*.tile"))
    assert len(tiles) > 4
    for tile in tiles[: len(tiles) // 2]:
        tile.unlink()
    gram_matrix(rbf(1.0), X, **settings)
    lines = lines_of(capfd)
    assert_honest(lines, "gram_matrix")
    (read,) = {read for _, _, read, _ in lines}
    assert 10 < read < 90
    gram_matrix(rbf(1.0), X, **settings)
    assert {read for _, _, read, _ in lines_of(capfd)} == {100}


def test_lines_of_parts_name_them(every_line, capfd):
    X, y = digits(40)
    gp = ImageClassifier([tiny_network(), rbf(1.0)], verbose=1, flips="auto").fit(X, y)
    lines = lines_of(capfd)
    assert_honest(lines)
    names = [name for *_, name in lines]
    found = list(dict.fromkeys(name.split(",")[0] for name in names if name))
    assert [name[:12] for name in found[:2]] == ["part 1 of 2:", "part 2 of 2:"]
    assert found[2:] == ["weights", NOISE, SOLVING, "calibration"]
    gp.predict(X[:4])
    assert_honest(lines_of(capfd), "predict")


def test_lines_of_patches_alone_begin_with_mirror_images(every_line, capfd):
    X, y = digits(40)
    ImageClassifier("patches", verbose=1, random_state=0).fit(X, y)
    lines = lines_of(capfd)
    assert_honest(lines)
    found = dict.fromkeys(name.split(",")[0] for *_, name in lines[:-1])
    expected = ["mirror images", FEATURES, NOISE, SOLVING, "calibration"]
    assert list(found) == expected


@pytest.mark.parametrize(
    ("estimator", "then"),
    [
        (KernelFlowsClassifier(rbf(1.0), optimizer=Adam(max_iter=3)), COVARIANCES),
        (ConvNetGPClassifier(rbf(1.0), optimizer=LBFGS(max_iter=3)), COVARIANCES),
        (PatchGPClassifier(n_inducing=4, optimizer=Adam(max_iter=3)), FEATURES),
    ],
)
def test_a_search_leaves_time_for_the_fit(
    estimator, then, every_line, monkeypatch, capfd
):
    expected, expect = [], _bar.Bar.expect

    def record(bar, stages):
        expected.append(stages)
        expect(bar, stages)

    monkeypatch.setattr(_bar.Bar, "expect", record)
    X, y = digits(40)
    estimator.set_params(verbose=1, random_state=0).fit(X, y)
    assert_honest(lines_of(capfd))
    (search, of_fit, *others), *_ = [
        stages for stages in expected if stages[0].name == "search"
    ]
    assert (of_fit.name, search.unit) == (then, of_fit.unit)
    assert search.amount > 0.0
    assert of_fit.amount > 0.0
    assert [stage.name for stage in others] == [NOISE, SOLVING]
    assert expected[-1][0].name == then


def test_lines_of_an_ensemble_name_its_models(every_line, capfd):
    X, y = blobs(20)
    members = [("near", ConvNetGPClassifier(rbf(1.0), verbose=1))]
    members += [("far", ConvNetGPClassifier(rbf(3.0)))]
    KernelEnsembleClassifier(members).fit(X, y)
    lines = lines_of(capfd)
    assert_honest(lines)
    found = dict.fromkeys(name.split(",")[0] for *_, name in lines[:-1])
    assert list(found) == ["model 1 of 2: near", "model 2 of 2: far"]


@pytest.mark.parametrize(
    ("completion", "unit"), [(RandomFeatures(20), "samples"), (None, "pairs")]
)
def test_a_line_names_what_is_counted(completion, unit, every_line, capfd):
    X, y = wave(30)
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=0.1, completion=completion)
    gp.set_params(verbose=1).fit(X, y)
    units = re.findall(r"\d+ of \d+ (\w+)", capfd.readouterr().err)
    assert set(units) == {unit}


def fit_count(**settings):
    """Return the callback of the pairs of a fit that shows nothing."""
    n_workers = settings.pop("n_workers", 1)
    return progress_of(0, n_workers)(COVARIANCES, is_fit=True, **settings)


def test_a_long_fit_is_told_of_after_its_first_pairs(clock):
    short, long = fit_count(), fit_count()
    clock.now += 60.0  # of tables, which pairs do not take
    long(1, 10_000)
    short(1, 10_000)
    clock.now += 1.0
    long(2, 10_000)  # too early to say
    clock.now += 3.0
    short(101, 10_000)
    with pytest.warns(UserWarning, match=r"take some 667 minutes .* 2.5 a .*Nystrom"):
        long(11, 100_000)
    clock.now += 5.0
    long(21, 100_000)  # once is enough


def test_a_long_fit_says_what_is_left_to_compute(clock):
    count = fit_count()
    count(4_000, 10_000)  # were read
    clock.now += 10.0
    with pytest.warns(UserWarning, match=r"some 100 minutes for the 6000 pairs .* 1 a"):
        count(4_010, 10_000)


def test_the_speed_of_several_workers_is_known_when_all_have_told(
    clock, every_line, capfd
):
    with ordinary_state("fit"):
        count = progress_of(1, 2)(COVARIANCES)
        count(0, 1000)
        clock.now += 2.0
        count(20, 1000)  # the other worker is as far as this one
        assert not capfd.readouterr().err
        count(42, 1000)
    assert "42 of 1000 pairs, 21/s" in capfd.readouterr().err


def test_a_long_fit_through_landmarks_is_told_to_take_fewer(clock):
    count = fit_count(is_part=True)
    count(0, 10_000)
    clock.now += 10.0
    with pytest.warns(UserWarning, match=r"some 166 minutes .* Fewer landmarks"):
        count(10, 10_000)


def test_a_fit_of_several_workers_is_judged_when_all_have_reported(clock):
    count = fit_count(n_workers=4)
    count(0, 6000)
    clock.now += 5.0  # each worker has done one block: all together take 12 minutes
    count(10, 6000)  # alone it would take 50
    count(20, 6000)
    count(30, 6000)
    with pytest.warns(UserWarning, match=r"some 12 minutes"):
        count(40, 6000)


def test_a_long_warp_is_told_to_take_fewer_steps(clock, monkeypatch):
    draw = Batches.draw

    def draw_slowly(self, size):
        clock.now += 60.0
        return draw(self, size)

    monkeypatch.setattr(Batches, "draw", draw_slowly)
    X, y = np.linspace(0.0, 6.0, 20)[:, None], np.arange(20) % 2
    with pytest.warns(UserWarning, match=r"some 38 minutes .* 40 flow .* `n_steps`"):
        KernelFlowsWarp(n_steps=40).fit(X, y)


def test_a_long_fit_to_samples_without_pairs_promises_nothing(clock):
    count = fit_count(unit="samples")
    count(0, 10_000)
    clock.now += 10.0
    with pytest.warns(UserWarning, match=r"the 10000 samples, .* 1 a second\.$"):
        count(10, 10_000)
