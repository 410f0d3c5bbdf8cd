"""Write what attacks and images of other kinds do as tables for the page on them.

Run as ``python docs/figures/robustness_table.py <target>``; reads
benchmarks/results/robustness.json, and says how to make it if there is none.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from speed_table import BENCHMARKS, list_table, read_record

RESULTS = BENCHMARKS / "results" / "robustness.json"

MISSING = (
    "The figures have not been measured for this build of the documentation. "
    "``python -m benchmarks robustness`` measures them.\n"
)
ATTACKS = {"fgsm": "one step", "pgd": "many steps"}


def main(target: Path) -> None:
    """Write the tables."""
    target.write_text(tables(read_record(RESULTS)))


def tables(record: Any) -> str:
    """Return tables of what attacks do, and one of areas."""
    if not record or not record["curves"]:
        return MISSING
    curves, kinds = record["curves"], record["kinds"]
    n_test = curves[0]["n_test"]
    under = {
        f"Accuracy of {n_test} test images in percent, under attack": of_curves(
            curves, "accuracy", lambda value: f"{100.0 * value:.0f}"
        ),
        "Their mean entropy; that of ten equal probabilities is 2.30": of_curves(
            curves, "entropy", "{:.2f}".format
        ),
        "Their mean latent variance": of_curves(curves, "variance", "{:.3f}".format),
    }
    away = [["", *kinds[0]["areas"]]]
    for row in kinds:
        name = f"{row['model']}, {row['score']}"
        away.append([name, *(f"{area:.2f}" for area in row["areas"].values())])
    areas = f"{n_test} digits against {n_test} others: area under the curve"
    pairs = [*under.items(), (areas, away)]
    return "\n".join("\n".join([*list_table(*pair), ""]) for pair in pairs)


def of_curves(
    curves: list[Any], part: str, told: Callable[[float], str]
) -> list[list[str]]:
    """Return a row for each model and attack that has a part, by the size of attack."""
    head = ["", *(f"epsilon {epsilon:g}" for epsilon in curves[0]["epsilon"])]
    return [head] + [
        [f"{row['model']}, {ATTACKS[row['attack']]}", *map(told, row[part])]
        for row in curves
        if None not in row[part]
    ]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
