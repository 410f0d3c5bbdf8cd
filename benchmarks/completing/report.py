"""What the figures say: tables with the source's figures beside ours, targets."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from peers.report import Target, find

from completing.source import (
    EXACT,
    IN_WORDS,
    RANDOM_ERROR,
    RANDOM_MINUTES,
    RANDOM_MISSING,
    RANDOM_N,
    REPORTED,
    SETTINGS,
    SUBSET,
    Figures,
    find_reported,
)

LEAST_ACCURACY = {1: 0.973, 2: 0.986}
LARGEST_RATIO = 0.3  # of the seconds of the exact matrix; predict no slower
KEYS = ("strategy", "fraction")
SOURCE = "source: val / test % / min"


def read(path: Path | None) -> Figures:
    """Return the figures so far."""
    empty: Figures = {"settings": {}, "random": []}
    return empty | (json.loads(path.read_text()) if path and path.exists() else {})


def save(path: Path | None, record: Figures) -> None:
    """Write the figures; the file is never half."""
    if not path:
        return
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps(record, indent=1) + "\n")
    os.replace(unfinished, path)


def put(rows: list[Figures], row: Figures, *names: str) -> None:
    """Add a row in the place of one that it repeats."""
    old = find(rows, **{name: row[name] for name in names})
    if old is None:
        rows.append(row)
    else:
        rows[rows.index(old)] = row


def dated(row: Figures) -> Figures:
    """Return a row with the day of today: rows of one file need not be of one run."""
    return row | {"day": datetime.now(UTC).date().isoformat()}


def reported() -> Figures:
    """Return the source's figures, for the file."""
    return {
        "images": {n: str(setting) for n, setting in SETTINGS.items()},
        "rows": REPORTED,
        "in_words": IN_WORDS,
        "random": {
            "n": RANDOM_N,
            "relative_rmse": RANDOM_ERROR,
            "missing": RANDOM_MISSING,
            "minutes": RANDOM_MINUTES,
        },
    }


def targets(number: int, rows: list[Figures]) -> list[Target]:
    """Return what is required of the best strategy that is cheap enough."""
    if number not in LEAST_ACCURACY:
        return []
    best = best_within(rows, LARGEST_RATIO)
    if best:
        share = best["fit_ratio"] / find(rows, strategy=EXACT)["fit_ratio"]
        print(
            f"setting {number}: {label(best)} takes {best['gram_ratio']:.0%} of the "
            f"seconds of the exact matrix, and with the solve {share:.0%} of the exact "
            "fit"
        )
    value = best["test_accuracy"] if best else 0.0
    told = f"setting {number}: test accuracy at {LARGEST_RATIO:.0%}"
    return [(told, value, "at least", LEAST_ACCURACY[number])]


def best_within(rows: list[Figures], ratio: float) -> Figures | None:
    """Return the row of the best strategy within a share of the exact seconds.

    The best is the one with most validation images right; no test image decides.
    """
    cheap = [
        row
        for row in rows
        if row["strategy"] != EXACT
        and row["gram_ratio"] <= ratio
        and row["predict_ratio"] <= 1.0
    ]
    return max(cheap, key=lambda row: float(row["validation_accuracy"]), default=None)


def print_beside_subset(rows: list[Figures]) -> None:
    """Print which strategies are better than a subset with as many entries."""
    for subset in rows:
        if subset["strategy"] != SUBSET:
            continue
        equal = [row for row in rows if row["fraction"] == subset["fraction"]]
        better = [row["strategy"] for row in equal if right(row) > right(subset)]
        told = ", ".join(better) or "none"
        print(f"more right than {label(subset)}: {told}")


def right(row: Figures) -> float:
    """Return the mean accuracy of validation and test images."""
    return float(row["validation_accuracy"] + row["test_accuracy"]) / 2.0


def print_setting(number: int, split: Any, exact: Figures) -> None:
    """Print the head of the table."""
    print(
        f"\nsetting {number}: {len(split.train.y)} training images, "
        f"{len(split.validation.y)} for validation, {len(split.test.y)} for tests; "
        f"{exact['estimator']}"
    )
    print(
        "Seconds are those of estimators with the kernel. Ratios are to the seconds of"
    )
    print("the exact matrix: of what takes its place (matrix), of the whole fit (fit).")
    print("pred. and cpu compare predictions, and whole fits by processor seconds.")
    print(IN_WORDS.get(number, ""))
    print(
        f"\n{'':<32}{'entries':>9}{'matrix s':>10}{'solve s':>9}{'predict s':>10}"
        f"{'matrix':>8}{'fit':>7}{'pred.':>7}{'cpu':>7}{'RMSE':>9}{'val %':>7}"
        f"{'test %':>8}{'loss':>7}  {SOURCE}"
    )


def print_row(number: int, row: Figures) -> None:
    """Print one strategy, the source's figures beside it."""
    error = row["relative_rmse"]
    told = "" if error is None else f"{error:.2g}"
    print(
        f"{label(row):<32}{row['share']:>9.1%}{row['gram_seconds']:>10.2f}"
        f"{row['solve_seconds']:>9.2f}{row['predict_seconds']:>10.2f}"
        f"{row['gram_ratio']:>8.2f}{row['fit_ratio']:>7.2f}"
        f"{row['predict_ratio']:>7.2f}{row['cpu_ratio']:>7.2f}{told:>9}"
        f"{accuracies(row)}{row['test_log_loss']:>7.3f}"
        f"  {beside(find_reported(number, row['strategy'], row['fraction']))}"
        f"{'' if row['converged'] else '  not converged'}",
        flush=True,
    )


def print_mixed(number: int, row: Figures) -> None:
    """Print the source's method, its own figures beside it."""
    published = find_reported(number, row["strategy"], row["fraction"])
    error = row["relative_rmse"]
    told = "" if error is None else f"{error:.2g}"
    print(
        f"{label(row):<32}{row['share']:>9.1%}{told:>10}"
        f"{row['solver']:>10}{accuracies(row)}{row['test_log_loss']:>7.3f}"
        f"  {beside(published)}",
        flush=True,
    )


def print_mixed_head() -> None:
    """Print what the rows are."""
    print("\nthe source's method: completed matrix, exact covariances with new images")
    print(
        f"{'':<32}{'entries':>9}{'RMSE':>10}{'solver':>10}{'val %':>7}{'test %':>8}"
        f"{'loss':>7}  {SOURCE}"
    )


def print_combined_head() -> None:
    """Print what the rows are."""
    print("\ncombinations; entries are those of the exact kernel")
    print(f"{'':<60}{'entries':>9}{'val %':>7}{'test %':>8}{'loss':>7}")


def print_combined(row: Figures) -> None:
    """Print one combination."""
    print(
        f"{label(row):<60}{row['share']:>9.1%}{accuracies(row)}"
        f"{row['test_log_loss']:>7.3f}",
        flush=True,
    )


def print_random_head(n: int) -> None:
    """Print what the rows are."""
    print(
        f"\nentries from U(0, 1), n = {n}, on one core; the mean has a relative RMSE "
        f"of 0.2887; the source, n = {RANDOM_N}: about {RANDOM_ERROR}"
    )
    print(f"{'':<20}{'missing':>9}{'RMSE':>9}{'rank':>6}{'minutes':>9}{'source':>9}")


def print_random(row: Figures) -> None:
    """Print one method on random entries."""
    place = RANDOM_MISSING.index(row["missing"])
    print(
        f"{row['strategy']:<20}{row['missing']:>9.0%}{row['relative_rmse']:>9.4f}"
        f"{row['rank']:>6}{row['minutes']:>9.3f}"
        f"{RANDOM_MINUTES[row['strategy']][place]:>9.2f}",
        flush=True,
    )


def label(row: Figures) -> str:
    """Return the name of a strategy with its fraction."""
    fraction = row["fraction"]
    return row["strategy"] + ("" if fraction is None else f", {fraction:.0%}")


def accuracies(row: Figures) -> str:
    """Return both in percent."""
    validation, test = row["validation_accuracy"], row["test_accuracy"]
    return f"{100.0 * validation:>7.2f}{100.0 * test:>8.2f}"


def beside(row: Figures) -> str:
    """Return what the source reports."""
    if not row:
        return ""
    return f"{row['validation']} / {row['test']} / {row['minutes']} ({row['where']})"
