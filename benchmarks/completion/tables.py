"""What the figures say: tables with the source's figures beside ours, targets."""

from collections.abc import Iterable
from typing import Any

from benchmarks.completion import published
from benchmarks.report import Figures, Target, find, show

LEAST_ACCURACY = {1: 0.973, 2: 0.986}
LARGEST_RATIO = 0.3  # of the seconds of the exact matrix; predict no slower
WIDTH = 46  # of names
SHOWN = {
    "share": "entries",
    "gram_seconds": "matrix s",
    "solve_seconds": "solve s",
    "predict_seconds": "predict s",
    "gram_ratio": "matrix",
    "fit_ratio": "fit",
    "predict_ratio": "pred.",
    "cpu_ratio": "cpu",
    "relative_rmse": "RMSE",
}
SOURCE = "source: val / test % / min"


def reported() -> Figures:
    """Return the source's figures, for the file."""
    return {
        "images": {n: str(setting) for n, setting in published.SETTINGS.items()},
        "rows": published.REPORTED,
        "in_words": published.IN_WORDS,
        "random": {
            "n": published.RANDOM_N,
            "relative_rmse": published.RANDOM_ERROR,
            "missing": published.RANDOM_MISSING,
            "minutes": published.RANDOM_MINUTES,
        },
    }


def targets(number: int | None, rows: list[Figures]) -> list[Target]:
    """Return what is required of the best strategy that is cheap enough."""
    if number not in LEAST_ACCURACY:
        return []
    best = best_within(rows, LARGEST_RATIO)
    if best:
        share = best["fit_ratio"] / find(rows, strategy=published.EXACT)["fit_ratio"]
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
        if row["strategy"] != published.EXACT
        and row["gram_ratio"] <= ratio
        and row["predict_ratio"] <= 1.0
    ]
    return max(cheap, key=lambda row: float(row["validation_accuracy"]), default=None)


def print_beside_subset(rows: list[Figures]) -> None:
    """Print which strategies are better than a subset with as many entries."""
    for subset in rows:
        if subset["strategy"] != published.SUBSET:
            continue
        equal = [row for row in rows if row["fraction"] == subset["fraction"]]
        better = [row["strategy"] for row in equal if right(row) > right(subset)]
        told = ", ".join(better) or "none"
        print(f"more right than {label(subset)}: {told}")


def right(row: Figures) -> float:
    """Return the mean accuracy of validation and test images."""
    return float(row["validation_accuracy"] + row["test_accuracy"]) / 2.0


def print_setting(number: int | None, split: Any, exact: Figures) -> None:
    """Print the head of the table."""
    print(
        f"\nsetting {number or 'of the source, other images'}: "
        f"{len(split.train.y)} training images, "
        f"{len(split.validation.y)} for validation, {len(split.test.y)} for tests; "
        f"{exact['estimator']}"
    )
    print(
        "Seconds are those of estimators with the kernel. Ratios are to the seconds of"
        "\nthe exact matrix: of what takes its place (matrix), of the whole fit (fit)."
        "\npred. and cpu compare predictions, and whole fits by processor seconds."
    )
    print(published.IN_WORDS.get(number, ""))
    show_head(SHOWN.values())


def show_row(number: int | None, row: Figures) -> None:
    """Print one strategy, the source's figures beside it."""
    show_accuracies(number, row, (row[name] for name in SHOWN))


def show_head(cells: Iterable[str]) -> None:
    """Print what the columns are, which end with accuracies."""
    show("", (*cells, "val %", "test %", "loss", SOURCE), WIDTH, 10)


def show_accuracies(number: int | None, row: Figures, cells: Iterable[Any]) -> None:
    """Print some figures of a row, its accuracies and what the source reports."""
    percent = (100.0 * row[f"{name}_accuracy"] for name in ("validation", "test"))
    told = beside(published.find_reported(number, row["strategy"], row["fraction"]))
    told += "" if row.get("converged", True) else "  not converged"
    show(label(row), (*cells, *percent, row["test_log_loss"], told), WIDTH, 10)


def print_random_head(n: int) -> None:
    """Print what the rows are."""
    told = f"n = {published.RANDOM_N}: about {published.RANDOM_ERROR}"
    print(f"\nentries from U(0, 1), n = {n}, on one core; the mean has a relative RMSE")
    print(f"of 0.2887; the source, {told}")
    show("missing", ("RMSE", "rank", "minutes", "source"))


def print_random(row: Figures) -> None:
    """Print one method on random entries."""
    place = published.RANDOM_MISSING.index(row["missing"])
    source = published.RANDOM_MINUTES[row["strategy"]][place]
    cells = row["relative_rmse"], row["rank"], row["minutes"], source
    show(f"{row['strategy']}, {row['missing']:.0%}", cells)


def label(row: Figures) -> str:
    """Return the name of a strategy with its fraction."""
    fraction = row["fraction"]
    return row["strategy"] + ("" if fraction is None else f", {fraction:.0%}")


def beside(row: Figures) -> str:
    """Return what the source reports."""
    if not row:
        return ""
    return f"{row['validation']} / {row['test']} / {row['minutes']} ({row['where']})"
