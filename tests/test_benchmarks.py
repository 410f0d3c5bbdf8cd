"""The benchmarks are questions that share six modules and nothing else."""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "benchmarks"
if not FOLDER.exists():
    pytest.skip("the benchmarks are not installed", allow_module_level=True)

from benchmarks.report import RESULTS, SHARED, find, parse, put, questions, read  # noqa: E402

FILES = sorted(FOLDER.rglob("*.py"))
PEERS = "peers"  # codes of others, each in an environment of its own
# Further result files of a question: of other machines, and of one of its models.
BESIDE = {
    "fused_cpu_intel": "fused_cpu",
    "pooled_speed_intel": "pooled_speed",
    "pooled_speed_peers": "pooled_speed",
    "patch_weights": "patches",
}


def part_of(path):
    """Return the name of the question, or of the shared module, of a file."""
    return path.relative_to(FOLDER).parts[0].removesuffix(".py")


def imported(path):
    """Yield the parts of the benchmarks that a file imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "benchmarks":
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module.startswith("benchmarks."):
            yield node.module.split(".")[1]


def test_questions_are_told_and_have_results():
    found = questions()
    assert len(found) > 20
    for name, asked in found.items():
        assert asked.endswith("?"), name
    files = {path.stem for path in RESULTS.glob("*.json")}
    assert set(found) <= files
    assert files - set(found) == set(BESIDE)
    assert set(BESIDE.values()) <= set(found)


def test_the_list_names_all_questions():
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    listed = re.findall(r"^(\w+) {2,}", done.stdout, flags=re.MULTILINE)
    assert listed == list(questions())


def test_questions_import_only_what_all_share():
    for path in FILES:
        allowed = {part_of(path), *SHARED, PEERS}
        assert set(imported(path)) <= allowed, path


def test_shared_modules_know_no_question():
    files = [path for path in FILES if part_of(path) in SHARED]
    assert len(files) > len(SHARED)
    for path in files:
        assert set(imported(path)) <= {*SHARED, PEERS}, path


def test_shared_models_and_data_have_two_users():
    users = defaultdict(set)
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                for name in node.names:
                    users[node.module, name.name].add(part_of(path))
    for module in ("data", "models"):
        text = (FOLDER / f"{module}.py").read_text(encoding="utf-8")
        for name in re.findall(
            r"^(?:def |class )?([A-Za-z]\w*)\b.* ?[(=:]", text, re.M
        ):
            found = users[f"benchmarks.{module}", name]
            if len(found) == 1:
                assert len(re.findall(rf"\b{name}\b", text)) > 1, name


def test_no_function_stands_twice():
    found = defaultdict(set)
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                body = "\n".join(ast.unparse(line) for line in node.body)
                found[node.name, body].add(str(path))
    twice = {key[0]: files for key, files in found.items() if len(files) > 1}
    assert not twice


def test_commands_of_pages_name_questions():
    pages = [*(ROOT / "docs").rglob("*.rst"), *(ROOT / "docs").rglob("*.md")]
    pages += [*(ROOT / "docs" / "figures").glob("*.py"), ROOT / "README.md", *FILES]
    named = set()
    for page in pages:
        named |= set(
            re.findall(r"python -m benchmarks (\w+)", page.read_text(encoding="utf-8"))
        )
    assert named <= {*questions(), "NAME", "list", "run"}
    assert len(named) > 20


def test_quick_runs_are_written_only_where_asked():
    question = SimpleNamespace(
        PARTS={"rows": ("name",)},
        USUAL={"n": 100},
        QUICK={"n": 2},
        options=lambda add: add("--n", type=int),
    )
    usual = parse(question, "nothing")
    assert (usual.n, usual.output) == (100, RESULTS / "nothing.json")
    quick = parse(question, "nothing", "--quick")
    assert (quick.n, quick.output, quick.is_whole) == (2, None, False)
    given = parse(question, "nothing", "--quick", "--n", "3", "--output", "x.json")
    assert (given.n, given.output) == (3, Path("x.json"))


def test_rows_take_the_place_of_those_that_they_repeat():
    rows = [{"name": "a", "n": 1}, {"name": "b", "n": 1}]
    put(rows, {"name": "a", "n": 2}, "name")
    assert find(rows, name="a") == {"name": "a", "n": 2}
    assert len(rows) == 2
    put(rows, {"name": "a", "n": 3})
    assert len(rows) == 3


def test_rows_that_are_in_the_file_are_not_missing(tmp_path):
    from benchmarks.measure import Record

    parts, path = {"rows": ("name",), "runs": ()}, tmp_path / "nothing.json"
    options = SimpleNamespace(output=path, again=False)
    record = Record(options, parts)
    assert record.missing("rows", name="a")
    record.add("rows", {"name": "a", "n": 1})
    record.add("runs", {"n": 1})
    record.leave_out("b", "there is none")
    later = Record(options, parts)
    assert not later.missing("rows", name="a")
    assert later.rows("rows", n=1) == record.rows("rows")
    assert (later.rows("runs"), later.left_out) == ([], [])
    assert Record(SimpleNamespace(output=path, again=True), parts).missing(
        "rows", name="a"
    )
    both = SimpleNamespace(output=tmp_path / "both.json", merge=[path])
    assert Record(both, parts).rows("rows") == record.rows("rows")
    assert read(both.output)["rows"] == record.rows("rows")


def test_figures_of_machines_stand_beside_each_other(tmp_path):
    from benchmarks.measure import Record

    options = SimpleNamespace(output=tmp_path / "cards.json")
    for name in ("one", "two"):
        record = Record(options, {"rows": ("n",)})
        record.begin(name)
        record.add("rows", {"n": 1})
    assert list(read(options.output)) == ["one", "two"]
