"""Inject faults of one line into every floor and count those that the tests find.

    python .ci/faults.py                  # what `make test` runs
    python .ci/faults.py --all            # with the tests that are marked slow
    python .ci/faults.py --later          # in what came after the floors, by area
    python .ci/faults.py --only 3 17      # some of them
    python .ci/faults.py --list           # which ones there are

Faults are drawn with a seed: an operator, a comparison, a number or a condition of one
line is another one. Everything is imported once. Each fault is put into the functions
of a fork of that process, where the tests of its floor run until one fails: first those
of its own file, then those that name its function. A fault that no test finds may be
none: a limit that nothing reaches, a message, a choice of speed.
"""

import argparse
import ast
import contextlib
import gc
import io
import multiprocessing
import os
import random
import re
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType

import pytest

ROOT = Path(__file__).parents[1]
# The folders of tests that exercise a floor, besides its own.
FLOORS = {
    "linalg": ["solvers", "inference"],
    "kernels": ["contracts/test_kernel_contract.py", "backends/test_reference.py"],
    "completion": ["contracts/test_completion_contract.py", "estimators"],
    "solvers": ["contracts/test_solver_contract.py", "estimators/test_solving.py"],
    "likelihoods": ["contracts/test_likelihood_contract.py", "estimators"],
    "backends": ["engine", "estimators/functions/test_gram.py"],
    "engine": [
        "estimators/functions/test_gram.py",
        "estimators/compute/test_cache_dir.py",
    ],
    "inference": ["estimators"],
    "processes": ["contracts", "estimators", "inference"],
    "flows": ["contracts", "estimators/test_flows.py", "estimators/test_warp.py"],
    "estimators": ["test_common.py"],
    "metrics": [],
    "networks": ["estimators/networks/test_networks.py", "contracts"],
    "image_maps": ["transforms"],
    "transforms": ["image_maps"],
    "questions": ["inference/test_augmented.py"],
}
# Areas of the package that are small beside their floors: their files, and their tests.
AREAS = {
    "ambient": (
        ["_ambient.py", "_tensors.py", "_parts.py", "_settings.py"],
        ["test_setting_checks.py", "test_parts.py", "rules/test_ambient.py"],
    ),
    "patches": (
        ["processes/_patch*.py", "processes/_inducing*.py", "kernels/_patch*.py"],
        ["kernels/test_patches.py", "estimators/patches", "contracts"],
    ),
    "images": (
        ["processes/_part*.py", "estimators/_image*.py", "estimators/_mixture*.py"],
        [
            "processes",
            "estimators/images/test_images.py",
            "estimators/images/test_part*.py",
        ],
    ),
    "scattering": (
        ["image_maps/*.py", "transforms/*.py"],
        ["image_maps", "transforms"],
    ),
    "tangent kernels": (
        ["backends/_program.py", "backends/_graph.py", "kernels/_tangents.py"],
        ["backends/test_fused_ntk.py", "kernels/test_tangents.py", "backends"],
    ),
    "local averages": (
        ["kernels/_pool*.py", "kernels/_disp*.py", "backends/_disp*.py"],
        ["kernels/test_pooling.py", "backends/test_fused_pools.py", "estimators"],
    ),
    "flows": (
        ["flows/_patch*.py", "flows/_field.py", "flows/_warp.py", "flows/_stacks.py"],
        [
            "flows",
            "estimators/test_warp.py",
            "estimators/patches/test_patches_learning.py",
        ],
    ),
    "encoder": (
        ["networks/_cod*.py", "networks/_enc*.py", "estimators/_encoder*.py"],
        ["estimators/networks/test_encoder.py", "networks"],
    ),
    "networks": (
        ["networks/_[bprst]*.py", "networks/_estimates.py", "estimators/_network*.py"],
        ["networks", "estimators/networks"],
    ),
    "labels": (
        ["likelihoods/_beta.py", "likelihoods/_dirichlet.py", "processes/*label*.py"],
        [
            "likelihoods",
            "contracts/test_label*.py",
            "rules/test_times.py",
            "estimators",
        ],
    ),
    "calibration": (
        ["likelihoods/_calibration.py", "likelihoods/_expected.py", "metrics/*.py"],
        ["metrics", "likelihoods", "contracts/test_likelihood_contract.py"],
    ),
    "landmarks": (
        ["completion/_[nlr]*.py", "processes/_[flc]*.py", "inference/_feature*.py"],
        ["completion", "inference", "estimators/test_nystrom.py", "estimators"],
    ),
}
PER_FLOOR, PER_AREA = 4, 5
SEED = 0
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
        Folder of the package, or area.
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


def drawn_faults(*, later):
    """Return the faults, the same each time: of each area, or of each floor."""
    generator = random.Random(SEED)
    patterns = {floor: [f"{floor}/**/*.py"] for floor in FLOORS}
    if later:
        patterns = {area: files for area, (files, _) in AREAS.items()}
    chosen = []
    for place, files in patterns.items():
        everything = [
            fault
            for pattern in files
            for path in sorted((ROOT / "skconvgp").glob(pattern))
            if "native" not in path.parts
            for fault in faults_of(place, path)
        ]
        chosen += generator.sample(everything, PER_AREA if later else PER_FLOOR)
    return chosen


def codes_in(code):
    """Yield code with all code that it holds."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_in(constant)


def put_in(path, number, line):
    """Make a line of a file another one, in the functions that this process has."""
    path = ROOT / path
    lines = path.read_text().splitlines()
    lines[number - 1] = line
    module = compile("\n".join(lines), path, "exec", dont_inherit=True)
    codes = {(code.co_qualname, code.co_firstlineno): code for code in codes_in(module)}
    n_functions = 0
    for function in gc.get_objects():
        if type(function) is not FunctionType:  # others may lie about their class
            continue
        code = function.__code__
        if Path(code.co_filename).name == path.name and path.samefile(code.co_filename):
            function.__code__ = codes[code.co_qualname, code.co_firstlineno]
            n_functions += 1
    assert n_functions, f"nothing has imported {path}"


def stages_of(fault):
    """Return which files run first, and which after them."""
    tests, stem = ROOT / "tests", fault.path.stem.lstrip("_")
    own = sorted(tests.rglob(f"test_{stem}.py"))
    if fault.floor in AREAS:
        patterns = AREAS[fault.floor][1]
    else:
        patterns = [fault.floor, *FLOORS[fault.floor]]
    places = [place for pattern in patterns for place in sorted(tests.glob(pattern))]
    files = {
        file: bool(re.search(rf"\b{fault.function}\b", file.read_text()))
        for place in places
        for file in (sorted(place.rglob("test_*.py")) if place.is_dir() else [place])
        if file not in own
    }
    return own, sorted(files, key=files.get, reverse=True)


class FirstFailure:
    """Tell which test runs, and of failures; tests that start processes come last."""

    def __init__(self, sender):
        self.sender = sender

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        """Run what takes seconds to start last."""
        items.sort(key=sys.modules["tests.conftest"].starts_processes)

    def pytest_runtest_logstart(self, nodeid):
        """Tell which test runs."""
        self.sender.send(("runs", nodeid))

    def pytest_runtest_logreport(self, report):
        """Tell of a failure."""
        if report.failed:
            self.sender.send(("fails", report.nodeid))

    pytest_collectreport = pytest_runtest_logreport


def run_pytest(*arguments, plugins=()):
    """Run pytest in this process, without its output."""
    quiet = ["-q", "--no-header", "-p", "no:cacheprovider"]
    with contextlib.redirect_stdout(io.StringIO()):
        return pytest.main([*quiet, *map(str, arguments)], plugins)


def run_tests(fault, marker, sender):
    """Run the tests of a fault in a process of its own."""
    os.setsid()
    place = str(fault.path), fault.number, fault.line
    put_in(*place)
    # The processes in which peaks of memory are measured have the fault, too.
    first = f"import runpy; runpy.run_path({__file__!r})['put_in'](*{place!r})\n"
    sys.modules["tests.helpers.memory"].PRELUDE = first
    for files in stages_of(fault):
        arguments = ["-x", "-m", marker, *files]
        status = run_pytest(*arguments, plugins=[FirstFailure(sender)]) if files else 0
        if status not in (0, 5):  # all have passed, or none is there
            sender.send(("fails", f"pytest, {status!r}"))
            return


def outcome(fault, marker, limit):
    """Return whether a fault is found, and by what; None if the time is over."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=run_tests, args=(fault, marker, sender))
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


def main():
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="slow tests too")
    parser.add_argument("--later", action="store_true", help="faults of the areas")
    parser.add_argument("--list", action="store_true", help="do not run any test")
    parser.add_argument("--only", type=int, nargs="*", help="numbers of faults")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds of a fault")
    options = parser.parse_args()
    marker = "slow or not slow" if options.all else "not slow"
    words = {True: "found by", False: "NOT FOUND:", None: "UNDECIDED:"}
    os.environ.update(ENVIRONMENT)
    os.chdir(ROOT)
    faults, found = drawn_faults(later=options.later), Counter()
    if options.list:
        for i, fault in enumerate(faults):
            print(f"{i:3d} {fault.path}:{fault.number}: {fault.line.strip()}")
        return
    run_pytest("--collect-only", "tests")
    for i in options.only or range(len(faults)):
        fault, start = faults[i], time.monotonic()
        is_found, name = outcome(fault, marker, options.limit)
        found[is_found] += 1
        seconds = time.monotonic() - start
        print(f"{i:3d} {fault.path}:{fault.number}: {fault.line.strip()}")
        print(f"      {words[is_found]} {name} ({seconds:.0f} s)", flush=True)
    print(f"{found[True]} of {found.total()} were found, {found[None]} are undecided.")


if __name__ == "__main__":
    main()
