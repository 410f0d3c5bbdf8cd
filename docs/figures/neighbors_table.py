"""Write what weights of neighbours gain as tables for the page on neighbours.

Run as ``python docs/figures/neighbors_table.py <target>``; reads
benchmarks/results/neighbors.json and regression.json, and says how to make what there
is not.
"""

import statistics
import sys
from pathlib import Path
from typing import Any

from speed_table import BENCHMARKS, list_table, read_record

RESULTS = BENCHMARKS / "results" / "neighbors.json"
REGRESSION = RESULTS.with_name("regression.json")

MISSING = (
    "The figures have not been measured for this build of the documentation. "
    "``python -m benchmarks neighbors`` measures them.\n"
)
SETS = {
    "protein": ("Protein", 1.0),
    "power_plant": ("Power plant", 1.0),
    "concrete": ("Concrete", 1.0),
    "kin8nm": ("Kin8nm, x 1000", 1e3),
    "boston": ("Boston", 1.0),
    "yacht": ("Yacht", 1.0),
    "Doppler 400": ("Doppler, 400 points, x 1000", 1e3),
    "Doppler 200": ("Doppler, 200 points, x 1000", 1e3),
    "Doppler 100": ("Doppler, 100 points, x 1000", 1e3),
}
METHODS = {
    "uniform": "uniform",
    "epanechnikov": "epanechnikov",
    "gaussian": "gaussian",
    "hilbert": "hilbert",
    "neighbours alone": "neighbours' mean",
    "exact, evidence": "exact",
}
EXACT, OF_EXACT = "exact, evidence", "largest evidence"


def main(target: Path) -> None:
    """Write the table."""
    exact = (read_record(REGRESSION) or {}).get("regression", [])
    target.write_text(table(read_record(RESULTS), exact))


def table(record: Any, exact: list[Any]) -> str:
    """Return mean squared errors of each set and curve, means over splits."""
    if not record:
        return MISSING
    rows = [["", "Splits", *METHODS.values()]]
    measured = [*record["tables"], *record["curves"]]
    for name, (told, factor) in SETS.items():
        own = [row for row in measured if row["set"] == name]
        splits = {row["split"] for row in own}
        if not own:
            continue
        own += [
            {"method": EXACT, "mse": row["rmse"] ** 2}
            for row in exact
            if (row["set"], row["method"]) == (name, OF_EXACT)
            and row["split"] in splits
        ]
        means = {
            method: factor * statistics.fmean(values)
            for method in METHODS
            if (values := [row["mse"] for row in own if row["method"] == method])
        }
        best = min(means.values())
        cells = [
            emphasized(means[method], best) if method in means else ""
            for method in METHODS
        ]
        rows.append([told, str(len(splits)), *cells])
        source = record["reported"].get(name)
        if source:
            figures = [
                f"*{factor * source[method]:.3g}*" if method in source else ""
                for method in METHODS
            ]
            rows.append(["*source*", "", *figures])
    title = "Mean squared errors, means over the splits or over draws of the noise"
    return "\n".join([*list_table(title, rows), ""])


def emphasized(value: float, best: float) -> str:
    """Return a figure, in bold letters if it is the least of its row."""
    told = f"{value:.3g}"
    return f"**{told}**" if value == best else told


if __name__ == "__main__":
    main(Path(sys.argv[1]))
