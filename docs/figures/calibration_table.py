"""Write what probabilities and intervals are worth as tables for the page on them.

Run as ``python docs/figures/calibration_table.py <target>``; reads
benchmarks/results/calibration.json and regression.json, and says how to make what there
is not.
"""

import statistics
import sys
from pathlib import Path
from typing import Any

from speed_table import BENCHMARKS, list_table, read_record

RESULTS = BENCHMARKS / "results" / "calibration.json"
REGRESSION = BENCHMARKS / "results" / "regression.json"

from calibrating.source import REPORTED, REPORTED_REGRESSION  # noqa: E402

MISSING = (
    "The figures of {what} have not been measured for this build of the documentation. "
    "``python benchmarks/{script}.py`` measures them.\n"
)
HEADER = ["", "Error %", "Log loss", "Calibration error", "Seconds"]
HEADER_REGRESSION = ["", "RMSE", "NLPD", "In 95 % intervals", "Seconds"]
EMPHASIZED = ("default", "largest evidence")


def main(target: Path) -> None:
    """Write the tables."""
    parts = [of_labels(read_record(RESULTS)), of_numbers(read_record(REGRESSION))]
    target.write_text("\n\n".join(parts) + "\n")


def of_labels(record: Any) -> str:
    """Return a table for each set of labels that was measured."""
    rows = record["classification"] if record else []
    if not rows:
        return MISSING.format(what="probabilities", script="calibration")
    found = []
    for task in dict.fromkeys(row["task"] for row in rows):
        own = [row for row in rows if row["task"] == task]
        table = [HEADER]
        for name, means, mark in averages(
            own, ("error", "log_loss", "calibration_error", "fit_seconds")
        ):
            error, loss, calibration, seconds = means
            told = [f"{100.0 * error:.1f}", f"{loss:.4f}", f"{calibration:.3f}"]
            table.append([mark.format(name), *told, f"{seconds:.0f}"])
        for name, figures in REPORTED.get(task, {}).items():
            error, *rest = figures
            told = [f"{100.0 * error:.1f}", *map(str, rest)]
            table.append([f"*{name}*", *told, *[""] * (4 - len(told))])
        found.append("\n".join(list_table(title(task, own), table)))
    return "\n\n".join(found)


def of_numbers(record: Any) -> str:
    """Return a table for each set of numbers that was measured."""
    rows = record["regression"] if record else []
    if not rows:
        return MISSING.format(what="intervals", script="regression")
    found = []
    for name in dict.fromkeys(row["set"] for row in rows):
        own = [row for row in rows if row["set"] == name]
        table = [HEADER_REGRESSION]
        for method, means, mark in averages(
            own, ("rmse", "nlpd", "coverage", "fit_seconds")
        ):
            rmse, nlpd, coverage, seconds = means
            told = [f"{rmse:.3g}", f"{nlpd:.3f}", f"{coverage:.1%}", f"{seconds:.0f}"]
            table.append([mark.format(method), *told])
        for method, figures in REPORTED_REGRESSION.get(name, {}).items():
            table.append([f"*{method}*", *map(str, figures), "", ""])
        found.append("\n".join(list_table(title(name, own), table)))
    return "\n\n".join(found)


def averages(rows: list[Any], scores: tuple[str, ...]) -> Any:
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
