"""Inject faults of one line into every floor and count those that the tests find.

    python .ci/faults.py                  # what `make test` runs
    python .ci/faults.py --all            # with the tests that are marked slow
    python .ci/faults.py --only 3 17      # some of them

Faults are drawn with a seed: an operator, a comparison, a number or a condition of one
line is another one. Each is put into a copy of the checkout, where the tests of its
floor run, those of its own file first, until one fails. A fault that no test finds may
be none: a limit that nothing reaches, a message, a choice of speed.
"""

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
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
    "processes": ["estimators", "inference"],
    "flows": ["contracts", "estimators/test_flows.py", "estimators/test_warp.py"],
    "estimators": ["test_common.py"],
    "metrics": [],
}
PER_FLOOR = 4
SEED = 0
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


def faults_of(path):
    """Return (line number, line with the fault) of all faults of a file."""
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
                for new in other(node):
                    changed = line[:start] + new.encode() + line[end:]
                    found.append((node.lineno, changed.decode()))
    return found


def drawn_faults():
    """Return (floor, file, line number, new line) of the faults, the same each time."""
    generator = random.Random(SEED)
    chosen = []
    for floor in FLOORS:
        everything = [
            (path.relative_to(ROOT), number, line)
            for path in sorted((ROOT / "skconvgp" / floor).rglob("*.py"))
            for number, line in faults_of(path)
            if "native" not in path.parts
        ]
        chosen += [(floor, *item) for item in generator.sample(everything, PER_FLOOR)]
    return chosen


def tests_of(floor, path):
    """Return the tests that run, those of the file itself first."""
    own = ROOT / "tests" / floor / f"test_{path.stem.lstrip('_')}.py"
    first = [own] if own.exists() else []
    return [*first, *(ROOT / "tests" / name for name in [floor, *FLOORS[floor]])]


def first_failure(copy, fault, options):
    """Return what found the fault, or an empty string."""
    floor, path, number, line = fault
    target = copy / path
    before = target.read_text()
    lines = before.splitlines()
    lines[number - 1] = line
    target.write_text("\n".join(lines) + "\n")
    tests = [copy / test.relative_to(ROOT) for test in tests_of(floor, path)]
    command = [sys.executable, "-m", "pytest", "-x", "-q", *options, *map(str, tests)]
    environment = os.environ | {"PYTHONPATH": str(copy), "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            [*command, "--no-header", "-p", "no:cacheprovider"],
            cwd=copy,
            env=environment,
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "it does not end"
    finally:
        target.write_text(before)
    if done.returncode == 0:
        return ""
    named = [s for s in done.stdout.splitlines() if s.startswith(("FAILED", "ERROR"))]
    return named[0][:100] if named else f"exit {done.returncode}"


def main():
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="slow tests too")
    parser.add_argument("--only", type=int, nargs="*", help="numbers of faults")
    options = parser.parse_args()
    marker = [] if options.all else ["-m", "not slow"]
    faults = drawn_faults()
    found = Counter()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "checkout"
        ignored = shutil.ignore_patterns(".venv*", ".git", "build", "_build")
        shutil.copytree(ROOT, copy, ignore=ignored)
        for i in options.only or range(len(faults)):
            _, path, number, line = faults[i]
            name = first_failure(copy, faults[i], marker)
            found[bool(name)] += 1
            print(f"{i:3d} {path}:{number}: {line.strip()}", flush=True)
            print(f"      {name or 'NOT FOUND'}", flush=True)
    print(f"{found[True]} of {found.total()} were found.")


if __name__ == "__main__":
    main()
