"""Write what classifiers make of few images as tables for the page on the choice.

Run as ``python docs/figures/small_data_table.py <target>``; reads
benchmarks/results/small_data.json, and says how to make it if there is none. A table of
benchmarks/results/gem.json is written beside the target.
"""

import math
import statistics
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from speed_table import BENCHMARKS, list_table, read_record

RESULTS = BENCHMARKS / "results" / "small_data.json"
OF_FIFTY = BENCHMARKS / "results" / "gem.json"

MISSING = (
    "The figures have not been measured for this build of the documentation. "
    "``python -m benchmarks small_data`` measures them.\n"
)
DATA = {"digits": "Digits of 8x8 pixels", "mnist": "MNIST", "cifar10": "CIFAR-10"}
NAMES = {
    "ImageClassifier": "**ImageClassifier**",
    "PatchGPClassifier": "**PatchGPClassifier**",
    "network": "**ConvNetGPClassifier**",
    "scattering, network": "**Scattering, ConvNetGPClassifier**",
    "scattering, SVC": "Scattering, SVC",
    "gradients, SVC": "Histograms of gradients, SVC",
    "SVC": "SVC",
    "scattering, whitening, SVC": "Scattering, whitening, SVC",
    "nearest neighbours": "Nearest neighbours",
    "logistic regression": "Logistic regression",
    "gradient boosting": "Gradient boosting",
}
SHOWN, OVERVIEW = ("mnist", "cifar10"), 500  # sets and images of the overview
FIRST = 2000  # test images on which all models are compared
# "peak_bytes" is a number, but not on each system.
NO_NUMBERS = {"data", "model", "day", "first", "processor", "peak_bytes"}
PROBABILISTIC = ("log_loss", "calibration_error")
HEADER = [
    "",
    "Accuracy",
    "Images 2000-9999",
    "Log loss",
    "Calibration error",
    "Fit",
    "1000 images",
    "Draws",
]


def main(target: Path) -> None:
    """Write the tables."""
    target.write_text(tables(read_record(RESULTS)))
    short = target.with_name("small_data_short.rst.inc")
    short.write_text(overview(read_record(RESULTS)))
    target.with_name("gem_table.rst.inc").write_text(of_fifty(read_record(OF_FIFTY)))


def of_fifty(record: Any) -> str:
    """Return a table with a row for each fifty photographs of a class."""
    rows = record["gem"] if record else []
    if not rows:
        return MISSING.replace("small_data", "gem")
    found = [["", *HEADER[1:2], *HEADER[3:7]]]
    for row in rows:
        own = cells(f"images of part {row['fifty'] + 1}", row | {"n_draws": 1})
        found.append([own[0], own[1], *own[3:7]])
    title = "ImageClassifier, 500 photographs of CIFAR-10"
    return "\n".join([*list_table(title, found), ""])


def tables(record: Any) -> str:
    """Return a table for each set and number of images that was measured."""
    rows = record["few_images"] if record else []
    if not rows:
        return MISSING
    parts = others(rows)
    for data, n_train in places(rows):
        head = f"{DATA[data]}, {n_train} training images"
        found = averages(rows, data, n_train)
        table = [HEADER] + [cells(name, row) for name, row in found.items()]
        here = [r for r in rows if (r["data"], r["n_train"]) == (data, n_train)]
        parts += [*list_table(head, table), "", measured_on(here), ""]
    return "\n".join(parts)


def overview(record: Any) -> str:
    """Return one table of a thousand images of each kind."""
    rows = record["few_images"] if record else []
    found = [averages(rows, data, OVERVIEW) for data in SHOWN]
    if not all(found):
        return MISSING
    order = [model for model in found[0] if model in found[1]]
    table = [["", *(DATA[data] for data in SHOWN)]]
    table += [
        [NAMES.get(model, model), *(short(means[model]) for means in found)]
        for model in order
    ]
    title = f"{OVERVIEW} training images: accuracy, log loss, seconds of the fit"
    return "\n".join([*list_table(title, table), ""])


def measured_on(rows: list[Any]) -> str:
    """Return a sentence with the processor of most rows, and those of the others."""
    n_threads = max(row["n_threads"] for row in rows)
    threads = "one thread" if n_threads == 1 else f"{n_threads} threads"
    (usual, _), *others = Counter(row["processor"] for row in rows).most_common()
    parts = [f"Measured on {threads} of: {usual}"]
    for processor, _ in others:
        listed = ", ".join(
            f"{NAMES.get(row['model'], row['model'])} (draw {row['draw']})"
            for row in rows
            if row["processor"] == processor
        )
        parts.append(f"{processor}: {listed}")
    return "; ".join(parts) + "."


def places(rows: list[Any]) -> list[tuple[str, int]]:
    """Return the sets and numbers of training images that have a table of their own."""
    found = {(row["data"], row["n_train"]) for row in rows if row["data"] in DATA}
    order = list(DATA)
    return sorted(found, key=lambda place: (order.index(place[0]), place[1]))


def others(rows: list[Any]) -> list[str]:
    """Return a table for each number of images of sets of other kinds."""
    parts: list[str] = []
    others = [row for row in rows if row["data"] not in DATA]
    for n_train in sorted({row["n_train"] for row in others}):
        here = [row for row in others if row["n_train"] == n_train]
        models = [name for name in NAMES if any(row["model"] == name for row in here)]
        table = [["", *(NAMES[name] for name in models)]]
        for data in dict.fromkeys(row["data"] for row in here):
            found = averages(here, data, n_train)
            table.append([data, *(short(found.get(name)) for name in models)])
        head = f"Images of other kinds, {n_train} training images"
        parts += [*list_table(head, table), "", measured_on(here), ""]
    return parts


def short(row: Any) -> str:
    """Return accuracy, log loss and the seconds of a fit; nothing without a row."""
    if row is None:
        return ""
    accuracy = f"{100 * (1 - row['error']):.1f} %"
    return f"{accuracy}, {row['log_loss']:.2f}, {seconds(row['fit_cpu_seconds'])}"


def averages(rows: list[Any], data: str, n_train: int) -> dict[str, Any]:
    """Return means over the draws of each model, the most accurate first.

    All rows are judged on the same test images: on all of them, or on the first ones if
    there are rows of these alone.
    """
    here = [row for row in rows if (row["data"], row["n_train"]) == (data, n_train)]
    if any(row["n_test"] <= FIRST for row in here):
        here = [on_first(row) for row in here]
    found = {}
    for name in {row["model"] for row in here}:
        draws = [row for row in here if row["model"] == name]
        scores = {score for row in draws for score in row}
        found[name] = {
            score: statistics.fmean(row[score] for row in draws if score in row)
            for score in scores - NO_NUMBERS
        }
        found[name]["n_draws"] = len(draws)
    return dict(sorted(found.items(), key=lambda pair: (pair[1]["error"], pair[0])))


def on_first(row: Any) -> Any:
    """Return a row with its scores on the first test images, where these are known.

    Of more images, the error on the first follows from those on all and on the others.
    """
    n = row["n_test"]
    if n <= FIRST:
        return row
    error = (n * row["error"] - (n - FIRST) * row["error_of_others"]) / FIRST
    found = row | {"error": error}
    found["standard_error"] = math.sqrt(error * (1.0 - error) / FIRST)
    others = {key: found[key] for key in found if key not in PROBABILISTIC}
    return others | {key: row["first"][key] for key in PROBABILISTIC if "first" in row}


def cells(name: str, row: Any) -> list[str]:
    """Return the cells of a model."""
    others = row.get("error_of_others")
    return [
        NAMES.get(name, name),
        f"{100 * (1 - row['error']):.1f} ± {100 * row['standard_error']:.1f} %",
        "" if others is None else f"{100 * (1 - others):.1f} %",
        known(row, "log_loss"),
        known(row, "calibration_error"),
        seconds(row["fit_cpu_seconds"]),
        seconds(row["predict_cpu_seconds_of_1000"]),
        str(row["n_draws"]),
    ]


def known(row: Any, score: str) -> str:
    """Return a score as text; nothing if no draw has it on the first test images."""
    return f"{row[score]:.3f}" if score in row else ""


def seconds(value: float) -> str:
    """Return seconds as text: two digits of few, whole ones of many."""
    return f"{value:.0f} s" if value >= 10 else f"{value:.2g} s"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
