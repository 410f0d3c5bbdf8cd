"""The Python files of the package, as text and as syntax."""

import ast
import functools
from pathlib import Path

import skconvgp

PACKAGE = Path(skconvgp.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))


def name_of(path):
    return path.relative_to(PACKAGE).as_posix()


@functools.cache
def nodes_of(path):
    """Return the syntax of a file, which many tests ask for."""
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


@functools.cache
def lines_of_code(path):
    """Return how many lines are neither blank, comments, docstrings nor imports."""
    text = path.read_text(encoding="utf-8")
    free = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Import | ast.ImportFrom):
            free.update(range(node.lineno, node.end_lineno + 1))
        first = getattr(node, "body", None)
        first = first[0] if isinstance(first, list) and first else None
        is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
        if is_text and isinstance(first.value.value, str):
            free.update(range(first.lineno, first.end_lineno + 1))
    return sum(
        bool(line.strip()) and not line.strip().startswith("#") and number not in free
        for number, line in enumerate(text.splitlines(), 1)
    )
