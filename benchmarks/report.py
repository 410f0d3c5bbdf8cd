"""Options, files of results and tables that questions share, by the standard library.

A question is a module or a folder of this package. It has a docstring, whose first line
is the question, and

- ``options(add)``, which adds its options by ``add = parser.add_argument``;
- ``run(options, record)``, which measures, adds rows to the record and prints them, and
  may return what is required of the figures (a list of `Target`);
- ``PARTS``: the lists of rows in its file, each with the keys that tell its rows apart;
  without keys a run begins with none.

A question that runs in environments without skconvgp has ``write(path)`` and
``check(path)`` instead, one for each environment. Others may have

- ``QUICK`` and ``USUAL``: values of options not given, with --quick and without;
- ``is_trial(options)``, which says whether options make figures of another kind. Such a
  run, as a quick one, is written only to the file that --output names.
"""

import argparse
import ast
import json
import math
import os
import statistics
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Figures = dict[str, Any]
# What, measured, "at least" or "at most", required.
Target = tuple[str, float, str, float]

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results"
SHARED = ("catalogue", "data", "image_sets", "models", "measure", "report")
# Of options that only some questions have.
AGAIN: Figures = {"action": "store_true", "help": "measure rows again that are there"}
MERGE: Figures = {"nargs": "+", "type": Path, "help": "only add the rows of files"}


def questions() -> dict[str, str]:
    """Return the first line of each question by its name."""
    files = {path.stem: path for path in FOLDER.glob("[a-z]*.py")}
    files |= {path.parent.name: path for path in FOLDER.glob("*/__init__.py")}
    for name in (*SHARED, "peers"):
        del files[name]
    return {
        name: (ast.get_docstring(ast.parse(path.read_text())) or "").splitlines()[0]
        for name, path in sorted(files.items())
    }


def parse(question: Any, name: str, *arguments: str) -> argparse.Namespace:
    """Return the options of a question."""
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks {name}",
        description=question.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    if not hasattr(question, "PARTS"):
        add("what", choices=["write", "check"])
        add("path", type=Path)
        return parser.parse_args(arguments)
    question.options(add)
    quick = getattr(question, "QUICK", {})
    if quick:
        add("--quick", action="store_true", help=f"takes a minute or two: {quick}")
    add("--check", action="store_true", help="exit with 1 if a figure is missed")
    add("--output", type=Path, help=f"{name}.json of the results by default")
    options = parser.parse_args(arguments)
    is_quick = getattr(options, "quick", False)
    is_trial = getattr(question, "is_trial", lambda _options: False)
    options.is_whole = not (is_quick or is_trial(options))
    for key, value in (quick if is_quick else getattr(question, "USUAL", {})).items():
        if getattr(options, key, None) is None:
            setattr(options, key, value)
    if options.is_whole and not options.output:
        options.output = RESULTS / f"{name}.json"
    return options


def read(path: Path | None) -> Figures:
    """Return the figures so far."""
    return json.loads(path.read_text()) if path and path.exists() else {}


def write(path: Path | None, figures: Figures) -> None:
    """Write the figures; the file is never half."""
    if not path:
        return
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps(figures, indent=1) + "\n")
    os.replace(unfinished, path)


def find(rows: list[Figures], **wanted: Any) -> Figures | None:
    """Return the first row with these settings."""
    for row in rows:
        if all(row[name] == value for name, value in wanted.items()):
            return row
    return None


def select(rows: list[Figures], **wanted: Any) -> list[Figures]:
    """Return the rows with these settings."""
    return [row for row in rows if wanted.items() <= row.items()]


def put(rows: list[Figures], row: Figures, *names: str) -> None:
    """Add a row in the place of one that it repeats."""
    old = find(rows, **{name: row[name] for name in names}) if names else None
    if old is None:
        rows.append(row)
    else:
        rows[rows.index(old)] = row


def dated(row: Figures) -> Figures:
    """Return a row with the day of today: rows of one file need not be of one run."""
    return row | {"day": datetime.now(UTC).date().isoformat()}


def mean(rows: list[Figures], score: str) -> float:
    """Return the mean of a score, NaN where there is none."""
    values = [row[score] for row in rows]
    return statistics.fmean(values) if values else math.nan


def show(name: str, cells: Iterable[Any], width: int = 42, each: int = 11) -> None:
    """Print a line of a table: numbers to four places, nothing for None."""
    print(f"{name:<{width}}" + "".join(_cell(one, each) for one in cells), flush=True)


def tell(row: Figures, labels: dict[str, str]) -> None:
    """Print figures of a row, one a line; those that are not there are left out."""
    for name, label in labels.items():
        if row.get(name) is not None:
            show(f"  {label}", [row[name]], 34, 14)


def show_means(
    rows: list[Figures],
    scores: Iterable[str],
    width: int = 42,
    each: int = 11,
    **beside: Figures,
) -> None:
    """Print the means of scores of each method, and what is told beside it."""
    for method in dict.fromkeys(row["method"] for row in rows):
        own = select(rows, method=method)
        told = [one.get(method) for one in beside.values()]
        show(method, (*(mean(own, score) for score in scores), *told), width, each)


def _cell(value: Any, width: int) -> str:
    if isinstance(value, float):
        value = f"{value:.4f}" if 1e-3 <= abs(value) < 1e4 else f"{value:.4g}"
    return f" {'' if value is None else str(value):>{width - 1}}"


def print_targets(found: list[Target]) -> bool:
    """Print what was required and whether it is met; return whether all is."""
    are_met = True
    if found:
        print(f"\n{'':<38}{'measured':>12}{'required':>20}")
    for name, value, word, limit in found:
        is_met = value >= limit if word == "at least" else value <= limit
        are_met = are_met and is_met
        told = "" if is_met else "  missed"
        print(f"{name:<38}{value:>12.4g}{word:>12}{limit:>8.3g}{told}")
    return are_met
