"""Write what attacks and images of other kinds do as tables for the page on them.

Run as ``python docs/figures/robustness_table.py <target>``; reads
benchmarks/results/robustness.json, and says how to make it if there is none.
"""

import sys
from pathlib import Path
from typing import Any

from speed_table import BENCHMARKS, list_table, read_record

RESULTS = BENCHMARKS / "results" / "robustness.json"

MISSING = (
    "The figures have not been measured for this build of the documentation. "
    "``python benchmarks/robustness.py`` measures them.\n"
)
ATTACKS = {"fgsm": "one step", "pgd": "many steps"}


def main(target: Path) -> None:
    """Write the tables."""
    target.write_text(tables(read_record(RESULTS)))


def tables(record: Any) -> str:
    """Return a table of the accuracies under attack, and one of areas."""
    if not record or not record["curves"]:
        return MISSING
    curves, kinds = record["curves"], record["kinds"]
    n_test = curves[0]["n_test"]
    under = [["", *(f"epsilon {epsilon:g}" for epsilon in curves[0]["epsilon"])]]
    for row in curves:
        name = f"{row['model']}, {ATTACKS[row['attack']]}"
        under.append([name, *(f"{100.0 * one:.0f}" for one in row["accuracy"])])
    away = [["", *kinds[0]["areas"]]]
    for row in kinds:
        name = f"{row['model']}, {row['score']}"
        away.append([name, *(f"{area:.2f}" for area in row["areas"].values())])
    titles = (
        f"Accuracy of {n_test} test images in percent, under attack",
        f"{n_test} digits against {n_test} others: area under the curve",
    )
    pairs = zip(titles, (under, away), strict=True)
    return "\n".join("\n".join([*list_table(*pair), ""]) for pair in pairs)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
