"""Write errors and coverage of regressors of images as tables for the page on them.

Run as ``python docs/figures/image_regression_table.py <target>``; reads
benchmarks/results/image_regression.json, and says how to make it if there is none.
"""

import statistics
import sys
from pathlib import Path
from typing import Any

from speed_table import BENCHMARKS, list_table, read_record

RESULTS = BENCHMARKS / "results" / "image_regression.json"

MISSING = (
    "The figures have not been measured for this build of the documentation. "
    "``python -m benchmarks image_regression`` measures them.\n"
)
LEVELS = ("0.5", "0.8", "0.9", "0.95")


def main(target: Path) -> None:
    """Write the tables."""
    target.write_text(tables(read_record(RESULTS)))


def tables(record: Any) -> str:
    """Return a table of errors, and one of coverage over all tasks."""
    if not record or not record["image_regression"]:
        return MISSING
    rows = record["image_regression"]
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    methods = list(dict.fromkeys(row["method"] for row in rows))
    errors = [["", *tasks]]
    shares = [["", *(f"{float(level):.0%}" for level in LEVELS)]]
    for method in methods:
        own = [row for row in rows if row["method"] == method]
        each = [[row["rmse"] for row in own if row["task"] == task] for task in tasks]
        errors.append([method, *(f"{statistics.fmean(one):.3g}" for one in each)])
        if "coverage_0.5" in own[0]:
            found = (
                statistics.fmean(row[f"coverage_{level}"] for row in own)
                for level in LEVELS
            )
            shares.append([method, *(f"{share:.1%}" for share in found)])
    n_draws = min(
        len({row["draw"] for row in rows if row["task"] == task}) for task in tasks
    )
    title = f"Root mean squared error, means over {n_draws} draws of 300 images"
    covered = "Share of test images in intervals of a level, over all tasks and draws"
    pairs = (title, errors), (covered, shares)
    return "\n".join("\n".join([*list_table(*pair), ""]) for pair in pairs)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
