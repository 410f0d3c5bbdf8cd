"""Write what Kernel Flows learn from tables, as tables for the page on them.

Run as ``python docs/figures/flow_tables_table.py <target>``; reads
benchmarks/results/flow_tables.json, and says how to make it if there is none.
"""

import statistics
import sys
from pathlib import Path
from typing import Any

from speed_table import BENCHMARKS, list_table, read_record

RESULTS = BENCHMARKS / "results" / "flow_tables.json"

MISSING = (
    "The figures have not been measured for this build of the documentation. "
    "``python -m benchmarks flow_tables`` measures them.\n"
)
NAMES = {"start": "``rbf()``, nothing learned", "Kernel Flows": "**Kernel Flows**"}
NAMES |= {name: f'``optimizer="{name}"``' for name in ("evidence", "loo")}
TITLES = {
    "log_loss": "Negative log density of test targets, or of test labels",
    "error": "Root mean squared error in units of the targets' deviation, or errors",
}


def main(target: Path) -> None:
    """Write the tables."""
    target.write_text(tables(read_record(RESULTS)))


def tables(record: Any) -> str:
    """Return a table of each score."""
    if not record or not record["tables"]:
        return MISSING
    parts = [[*list_table(TITLES[one], of_score(record, one)), ""] for one in TITLES]
    return "\n".join("\n".join(part) for part in parts)


def of_score(record: Any, score: str) -> list[list[str]]:
    """Return a row for each method: means over splits, and over all tables."""
    rows = record["tables"]
    names = list(dict.fromkeys(row["table"] for row in rows))
    found = [["", *(name.replace("_", " ") for name in names), "mean", "CPU s"]]
    for method in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == method]
        means = [
            statistics.mean(row[score] for row in own if row["table"] == name)
            for name in names
        ]
        seconds = statistics.mean(row["fit_cpu_seconds"] for row in own)
        told = [f"{value:.3f}" for value in (*means, statistics.mean(means))]
        found.append([NAMES.get(method, method), *told, f"{seconds:.1f}"])
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]))
