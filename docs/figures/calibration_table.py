"""Write what probabilities and intervals are worth as tables for the page on them.

Run as ``python docs/figures/calibration_table.py <target>``; reads
benchmarks/results/calibration.json and regression.json, and says how to make what there
is not.
"""

import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from speed_table import BENCHMARKS, list_table, read_record

RESULTS = BENCHMARKS / "results" / "calibration.json"
REGRESSION = BENCHMARKS / "results" / "regression.json"

from benchmarks.calibration.report import REPORTED  # noqa: E402
from benchmarks.regression import REPORTED as REPORTED_REGRESSION  # noqa: E402

MISSING = (
    "The figures of {what} have not been measured for this build of the documentation. "
    "``python -m benchmarks {script}`` measures them.\n"
)
EMPHASIZED = ("default", "largest evidence")


@dataclass(frozen=True)
class Figures:
    """What a table shows of each method, and how."""

    what: str
    script: str
    set_key: str
    columns: dict[str, tuple[str, str]]  # heading: score, format
    reported: dict[str, dict[str, tuple[float, ...]]]


LABELS = Figures(
    "probabilities",
    "calibration",
    "task",
    {
        "Error": ("error", ".1%"),
        "Log loss": ("log_loss", ".4f"),
        "Calibration error": ("calibration_error", ".3f"),
        "Seconds": ("fit_seconds", ".0f"),
    },
    REPORTED,
)
NUMBERS = Figures(
    "intervals",
    "regression",
    "set",
    {
        "RMSE": ("rmse", ".3g"),
        "NLPD": ("nlpd", ".3f"),
        "In 95 % intervals": ("coverage", ".1%"),
        "CPU seconds": ("fit_cpu_seconds", ".0f"),
    },
    REPORTED_REGRESSION,
)


def main(target: Path) -> None:
    """Write the tables."""
    labels = (read_record(RESULTS) or {}).get("classification", [])
    numbers = (read_record(REGRESSION) or {}).get("regression", [])
    parts = [tables(LABELS, labels), tables(NUMBERS, numbers)]
    target.write_text("\n\n".join(parts) + "\n")


def tables(figures: Figures, rows: list[Any]) -> str:
    """Return a table for each set that was measured."""
    if not rows:
        return MISSING.format(what=figures.what, script=figures.script)
    scores = [score for score, _ in figures.columns.values()]
    formats = [each for _, each in figures.columns.values()]
    found = []
    for name in dict.fromkeys(row[figures.set_key] for row in rows):
        own = [row for row in rows if row[figures.set_key] == name]
        table = [["", *figures.columns]]
        for method, means, mark in averages(own, scores):
            told = map(format, means, formats)
            table.append([mark.format(method), *told])
        for method, values in figures.reported.get(name, {}).items():
            told = [format(*pair) for pair in zip(values, formats, strict=False)]
            blank = [""] * (len(formats) - len(told))
            table.append([f"*{method}*", *told, *blank])
        found.append("\n".join(list_table(title(name, own), table)))
    return "\n\n".join(found)


def averages(rows: list[Any], scores: list[str]) -> Any:
    """Yield name, means over the splits and how to set the name, of each method."""
    for name in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == name]
        means = [statistics.fmean(row[score] for row in own) for score in scores]
        yield name, means, "**{}**" if name in EMPHASIZED else "{}"


def title(name: str, rows: list[Any]) -> str:
    """Return what a table is of."""
    n_splits = len({row["split"] for row in rows})
    told = f"{n_splits} splits" if n_splits > 1 else "one split"
    return f"{name}, {told} of {rows[0]['n_train']} training samples"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
