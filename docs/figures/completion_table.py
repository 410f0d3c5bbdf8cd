"""Write what completions gave on MNIST as tables for the page on them.

Run as ``python docs/figures/completion_table.py <target>``; reads
benchmarks/results/completion.json, and says how to make it if there is none.
"""

import sys
from pathlib import Path
from typing import Any

from speed_table import BENCHMARKS, list_table, read_record

RESULTS = BENCHMARKS / "results" / "completion.json"

from benchmarks.completion.published import find_reported  # noqa: E402

MISSING = (
    "The figures have not been measured for this build of the documentation. "
    "``python -m benchmarks completion`` measures them.\n"
)
HEADER = [
    "Strategy",
    "Entries",
    "Matrix / exact",
    "Fit / exact matrix",
    "Predict / exact",
    "Relative RMSE",
    "Validation %",
    "Test %",
    "Log loss",
]
TITLES = {
    "1": "5000 training images, 1000 for validation, 1000 for tests",
    "2": "20 000 training images, 2500 for validation, 2500 for tests",
    "3": "25 000 training images, 2500 for validation, 2500 for tests",
    "4": "12 500 training images, 1000 for validation, 2000 for tests",
}
MIXED = "completed matrix with exact covariances of new images, as in the source"
MIXED_CURVES = "as in the source, test accuracy in percent by the share of the entries"
MIXED_HEADER = [
    "Completion",
    "Solver",
    "Relative RMSE",
    "Validation %",
    "Test %",
    "Log loss",
    "Source: validation %",
    "test %",
]
STOPPED = "lsqr"  # as the source did
COMBINED = "5000 training images: combinations"
RANDOM = (
    "Entries from U(0, 1), n = 5000, by the share that is missing: relative RMSE, "
    "minutes of a core to a tolerance of 1e-3, and the minutes of the source"
)
SHOWN = (None, 0.2)  # fractions
MANY = [i / 10 for i in range(1, 10)]
LEAST_COLUMNS = 4  # of a strategy in the table by fractions


def main(target: Path) -> None:
    """Write the tables."""
    target.write_text(tables(read_record(RESULTS)))


def tables(record: Any) -> str:
    """Return a table for each setting that was measured."""
    if not record or not record["settings"]:
        return MISSING
    parts = []
    for number, title in TITLES.items():
        setting = record["settings"].get(number)
        if setting is None:
            continue
        parts.append("\n".join(list_table(title, of_setting(setting))))
        curves = by_fraction(setting["rows"])
        n_train = title.partition(",")[0]
        if len(curves) > 1:
            head = f"{n_train}: test accuracy in percent by the share of the entries"
            parts.append("\n".join(list_table(head, curves)))
        if setting.get("mixed"):
            rows = of_mixed(int(number), setting)
            parts.append("\n".join(list_table(f"{n_train}: {MIXED}", rows)))
        stopped = [row for row in setting.get("mixed", []) if row["solver"] == STOPPED]
        if len(curves := by_fraction(stopped)) > 1:
            parts.append("\n".join(list_table(f"{n_train}: {MIXED_CURVES}", curves)))
        if setting.get("combined"):
            parts.append("\n".join(list_table(COMBINED, combined(setting))))
    if record["random"]:
        parts.append("\n".join(list_table(RANDOM, of_random(record))))
    return "\n\n".join(parts) + "\n"


def by_fraction(rows: list[Any]) -> list[list[str]]:
    """Return a row for each strategy that was measured at many fractions."""
    found: dict[str, dict[float, str]] = {}
    for row in rows:
        if row["fraction"] is not None:
            told = f"{100.0 * row['test_accuracy']:.1f}"
            found.setdefault(row["strategy"], {})[row["fraction"]] = told
    head = ["Strategy", *(f"{fraction:.0%}" for fraction in MANY)]
    return [head] + [
        [name, *(told.get(fraction, "") for fraction in MANY)]
        for name, told in found.items()
        if len(told) >= LEAST_COLUMNS
    ]


def of_mixed(number: int, setting: Any) -> list[list[str]]:
    """Return a row for each completion and solver, with what the source reports."""
    found = [MIXED_HEADER]
    for row in setting["mixed"]:
        if row["fraction"] not in SHOWN:
            continue
        name, solver = row["strategy"], row["solver"]
        published = find_reported(number, name, row["fraction"])
        told = [published.get(part, "") for part in ("validation", "test")]
        beside = told if solver == STOPPED else ["", ""]
        error = row["relative_rmse"]
        error_told = "" if error is None else f"{error:.2g}"
        found.append([name, solver, error_told, *accuracies(row), *map(str, beside)])
    return found


def combined(setting: Any) -> list[list[str]]:
    """Return a row for each combination."""
    head = ["Combination", "Exact entries", "Validation %", "Test %", "Log loss"]
    return [head] + [
        [row["strategy"], f"{row['share']:.1%}", *accuracies(row)]
        for row in setting["combined"]
    ]


def of_random(record: Any) -> list[list[str]]:
    """Return a row for each share that is missing, a column for each method."""
    reported = record["source"]["random"]
    methods = list(reported["minutes"])
    cells: dict[float, dict[str, str]] = {}
    for row in record["random"]:
        if row["n"] != reported["n"]:
            continue
        missing, name = row["missing"], row["strategy"]
        minutes = reported["minutes"][name][reported["missing"].index(missing)]
        told = f"{row['relative_rmse']:.3f}; {row['minutes']:.2f}; {minutes}"
        cells.setdefault(missing, {})[name] = told
    return [["Missing", *methods]] + [
        [f"{missing:.0%}", *(told.get(name, "") for name in methods)]
        for missing, told in sorted(cells.items())
    ]


def of_setting(setting: Any) -> list[list[str]]:
    """Return the rows at a fifth of the entries, the best on validation first."""
    rows = [row for row in setting["rows"] if row["fraction"] in SHOWN]
    rows.sort(key=lambda row: -row["validation_accuracy"])
    return [HEADER] + [of_row(row) for row in rows]


def of_row(row: Any) -> list[str]:
    """Return the cells of a strategy."""
    error = row["relative_rmse"]
    return [
        f"**{row['strategy']}**" if row["strategy"] == "exact" else row["strategy"],
        f"{row['share']:.1%}",
        f"{row['gram_ratio']:.2f}",
        f"{row['fit_ratio']:.2f}",
        f"{row['predict_ratio']:.2f}",
        "" if error is None else f"{error:.2g}",
        *accuracies(row),
    ]


def accuracies(row: Any) -> list[str]:
    """Return the cells of how well a strategy predicts."""
    return [
        f"{100.0 * row['validation_accuracy']:.2f}",
        f"{100.0 * row['test_accuracy']:.2f}",
        f"{row['test_log_loss']:.3f}",
    ]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
