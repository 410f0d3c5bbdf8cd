"""The catalogue of what the sources report is whole, and its verdicts are computed."""

import importlib
import math
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
if not (ROOT / "benchmarks").exists():
    pytest.skip("the benchmarks are not installed", allow_module_level=True)
sys.path.insert(0, str(ROOT / "docs" / "figures"))

from benchmarks import catalogue  # noqa: E402
from benchmarks.__main__ import main  # noqa: E402
from benchmarks.catalogue import compare, entries, judge, measured  # noqa: E402
from benchmarks.report import RESULTS, parse, questions  # noqa: E402

# Tables, and figures with numbers, of the sources.
WHOLE = """
    meinel-3.3 meinel-3.4 meinel-3.5 meinel-3.6 meinel-3.7 meinel-3.8 meinel-f3.2
    meinel-f3.3 meinel-f3.7 meinel-f3.10
    meinel-cifar10 meinel-parameters meinel-completed
    binkhalid-f3.8 binkhalid-f3.12 binkhalid-f3.14 binkhalid-f3.16 binkhalid-3.3
    binkhalid-3.4 binkhalid-f4.1 binkhalid-f4.6 binkhalid-f5.1
    vanderwilk-mnist vanderwilk-bound vanderwilk-rectangles
    vanderwilk-tall-bound vanderwilk-0-1 vanderwilk-cifar10
    kozyrskiy-3.3 kozyrskiy-3.6 kozyrskiy-4.2 kozyrskiy-4.4 kozyrskiy-5.2 kozyrskiy-f5.3
    kozyrskiy-6.1 kozyrskiy-6.3 kozyrskiy-6.5
    kozyrskiy-f3.6 kozyrskiy-f4.1 kozyrskiy-f4.3 kozyrskiy-f6.1
    garriga-alonso rahaman
"""
# Figures without rows: the number of those of an entry.
NOT_MEASURED = {
    "vanderwilk-bound": 8,
    "vanderwilk-tall-bound": 4,
    "vanderwilk-cifar10": 1,
}
NO_GPU = ("small", "garriga-alonso")
FILE = {"part": [{"name": "a", "n": 1, "x": {"y": [2.0, 4.0]}, "s": 3.0}]}
TOLD = {"what": "x", "reported": 4.0, "rows": "part", "value": "x.y.1", "near": 0.0}


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Return the folder of what is done, and the commands that are run."""
    commands = []
    monkeypatch.setattr(catalogue, "KEPT", tmp_path)
    monkeypatch.setattr(
        catalogue.subprocess,
        "run",
        lambda command, check: commands.append((command[3:], check)),
    )
    return tmp_path, commands


def test_the_catalogue_is_whole():
    assert sorted(entries()) == sorted(WHOLE.split())


@pytest.mark.parametrize("name", WHOLE.split())
def test_entries_have_numbers_and_rows(name):
    entry = entries()[name]
    assert {"place", "what", "small", "source", "results"} <= entry.told.keys()
    assert (RESULTS / f"{entry.told['results']}.json").exists()
    found = entry.figures()
    assert found
    assert len({one.what for one in found}) == len(found)
    for one, told in zip(found, entry.told["figures"], strict=True):
        assert not {"reported", "than"} <= told.keys()
        assert (one.reported is None) == (one.verdict == catalogue.ANSWERED)
        assert one.reported is None or math.isfinite(one.reported)
        assert "verdict" not in told
        needs_reason = one.verdict in (catalogue.WORSE, catalogue.NO_DATA)
        assert bool(one.why) == needs_reason
    verdicts = [one.verdict for one in found]
    assert verdicts.count(catalogue.NO_ROWS) == NOT_MEASURED.get(name, 0)
    assert set(verdicts) <= set(catalogue.VERDICTS)


@pytest.mark.parametrize("scale", catalogue.SCALES)
@pytest.mark.parametrize("name", WHOLE.split())
def test_commands_are_those_of_questions(name, scale):
    question, *options = entries()[name].command(scale)
    assert question in questions()
    # A question that takes a GPU has another one in its place at a small scale.
    assert question == entries()[name].told["results"] or (scale, name) == NO_GPU
    module = importlib.import_module(f"benchmarks.{question}")
    assert parse(module, question, *options, "--output", "x.json")


@pytest.mark.parametrize(
    ("ours", "more", "expected"),
    [
        (4.0, {}, "repeated"),
        (4.1, {}, "beaten"),
        (3.9, {}, "worse"),
        (3.9, {"better": "smaller"}, "beaten"),
        (4.1, {"better": "smaller"}, "worse"),
        (4.1, {"near": 0.1}, "repeated"),
        (3.9, {"near": 0.1}, "repeated"),
        (4.1, {"than": {}}, "repeated"),
        (4.0, {"than": {}}, "worse"),
        (3.9, {"than": {}, "better": "smaller"}, "repeated"),
    ],
)
def test_verdicts_follow_from_numbers(ours, more, expected):
    assert judge(TOLD | more, ours, 4.0) == expected


def test_figures_follow_from_rows():
    one = compare(TOLD | {"where": {"name": "a"}, "seconds": "s"}, FILE)
    assert (one.ours, one.seconds, one.verdict) == (4.0, 3.0, "repeated")
    assert compare(TOLD | {"where": {"name": "b"}}, FILE).verdict == "not measured"
    assert compare(TOLD | {"rows": "other"}, FILE).verdict == "not measured"
    assert compare(TOLD | {"value": "z"}, FILE).verdict == "not measured"
    told = {"what": "x", "reported": 1.0, "missing": "Letter"}
    assert compare(told, FILE).verdict == "no data"
    why = {"value": "x.y.0", "why": "few"}
    worse = compare(TOLD | why, FILE)
    assert (worse.ours, worse.verdict, worse.why) == (2.0, "worse", "few")


def test_questions_without_a_number_are_answered():
    told = {"what": "x", "rows": "part", "value": "x.y.0"}
    one = compare(told, FILE)
    assert (one.reported, one.ours, one.verdict) == (None, 2.0, "answered")
    assert compare(told | {"value": "z"}, FILE).verdict == "not measured"
    claim = told | {"than": {"name": "b"}, "near": 0.0}
    assert compare(claim, FILE).verdict == "not measured"


def test_values_of_several_rows_have_a_statistic():
    rows = [{"a": 1.0, "b": 2.0}, {"a": 3.0, "b": 4.0}, {"a": 9.0, "b": None}]
    told = {"rows": "part", "value": ["a", "b"], "times": 10.0}
    file = {"part": rows}
    for stat, expected in {"mean": 50.0, "min": 30.0, "max": 70.0}.items():
        assert measured(told | {"stat": stat}, "where", file) == expected


def test_small_runs_are_kept_apart_and_not_done_twice(kept):
    folder, commands = kept
    main(["run", "meinel-3.6", "vanderwilk-0-1"])
    (first, check), (second, _) = commands
    assert check
    assert first[:2] == ["completion", "--quick"]
    assert first[-2:] == ["--output", str(folder / "completion.json")]
    assert second[:3] == ["patches", "--data", "mnist 0-1"]
    main(["run", "meinel-3.6"])
    assert len(commands) == 2
    main(["run", "meinel-3.6", "--again"])
    assert len(commands) == 3


def test_runs_of_the_scale_of_the_source_write_committed_rows(kept):
    _, commands = kept
    main(["run", "all", "--scale", "source"])
    assert not any("--output" in command for command, _ in commands)
    told = [entry.command("source") for entry in entries().values()]
    assert {tuple(one) for one, _ in commands} == set(map(tuple, told))
    assert len(commands) == len({tuple(one) for one in told})


def test_what_fails_is_not_done(kept, monkeypatch):
    folder, _ = kept

    def fails(command, check):
        raise OSError("no data")

    monkeypatch.setattr(catalogue.subprocess, "run", fails)
    with pytest.raises(OSError, match="no data"):
        main(["run", "meinel-3.6"])
    assert not (folder / "done.json").exists()


def test_the_list_has_all_entries(capsys):
    main(["list"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(entries())
    assert all(any(one in line for one in catalogue.VERDICTS) for line in lines)


def test_the_page_has_all_entries(tmp_path):
    page = importlib.import_module("sources_page")
    page.main(tmp_path / "page.rst.inc")
    text = (tmp_path / "page.rst.inc").read_text(encoding="utf-8")
    for entry in entries().values():
        assert f"python -m benchmarks run {entry.name}``" in text
        for one in entry.figures():
            assert f"- {one.what}\n" in text
