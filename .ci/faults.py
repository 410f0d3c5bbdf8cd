"""Inject faults of one line into every floor and count those that the tests find.

    python .ci/faults.py                  # what `make test` runs
    python .ci/faults.py --all            # with the tests that are marked slow
    python .ci/faults.py --only 3 17      # some of them

Faults are drawn with a seed: an operator, a comparison, a number or a condition of one
line is another one. Each is put into a copy of the checkout, where the tests of its
floor run until one fails: first those of its own file, then those that name its
function, last those that start processes. A fault that no test finds may be none: a
limit that nothing reaches, a message, a choice of speed.
"""

import argparse
import ast
import contextlib
import importlib.util
import multiprocessing
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
# The folders of tests that exercise a floor, besides its own.
FLOORS = {
    "linalg": ["solvers", "inference"],
    "kernels": ["contracts/test_kernel_contract.py", "backends/test_reference.py"],
    "completion": ["contracts/test_completion_contract.py", "estimators"],
    "solvers": ["contracts/test_solver_contract.py", "estimators/test_solving.py"],
    "likelihoods": ["contracts/test_likelihood_contract.py", "estimators"],
    "backends": ["engine", "estimators/test_gram.py"],
    "engine": ["estimators/test_gram.py", "estimators/test_cache_dir.py"],
    "inference": ["estimators"],
    "processes": ["contracts", "estimators", "inference"],
    "flows": ["contracts", "estimators/test_flows.py", "estimators/test_warp.py"],
    "estimators": ["test_common.py"],
    "metrics": [],
    "networks": ["estimators/test_networks.py", "contracts"],
    "image_maps": ["transforms"],
    "transforms": ["image_maps"],
}
PER_FLOOR = 4
SEED = 0
# Tests that start processes, or skip where a system lacks something, cost the most.
LATE = "processes or skipif"
# What takes seconds to import, and is imported once.
IMPORTED = ["torch", "pandas", "pytest", "skopt", "sklearn.utils.estimator_checks"]
ENVIRONMENT = {
    "SCIPY_ARRAY_API": "1",
    "MPLBACKEND": "agg",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
}
OPERATORS = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Lt: ast.GtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


@dataclass(frozen=True)
class Fault:
    """A line of a file that is another one.

    Parameters
    ----------
    floor : str
        Folder of the package.
    path : Path
        The file, relative to the checkout.
    function : str
        Name of the function.
    number : int
        Number of the line, from 1.
    line : str
        What it says instead.
    """

    floor: str
    path: Path
    function: str
    number: int
    line: str

    def text_in(self, text):
        """Return the text of the file with the fault."""
        lines = text.splitlines()
        lines[self.number - 1] = self.line
        return "\n".join(lines) + "\n"


def other(node):
    """Yield the other forms of an expression, as text."""
    old = ast.unparse(node)
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        node.op = OPERATORS[type(node.op)]()
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in OPERATORS:
        node.ops[0] = OPERATORS[type(node.ops[0])]()
    elif isinstance(node, ast.BoolOp):
        node.op = OPERATORS[type(node.op)]()
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        node = node.operand
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        node.value = node.value + 1 if node.value in (0, 1) else node.value * 2
    else:
        return
    if ast.unparse(node) != old:
        yield f"({ast.unparse(node)})"


def faults_of(floor, path):
    """Return all faults of a file."""
    text = path.read_text()
    lines = text.splitlines()
    found = []
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef):
            continue
        for statement in function.body:
            for node in ast.walk(statement):
                if isinstance(node, ast.JoinedStr | ast.Raise | ast.FunctionDef):
                    break
                if not isinstance(node, ast.expr) or node.lineno != node.end_lineno:
                    continue
                line = lines[node.lineno - 1].encode()
                start, end = node.col_offset, node.end_col_offset
                where = path.relative_to(ROOT), function.name, node.lineno
                for new in other(node):
                    changed = line[:start] + new.encode() + line[end:]
                    found.append(Fault(floor, *where, changed.decode()))
    return found


def drawn_faults():
    """Return the faults, the same each time."""
    generator = random.Random(SEED)
    chosen = []
    for floor in FLOORS:
        everything = [
            fault
            for path in sorted((ROOT / "skconvgp" / floor).rglob("*.py"))
            if "native" not in path.parts
            for fault in faults_of(floor, path)
        ]
        chosen += generator.sample(everything, PER_FLOOR)
    return chosen


def stages_of(fault, tests):
    """Yield which files run one after the other, each with a marker expression."""
    stem = fault.path.stem.lstrip("_")
    own = sorted(tests.rglob(f"test_{stem}.py"))
    places = [tests / name for name in [fault.floor, *FLOORS[fault.floor]]]
    files = {
        file: bool(re.search(rf"\b{fault.function}\b", file.read_text()))
        for place in places
        for file in (sorted(place.rglob("test_*.py")) if place.is_dir() else [place])
        if file not in own
    }
    others = sorted(files, key=files.get, reverse=True)
    yield own, f"not ({LATE})"
    yield others, f"not ({LATE})"
    yield [*own, *others], LATE


class FirstFailure:
    """Remember the test that runs, and tell of the first one that fails."""

    def __init__(self, sender):
        self.sender = sender

    def pytest_runtest_logstart(self, nodeid):
        """Tell which test runs."""
        self.sender.send(("runs", nodeid))

    def pytest_runtest_logreport(self, report):
        """Tell of a failure."""
        if report.failed:
            self.sender.send(("fails", report.nodeid))

    pytest_collectreport = pytest_runtest_logreport


def run_tests(copy, fault, markers, sender):
    """Run the tests of a fault in a process of its own."""
    os.setsid()
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    os.chdir(copy)
    # An editable installation would find the package of the checkout.
    sys.meta_path[:] = [
        f for f in sys.meta_path if not hasattr(f, "known_source_files")
    ]
    sys.path.insert(0, str(copy))
    assert importlib.util.find_spec("skconvgp").origin.startswith(str(copy))
    sys.dont_write_bytecode = False
    import pytest

    options = ["-x", "-q", "--no-header", "-p", "no:cacheprovider"]
    options += ["-p", "hypothesispytest"]
    for files, marker in stages_of(fault, copy / "tests"):
        expression = " and ".join(f"({each})" for each in [marker, *markers])
        arguments = [*options, "-m", expression, *map(str, files)]
        status = pytest.main(arguments, [FirstFailure(sender)]) if files else 0
        if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            sender.send(("fails", f"pytest, {status!r}"))
            return


def outcome(copy, fault, markers, limit):
    """Return whether a fault is found, and by what; None if the time is over."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=run_tests, args=(copy, fault, markers, sender))
    process.start()
    sender.close()
    end, last = time.monotonic() + limit, "it starts"
    try:
        while receiver.poll(max(0.0, end - time.monotonic())):
            kind, last = receiver.recv()
            if kind == "fails":
                return True, last
    except EOFError:
        process.join()
        if process.exitcode > 0:
            raise RuntimeError("The tests could not start.") from None
        return process.exitcode < 0, f"{last}, exit {process.exitcode}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.join()
    return None, f"the time is over at {last}"


def copied_checkout(folder):
    """Return a copy of the checkout, with the extension that it uses."""
    ignored = shutil.ignore_patterns(".venv*", ".git", "build", "_build")
    copy = Path(shutil.copytree(ROOT, Path(folder) / "checkout", ignore=ignored))
    extension = importlib.util.find_spec("skconvgp.backends._native")
    if extension:
        shutil.copy(extension.origin, copy / "skconvgp" / "backends")
    return copy


def main():
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="slow tests too")
    parser.add_argument("--only", type=int, nargs="*", help="numbers of faults")
    parser.add_argument("--limit", type=float, default=900.0, help="seconds of a fault")
    options = parser.parse_args()
    os.environ.update(ENVIRONMENT)
    faults = drawn_faults()
    words = {True: "found by", False: "NOT FOUND:", None: "UNDECIDED:"}
    found = Counter()
    with tempfile.TemporaryDirectory() as folder:
        copy = copied_checkout(folder)
        for i in options.only or range(len(faults)):
            fault, target = faults[i], copy / faults[i].path
            before, start = target.read_text(), time.monotonic()
            target.write_text(fault.text_in(before))
            markers = [] if options.all else ["not slow"]
            is_found, name = outcome(copy, fault, markers, options.limit)
            target.write_text(before)
            # A file of the same second and size would pass for what was compiled.
            Path(importlib.util.cache_from_source(target)).unlink(missing_ok=True)
            found[is_found] += 1
            seconds = time.monotonic() - start
            print(f"{i:3d} {fault.path}:{fault.number}: {fault.line.strip()}")
            print(f"      {words[is_found]} {name} ({seconds:.0f} s)", flush=True)
    print(f"{found[True]} of {found.total()} were found, {found[None]} are undecided.")


if __name__ == "__main__":
    main()
