"""Write what finite networks are worth as tables for the page on them.

Run as ``python docs/figures/networks_table.py <target>``; reads
benchmarks/results/finite_networks.json and regression.json, and says how to make what
there is not.
"""

import statistics
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from speed_table import BENCHMARKS, list_table, read_record

RESULTS = BENCHMARKS / "results" / "finite_networks.json"
REGRESSION = RESULTS.with_name("regression.json")

MISSING = (
    "The figures of finite networks have not been measured for this build of the "
    "documentation. ``python -m benchmarks finite_networks`` measures them.\n"
)
SETS = {
    "boston": "Boston",
    "concrete": "Concrete",
    "energy": "Energy",
    "wine_red": "Wine",
    "kin8nm": "Kin8nm",
    "power_plant": "Power plant",
    "protein": "Protein",
    "eeg_eye_state": "EEG",
    "htru2": "HTRU2",
    "magic": "Magic",
}
# Exact processes of the same splits: of the prior of the networks, and the likeliest.
EXACT = {"rbf": "Exact, the prior's kernel", "largest evidence": "Exact, best evidence"}
NAMES = {
    "functions, chains": 'Kernel as prior, "sghmc"',
    "functions, bootstrap": 'Kernel as prior, "bootstrap"',
    "functions, bootstrap as printed": "The same as printed",
    "matched, chains": '"matched", "sghmc"',
    "weights, bootstrap": '"weights", "bootstrap"',
    "weights, chains": '"weights", "sghmc"',
    "ensemble": '"weights", "ensemble"',
    "scikit-learn, bag of networks": "scikit-learn, 20 networks",
    **{name: name for name in EXACT.values()},
    "exact process": "Exact process",
    "process of 500 landmarks": "Process, 500 landmarks",
    "random features, exact": "Process, 5000 features",
    "random features, 50 draws": "Process, 5000 features, 50 draws",
}
AGREEMENT = {"rhat": "R-hat of the chains, 1.1 or less if they agree"}
SCORES = {"rmse": "Root mean square error", "nlpd": "Negative log density", **AGREEMENT}
CLASS_SCORES = {"error": "Error", "log_loss": "Log loss", **AGREEMENT}
IMAGES = {
    "exact process": "Exact process of the deep network",
    "exact process of the default network": "Exact process of `convnet()`",
    "network, prior of functions": "Small networks, prior of the deep one",
    "network, prior of functions of variance 1": "The same with a variance of 1",
    "network, prior of weights": "Small networks, prior of weights",
    "network, ensemble": "Small networks, ensemble",
}
HEADER = ["", "Error", "Log loss", "Calibration error", "Fit", "1000 predictions"]


def main(target: Path) -> None:
    """Write the tables."""
    exact = (read_record(REGRESSION) or {}).get("regression", [])
    target.write_text(all_tables(read_record(RESULTS), exact))


def all_tables(record: Any, exact: list[Any]) -> str:
    """Return the tables of images, of numbers and of classes."""
    if not record:
        return MISSING
    parts = of_images(record["images"])
    rows = most_splits(record["tables"])
    places = {(row["set"], row["split"]) for row in rows}
    rows += [
        row | {"method": EXACT[row["method"]]}
        for row in exact
        if row["method"] in EXACT and (row["set"], row["split"]) in places
    ]
    for i, (score, title) in enumerate(SCORES.items()):
        parts += by_set(title, rows, score, record["reported"], i)
    for name, reported in record.get("reported_classes", {}).items():
        own = [row for row in record.get("classes", []) if row["table"] == name]
        own = most_splits(own)
        for i, (score, title) in enumerate(CLASS_SCORES.items()):
            parts += by_set(f"{title}, tables {name}", own, score, reported, i)
    return "\n".join([*parts, told_of(record)])


def most_splits(rows: list[Any]) -> list[Any]:
    """Return, for each set and method, the rows of one number of steps.

    It is the one with the most splits, and of these the largest.
    """
    splits = Counter((row["set"], row["method"], row["effort"]) for row in rows)
    best: dict[Any, Any] = {}
    for (name, method, effort), count in splits.items():
        place = (name, method)
        best[place] = max(best.get(place, (0, 0.0)), (count, effort))
    return [row for row in rows if best[row["set"], row["method"]][1] == row["effort"]]


def most_steps(rows: list[Any], *keys: str) -> list[Any]:
    """Return the rows with the most steps of each place."""
    found: dict[Any, Any] = {}
    for row in rows:
        place = tuple(row[key] for key in keys)
        if place not in found or row["effort"] >= found[place]["effort"]:
            found[place] = row
    return list(found.values())


def by_set(
    title: str, rows: list[Any], score: str, reported: Any, index: int
) -> list[str]:
    """Return a table with a column for each set, the figures of the source below."""
    rows = [row for row in rows if row.get(score) is not None]
    sets = [name for name in SETS if any(row["set"] == name for row in rows)]
    if not sets:
        return []
    table = [["", *(SETS[name] for name in sets)]]
    for method, told in NAMES.items():
        own = [row for row in rows if row["method"] == method]
        if own:
            table.append([told, *(mean(own, name, score) for name in sets)])
    for method, values in reported.items():
        figures = [values.get(name, ()) for name in sets]
        if any(len(found) > index for found in figures):
            cells = [
                f"*{figure(found[index], score)}*" if len(found) > index else ""
                for found in figures
            ]
            table.append([f"*{NAMES[method]}*", *cells])
    return ["\n".join([*list_table(title, table), ""])]


def mean(rows: list[Any], name: str, score: str) -> str:
    """Return the mean of a score over the splits of a set, nothing without any."""
    values = [row[score] for row in rows if row["set"] == name]
    if not values:
        return ""
    return figure(statistics.fmean(values), score)


def figure(value: float, score: str) -> str:
    """Return a score as text; errors are per cent."""
    return f"{value:.1%}" if score == "error" else f"{value:.3g}"


def of_images(rows: list[Any]) -> list[str]:
    """Return a table for each number of images: for each method its most steps."""
    parts = []
    for place in sorted({(row["side"], row["n"]) for row in rows}):
        own = [row for row in rows if (row["side"], row["n"]) == place]
        own = most_steps(own, "method")
        table = [HEADER]
        for method, told in IMAGES.items():
            table += [image_cells(told, row) for row in own if row["method"] == method]
        side, n = place
        title = f"MNIST, {side} x {side} pixels, {n} images, {own[0]['n_test']} judge"
        parts.append("\n".join([*list_table(title, table), ""]))
    return parts


def image_cells(told: str, row: Any) -> list[str]:
    """Return the cells of a way to learn images."""
    return [
        told,
        f"{row['error']:.1%}",
        f"{row['log_loss']:.3f}",
        f"{row['calibration_error']:.3f}",
        f"{row['fit_cpu_seconds']:.0f} s",
        f"{row['predict_cpu_seconds']:.2f} s",
    ]


def told_of(record: Any) -> str:
    """Return a sentence on the splits, and where they were measured."""
    rows = [*record["tables"], *record.get("classes", []), *record["images"]]
    splits = {row["split"] for row in rows if "split" in row}
    n = "one published split" if len(splits) == 1 else f"up to {len(splits)} splits"
    places = Counter(row.get("card") or row["processor"] for row in rows)
    return (
        f"Means over {n} of each set; in italics what the source reports. Seconds "
        f"are of the processor. Measured on: {', '.join(dict(places.most_common()))}.\n"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
