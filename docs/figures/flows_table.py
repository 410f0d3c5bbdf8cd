"""Write the benchmarks of Kernel Flows as tables for the user guide.

Run as ``python docs/figures/flows_table.py <target>``; reads
benchmarks/results/flows.json, and says how to make it if there is none.
"""

import statistics
import sys
from pathlib import Path
from typing import Any

from speed_table import BENCHMARKS, list_table, read_record

RESULTS = BENCHMARKS / "results" / "flows.json"

MISSING = (
    "The figures have not been measured for this build of the documentation. "
    "``python -m benchmarks flows`` measures them.\n"
)
DATA = {"mnist": "MNIST", "cifar10": "CIFAR-10"}
STARTS = "log-uniform"
SIZES = ("500", "1000", "2000", "5000")
STEP_HEADER = ["Network", "Method", "Batch", "Seconds a step", "Source, seconds"]
GIBIBYTE = 2**30


def main(target: Path) -> None:
    """Write the tables."""
    target.write_text(tables(read_record(RESULTS)))


def tables(record: Any) -> str:
    """Return a table for each setting that was measured, and one of seconds."""
    learned = (
        [row for row in record["learn"] if row["starts"] == STARTS] if record else []
    )
    if not learned:
        return MISSING
    parts = []
    for data, network in dict.fromkeys(
        (row["data"], row["network"]) for row in learned
    ):
        rows = [
            row for row in learned if (row["data"], row["network"]) == (data, network)
        ]
        title = f"{DATA[data]}, {network} network: test accuracy in percent"
        ways = {
            way["method"]: way
            for way in record.get("ways", [])
            if (way["data"], way["network"], way["starts"]) == (data, network, STARTS)
        }
        parts.append("\n".join(list_table(title, of_setting(rows, ways))))
    if record["steps"]:
        parts.append("\n".join(list_table("Seconds of a step", steps(record))))
    return "\n".join(parts)


def of_setting(rows: list[Any], ways: dict[str, Any]) -> list[list[str]]:
    """Return a row for each method: means over the starts, and its cost."""
    sizes = [size for size in SIZES if size in rows[0]["accuracies"]]
    header = ["", *(f"N = {size}" for size in sizes), "Evaluations", "Seconds"]
    methods = dict.fromkeys(row["method"] for row in rows)
    return [[*header, "Enough after"]] + [
        [
            *of_method(name, [row for row in rows if row["method"] == name], sizes),
            enough(ways.get(name)),
        ]
        for name in methods
    ]


def enough(way: Any) -> str:
    """Return the evaluations after which a method was good enough."""
    return "" if way is None else str(way["enough_after"] or "never")


def of_method(name: str, rows: list[Any], sizes: list[str]) -> list[str]:
    """Return the cells of a method."""
    cells = [name]
    for size in sizes:
        values = [100.0 * row["accuracies"][size]["test_accuracy"] for row in rows]
        spread = f" ({min(values):.1f} to {max(values):.1f})" if len(rows) > 1 else ""
        cells.append(f"{statistics.mean(values):.1f}{spread}")
    if "cost" not in rows[0]:
        return [*cells, "", ""]
    return cells + [
        f"{statistics.mean(row[figure] for row in rows):.0f}"
        for figure in ("cost", "learn_seconds")
    ]


def steps(record: Any) -> list[list[str]]:
    """Return the seconds of a step, beside the source's on its GPU."""
    known = {
        (row["network"], row["method"], row["batch"]): str(row["seconds"])
        for row in record["source"]["step_seconds"]
    }
    found = [STEP_HEADER]
    for row in record["steps"]:
        key = (row["network"], row["method"], row["batch"])
        told = f"needs {row.get('needed_bytes', 0) / GIBIBYTE:.0f} GiB"
        if "seconds_per_step" in row:
            told = f"{row['seconds_per_step']:.2f}"
        found.append([*map(str, key), told, known.get(key, "")])
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]))
