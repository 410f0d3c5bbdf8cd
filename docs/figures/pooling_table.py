"""Write what averages over positions buy and cost as tables for their page.

Run as ``python docs/figures/pooling_table.py <target>``; reads
benchmarks/results/pooling.json, and says how to make it if there is none.
"""

import math
import statistics
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from small_data_table import seconds
from speed_table import BENCHMARKS, list_table, read_record

RESULTS = BENCHMARKS / "results" / "pooling.json"

MISSING = (
    "The figures have not been measured for this build of the documentation. "
    "``python -m benchmarks pooling`` measures them.\n"
)
DATA = {
    "mnist": "MNIST",
    "cifar10 16x16": "CIFAR-10, means of 2x2 pixels",
    "cifar10 32x32": "CIFAR-10",
}
NETWORKS = {
    "convnet()": "``convnet()``",
    "flatten": "``Flatten``",
    "local 1": "local, radius 1",
    "local 2": "local, radius 2",
    "local 4": "local, radius 4",
    "local 1, step 2": "local, radius 1, step 2",
    "local 2, step 2": "local, radius 2, step 2",
    "lattice 2": "``lattice=2``",
    "myrtle": "``myrtle()``",
    "myrtle, local 2": "Myrtle-5, radius 2 at its end",
    "flatten, NTK": "``Flatten``, NTK",
    "local 2, step 2, NTK": "local, radius 2, step 2, NTK",
    "myrtle, NTK": "``myrtle()``, NTK",
    "myrtle 7": "``myrtle(7)``",
    "ImageClassifier": "``ImageClassifier``",
    "ImageClassifier, parts given": "``ImageClassifier`` of given parts",
    "ImageClassifier and an average": "``ImageClassifier`` and an average",
}
WAYS = {
    "exact": "",
    "landmarks": "N / 5 landmarks",
    "subset": "N / 5 images",
    "larger subset": "3 N / 5 images",
    "pivoted landmarks": "N / 5 landmarks by pivots",
}
# Means over the draws.
MEANS = ("error", "log_loss", "calibration_error", "loo_log_loss", "pair_us")
MARKS = "†‡§¶"  # behind seconds of other processors than that of most rows
HEADER = [
    "Network",
    "Of",
    "Accuracy",
    "Log loss",
    "Left out",
    "Calibration error",
    "Fit",
    "Pair",
]


def main(target: Path) -> None:
    """Write the tables."""
    target.write_text(tables(read_record(RESULTS)))


def tables(record: Any) -> str:
    """Return a table for each set and number of images that was measured."""
    rows = record["pooling"] if record else []
    if not rows:
        return MISSING
    own = record["machine"]["processor"]  # of rows that do not tell theirs
    for row in rows:
        row["place"] = row.get("card", row.get("processor", own))
    (usual, _), *others = Counter(row["place"] for row in rows).most_common()
    marks = {name: mark for (name, _), mark in zip(others, MARKS, strict=False)}
    parts = []
    for data, title in DATA.items():
        for n_train in sorted({row["n_train"] for row in rows if row["data"] == data}):
            here = [r for r in rows if (r["data"], r["n_train"]) == (data, n_train)]
            table = [HEADER, *lines(here, marks)]
            head = f"{title}, N = {n_train} training images"
            parts.append("\n".join([*list_table(head, table), ""]))
    n_threads = max(row["n_threads"] for row in rows)
    threads = "one thread" if n_threads == 1 else f"{n_threads} threads"
    names = "; ".join([usual, *(f"{name} ({mark})" for name, mark in marks.items())])
    return "\n".join([*parts, f"Measured on {threads} of: {names}.\n"])


def lines(rows: list[Any], marks: dict[str, str]) -> list[list[str]]:
    """Return the cells of each network, exact ones and those with landmarks."""
    order = list(NETWORKS)
    found = sorted(
        {(row["way"], row["model"]) for row in rows},
        key=lambda pair: (pair[0], order.index(pair[1].split(", ZCA")[0]), pair[1]),
    )
    return [
        cells(model, [r for r in rows if (r["way"], r["model"]) == (way, model)], marks)
        for way, model in found
    ]


def cells(model: str, draws: list[Any], marks: dict[str, str]) -> list[str]:
    """Return the cells of a network: means over the draws."""
    places = sorted({draw["place"] for draw in draws} & marks.keys())
    mark = "".join(f" {marks[place]}" for place in places)
    time = "fit_seconds" if "card" in draws[0] else "fit_cpu_seconds"
    network = model.split(", ZCA")[0]
    title = NETWORKS[network] + model.removeprefix(network)
    row = {
        name: statistics.fmean(draw[name] for draw in draws) for name in (*MEANS, time)
    }
    error = row["error"]
    deviation = math.sqrt(error * (1.0 - error) / draws[0]["n_test"])
    pair = row["pair_us"]
    return [
        title,
        WAYS[draws[0]["way"]],
        f"{100 * (1 - error):.1f} ± {100 * deviation:.1f} %",
        f"{row['log_loss']:.3f}",
        f"{row['loo_log_loss']:.3f}",
        f"{row['calibration_error']:.3f}",
        seconds(row[time]) + mark,
        (f"{pair:.0f} µs" if pair >= 10 else f"{pair:.1f} µs") + mark,
    ]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
