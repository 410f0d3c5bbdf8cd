"""Draw the accuracy by the number of labels, for each strategy that chooses images.

Run as ``python docs/figures/query_curves.py <target>``; reads
benchmarks/results/questions.json.
"""

import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
from questions_table import RESULTS
from speed_table import read_record

from skconvgp.display import QueryCurvesDisplay

PANELS = {"digits": "digits", "mnist": "MNIST", "cifar10": "CIFAR-10"}
NUMBERS = (50, 100, 200, 400)
STRATEGIES = ("random", "margin", "variance", "uncertain variance")


def main(target: Path) -> None:
    """Draw and save the panels of the sets that have rows."""
    rows = (read_record(RESULTS) or {}).get("query", [])
    measured = {row["data"] for row in rows}
    shown = [data for data in PANELS if data in measured] or list(PANELS)
    mpl.rcParams.update({"svg.hashsalt": "skconvgp", "font.family": "DejaVu Sans"})
    size = 11.0, 3.9
    figure, panels = plt.subplots(1, len(shown), figsize=size, squeeze=False)
    for axes, data in zip(panels[0], shown, strict=True):
        scores = scores_of(rows, data)
        if scores:
            QueryCurvesDisplay.from_scores(NUMBERS, scores, ax=axes)
            axes.get_legend().remove()
        n_draws = max(map(len, scores.values()), default=0)
        axes.set_title(f"{PANELS[data]}, {n_draws} draws", fontsize=11)
        axes.set(xscale="log", ylabel="")
        axes.set_xticks(NUMBERS, labels=map(str, NUMBERS))
        axes.set_xticks([], minor=True)
    panels[0, 0].set_ylabel("accuracy")
    marks, names = panels[0, 0].get_legend_handles_labels()
    figure.legend(marks, names, loc="lower center", ncols=4, frameon=False)
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    dates = {"metadata": {"Date": None}} if target.suffix == ".svg" else {"dpi": 110}
    figure.savefig(target, **dates)
    plt.close(figure)


def scores_of(rows: list[Any], data: str) -> dict[str, list[list[float]]]:
    """Return accuracies of each strategy: a row for each draw."""
    found: dict[str, list[list[float]]] = {}
    for row in rows:
        if row["data"] == data and row["method"] in STRATEGIES:
            values = [row[f"accuracy_{number}"] for number in NUMBERS]
            found.setdefault(row["method"], []).append(values)
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]))
