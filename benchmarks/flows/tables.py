"""What the figures say: tables with the source's figures beside ours, targets."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.flows.methods import MAIN
from benchmarks.flows.published import BATCHES, PROFILE, SEVEN, STEP_SECONDS, THREE
from benchmarks.report import Figures, Target, mean, select, show

RANDOM = "random start"
GIBIBYTE = 2**30
LARGEST_MEMORY = 1.0  # GiB
# In standard errors of the best random start's accuracy.
LEAST_DIFFERENCE = -1.0


def best_of(rows: list[Figures], n: int) -> float:
    """Return the accuracy of the row with most validation images right.

    No test image decides.
    """
    return accuracy(max(rows, key=lambda row: accuracy(row, n, "validation")), n)


def accuracy(row: Figures, n: int, part: str = "test") -> float:
    """Return an accuracy of the process of the first n training images."""
    return float(row["accuracies"][str(n)][f"{part}_accuracy"])


def standard_error(share: float, n: int) -> float:
    """Return that of a share of n images; never 0, where all or none are right."""
    bounded = min(max(share, 1.0 / n), 1.0 - 1.0 / n)
    return math.sqrt(bounded * (1.0 - bounded) / n)


@dataclass(frozen=True)
class Learning:
    """All rows of a setting that were measured to the same plan."""

    rows: list[Figures]
    plan: Any
    n_test: int

    @classmethod
    def of(cls, rows: list[Figures], plan: Any, n_test: int) -> "Learning":
        """Leave out rows of other plans."""
        sizes = {str(n) for n in plan.sizes}
        kept = [
            row
            for row in rows
            if sizes <= set(row["accuracies"])
            and row.get("budget", plan.budget) == plan.budget
        ]
        return cls(kept, plan, n_test)

    def difference(self, method: str, n: int) -> float | None:
        """Return learned less best random start, in standard errors."""
        starts, own = (select(self.rows, method=name) for name in (RANDOM, method))
        if not (starts and own):
            return None
        best = best_of(starts, n)
        return (best_of(own, n) - best) / standard_error(best, self.n_test)

    def targets(self, name: str) -> list[Target]:
        """Return what is required of the main method."""
        found = [self.difference(MAIN, n) for n in self.plan.sizes]
        known = [value for value in found if value is not None]
        told = f"{name}: standard errors"
        return [(told, min(known), "at least", LEAST_DIFFERENCE)] if known else []

    def show(self, method: str) -> None:
        """Print one method, over all starts."""
        own = select(self.rows, method=method)
        told: list[Any] = [None] * 4
        if "cost" in own[0]:
            names = ("start_rho", "rho", "cost", "learn_seconds")
            told = [
                None if None in [row[name] for row in own] else mean(own, name)
                for name in names
            ]
        cells = [f"{self._cell(method, n):>22}" for n in self.plan.sizes]
        show(method, (*told, *cells), 24)

    def _cell(self, method: str, n: int) -> str:
        """Return mean, standard error, that of the chosen start, and a mark."""
        own = select(self.rows, method=method)
        values = [100.0 * accuracy(row, n) for row in own]
        told = f"{np.mean(values):.1f}"
        if len(own) > 1:
            error = float(np.std(values, ddof=1) / math.sqrt(len(values)))
            told += f" +-{error:.1f}, {100.0 * best_of(own, n):.1f}"
        value = None if method == RANDOM else self.difference(method, n)
        is_good = value is not None and value >= LEAST_DIFFERENCE
        return told + ("*" if is_good else " ")

    def show_ways(self) -> None:
        """Print how good the places were on the way, and when they were good enough."""
        print(f"\nMean test accuracies on the way with N = {self.plan.size_on_way}")
        show("after evaluations", (*self.plan.stops(), "enough"), 24)
        for row in self.ways():
            told = row["enough_after"] or "never"
            show(row["method"], (*row["test_accuracies"], told), 24)

    def ways(self) -> list[Figures]:
        """Return how good the places of each method were, and when good enough.

        That is when the mean over the starts is within a standard error of the best
        random start, or better.
        """
        stops, n = self.plan.stops(), self.plan.size_on_way
        best = best_of(select(self.rows, method=RANDOM), n)
        enough = best - standard_error(best, self.n_test)
        found = []
        for method in dict.fromkeys(row["method"] for row in self.rows if "way" in row):
            each = [row["way"] for row in select(self.rows, method=method)]
            means = [
                float(np.mean([stop["test_accuracy"] for stop in places]))
                for places in zip(*each, strict=True)
            ]
            pairs = zip(stops, means, strict=True)
            there = [stop for stop, value in pairs if value >= enough]
            row = {"method": method, "n_train": n, "spent": stops}
            row |= {"test_accuracies": means}
            found.append(row | {"enough_after": there[0] if there else None})
        return found


def show_setting(name: str, plan: Any, n_starts: int) -> None:
    """Print the head of the table of learning."""
    print(
        f"\n{name}: {n_starts} starts; batches of {plan.batch} of the first "
        f"{plan.n_pool} training images, {plan.n_fixed} fixed ones; "
        f"{plan.budget} kernel evaluations a start\n"
        "Test %: mean and standard error over starts, then of the start that is best "
        "on\nvalidation images. * is within a standard error of the best random start, "
        "or better."
    )
    heads = (f"{f'N = {n}':>22}" for n in plan.sizes)
    show("", ("at start", "objective", "cost", "s", *heads), 24)


def show_step(row: Figures) -> None:
    """Print the seconds of a step beside the source's."""
    known = STEP_SECONDS.get((row["network"], row["method"]))
    is_there = known and row["batch"] in BATCHES
    beside = known[BATCHES.index(row["batch"])] if is_there else None
    show_seconds(row, row.get("seconds_per_step"), str(beside or ""))


def show_profile(row: Figures) -> None:
    """Print one profile beside the source's."""
    names = ("share_inside", "n_evaluations", "n_derivatives")
    known = PROFILE.get(row["method"]) if row["network"] == THREE else None
    show_seconds(row, row.get("seconds"), *map(row.get, names), str(known or ""))


def show_seconds(row: Figures, seconds: float | None, *told: Any) -> None:
    """Print seconds, or the memory that there is not, and more."""
    name = f"{row['network']}, {row['method']}, {row['batch']}"
    if seconds is None:
        show(name, [f"{row['needed_bytes'] / GIBIBYTE:.0f} GiB", *told], 32, 14)
    else:
        show(name, [seconds, *told], 32, 14)


def memory_targets(row: Figures) -> list[Target]:
    """Return what is required of one exact gradient."""
    if row["network"] != SEVEN or row["bytes"] is None:
        return []
    told = f"GiB, {row['network']}, batch {row['batch']}"
    return [(told, row["bytes"] / GIBIBYTE, "at most", LARGEST_MEMORY)]
