"""Write how good answers about data are, as tables for the pages of the questions.

Run as ``python docs/figures/questions_table.py <target>``; reads
benchmarks/results/questions.json, and says how to make it if there is none. The target
names a folder, into which a table is written for each part of the benchmark.
"""

import statistics
import sys
from pathlib import Path
from typing import Any

from speed_table import BENCHMARKS, list_table, read_record

RESULTS = BENCHMARKS / "results" / "questions.json"

MISSING = (
    "The figures have not been measured for this build of the documentation. "
    "``python -m benchmarks questions`` measures them.\n"
)
OURS = (
    *("prediction_set", "prediction_interval", "predict_interval", "ImageClassifier"),
    *("variance", "uncertain variance", "audit"),
)
# Scores of each part: what a column is called, and how a number is written.
COLUMNS = {
    "sets": {
        "coverage_0.9": ("coverage at 90 %", "{:.3f}"),
        "size_0.9": ("labels", "{:.2f}"),
        "coverage_0.95": ("at 95 %", "{:.3f}"),
        "size_0.95": ("labels", "{:.2f}"),
        "fit_cpu_seconds": ("fit, s", "{:.3g}"),
        "ask_cpu_seconds_of_1000": ("1000 images, s", "{:.2g}"),
    },
    "intervals": {
        "coverage_0.9": ("coverage at 90 %", "{:.3f}"),
        "width_0.9": ("width", "{:.2f}"),
        "coverage_0.95": ("at 95 %", "{:.3f}"),
        "width_0.95": ("width", "{:.2f}"),
        "fit_cpu_seconds": ("fit, s", "{:.2g}"),
    },
    "novelty": {
        "alarms_0.05": ("false alarms", "{:.3f}"),
        "found_0.05": ("unseen classes found", "{:.3f}"),
        "auc": ("AUC", "{:.3f}"),
        "found_strange_0.05": ("strange images found", "{:.3f}"),
        "auc_strange": ("AUC", "{:.3f}"),
        "ask_cpu_seconds_of_1000": ("1000 images, s", "{:.2g}"),
    },
    "labels": {
        "precision_at_k": ("wrong among the first", "{:.2f}"),
        "n_told": ("told", "{:.0f}"),
        "precision_told": ("wrong of these", "{:.2f}"),
        "recall_told": ("told of the wrong ones", "{:.2f}"),
        "n_doubtful": ("worth a look", "{:.0f}"),
        "recall_listed": ("in either list", "{:.2f}"),
        "cpu_seconds": ("seconds", "{:.3g}"),
    },
    "query": {
        "accuracy_50": ("accuracy, 50 labels", "{:.3f}"),
        "accuracy_100": ("100", "{:.3f}"),
        "accuracy_200": ("200", "{:.3f}"),
        "accuracy_400": ("400", "{:.3f}"),
    },
    "attribution": {
        "deletion": ("deletion", "{:.3f}"),
        "insertion": ("insertion", "{:.3f}"),
        "accuracy": ("accuracy", "{:.3f}"),
        "ask_cpu_seconds_of_1000": ("1000 maps, s", "{:.2g}"),
    },
}


def main(target: Path) -> None:
    """Write the table of each part."""
    record = read_record(RESULTS) or {}
    for part, columns in COLUMNS.items():
        text = table(record.get(part, []), columns)
        target.with_name(f"questions_{part}.rst.inc").write_text(text)


def table(rows: list[Any], columns: dict[str, tuple[str, str]]) -> str:
    """Return a table with the means over draws of each method, set by set."""
    if not rows:
        return MISSING
    parts = []
    for data in dict.fromkeys(row["data"] for row in rows):
        of_data = [row for row in rows if row["data"] == data]
        found = [["", *(name for name, _ in columns.values())]]
        for method in dict.fromkeys(row["method"] for row in of_data):
            own = [row for row in of_data if row["method"] == method]
            shown = f"**{method}**" if method.startswith(OURS) else method
            found.append([shown, *(cell(own, *one) for one in columns.items())])
        n_draws = len({row["draw"] for row in of_data})
        over = f"means over {n_draws} draws" if n_draws > 1 else "one draw"
        title = f"{data}: {over}"
        parts += [*list_table(title, found), ""]
    return "\n".join(parts)


def cell(rows: list[Any], score: str, shown: tuple[str, str]) -> str:
    """Return the mean of a score over the rows that have it."""
    values = [row[score] for row in rows if row.get(score) is not None]
    return shown[1].format(statistics.fmean(values)) if values else ""


if __name__ == "__main__":
    main(Path(sys.argv[1]))
