"""Write how sure classifiers are of strange images as tables for the page on them.

Run as ``python docs/figures/strange_table.py <target>``; reads
benchmarks/results/strange_images.json, and says how to make it if there is none.
"""

import statistics
import sys
from pathlib import Path
from typing import Any

from speed_table import BENCHMARKS, list_table, read_record

RESULTS = BENCHMARKS / "results" / "strange_images.json"

MISSING = (
    "The figures have not been measured for this build of the documentation. "
    "``python -m benchmarks strange_images`` measures them.\n"
)
TEST = "test images"


def main(target: Path) -> None:
    """Write the tables."""
    target.write_text(tables(read_record(RESULTS)))


def tables(record: Any) -> str:
    """Return a table of each set: a row for each classifier, a column for each kind."""
    if not record or not record["strange_images"]:
        return MISSING
    rows = record["strange_images"]
    text = []
    for name in dict.fromkeys(row["set"] for row in rows):
        of_set = [row for row in rows if row["set"] == name]
        n_draws = len({row["draw"] for row in of_set})
        title = (
            f"{name}: mean of the largest probability, {n_draws} draws; before → now"
        )
        text += [*list_table(title, table(of_set)), ""]
    return "\n".join(text)


def table(rows: list[Any]) -> list[list[str]]:
    """Return the rows of the table of a set."""
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    found = [["", *kinds, "log loss of test images"]]
    for method in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == method]
        cells = [
            both([row for row in own if row["kind"] == kind], "mean", 2)
            for kind in kinds
        ]
        ordinary = [row for row in own if row["kind"] == TEST]
        found.append([method, *cells, both(ordinary, "log_loss", 3)])
    return found


def both(rows: list[Any], score: str, places: int) -> str:
    """Return a mean without familiarity and with it."""
    before, now = (
        statistics.fmean(row[name] for row in rows)
        for name in (f"{score}_before", score)
    )
    return f"{before:.{places}f} → {now:.{places}f}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
