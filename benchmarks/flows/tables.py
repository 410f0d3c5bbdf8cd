"""What the figures say: tables with the source's figures beside ours, targets."""

import math
from typing import Any

import numpy as np

from benchmarks.flows.methods import MAIN
from benchmarks.flows.published import (
    BATCHES,
    IN_WORDS,
    PROFILE,
    SEVEN,
    STEP_SECONDS,
    THREE,
)
from benchmarks.report import Figures, Target, find, select

RANDOM = "random start"
GIBIBYTE = 2**30
LARGEST_MEMORY = 1.0  # GiB
# In standard errors of the best random start's accuracy.
LEAST_DIFFERENCE = -1.0


def chosen(rows: list[Figures], n: int) -> Figures:
    """Return the row with most validation images right; no test image decides."""
    return max(rows, key=lambda row: accuracy(row, n, "validation"))


def accuracy(row: Figures, n: int, part: str = "test") -> float:
    """Return an accuracy of the process of the first n training images."""
    return float(row["accuracies"][str(n)][f"{part}_accuracy"])


def standard_error(share: float, n: int) -> float:
    """Return that of a share of n images; never 0, where all or none are right."""
    bounded = min(max(share, 1.0 / n), 1.0 - 1.0 / n)
    return math.sqrt(bounded * (1.0 - bounded) / n)


def differences(rows: list[Figures], method: str, sizes: Any, n_test: int) -> Figures:
    """Return learned less best random start, by N, in standard errors."""
    found = {}
    for n in sizes:
        best = accuracy(chosen(select(rows, method=RANDOM), n), n)
        learned = accuracy(chosen(select(rows, method=method), n), n)
        found[n] = (learned - best) / standard_error(best, n_test)
    return found


def learn_targets(name: str, rows: list[Figures], sizes: Any, n: int) -> list[Target]:
    """Return what is required of the main method on one setting."""
    if not (select(rows, method=MAIN) and select(rows, method=RANDOM)):
        return []
    worst = min(differences(rows, MAIN, sizes, n).values())
    return [(f"{name}: standard errors", worst, "at least", LEAST_DIFFERENCE)]


def memory_targets(rows: list[Figures]) -> list[Target]:
    """Return what is required of one exact gradient."""
    return [
        (
            f"GiB, {row['network']}, batch {row['batch']}",
            row["bytes"] / GIBIBYTE,
            "at most",
            LARGEST_MEMORY,
        )
        for row in rows
        if row["network"] == SEVEN and row["bytes"] is not None
    ]


def print_source() -> None:
    """Print what the source says in words."""
    print("The source:", *IN_WORDS, sep="\n  ")


def print_setting(name: str, plan: Any, n_starts: int) -> None:
    """Print the head of the table of learning."""
    print(
        f"\n{name}: {n_starts} starts; batches of {plan.batch} of the first "
        f"{plan.n_pool} training images, {plan.n_fixed} fixed ones; "
        f"{plan.budget} kernel evaluations a start"
    )
    print(
        "Test %: mean and standard error over starts, then of the start that is best "
        "on\nvalidation images. * is within a standard error of the best random start, "
        "or better."
    )
    columns = "".join(f"{f'N = {n}':>22}" for n in plan.sizes)
    print(f"{'':<24}{'objective':>16}{'cost':>6}{'s':>7}{columns}")


def print_method(rows: list[Figures], method: str, sizes: Any, n_test: int) -> None:
    """Print one method, over all starts."""
    own = select(rows, method=method)
    columns = "".join(f"{accuracies(rows, method, n, n_test):>22}" for n in sizes)
    told = f"{'':>29}"
    if "cost" in own[0]:
        values = [mean(own, name) for name in ("start_rho", "rho")]
        told = "{:>7.3f} -> {:>5.3f}".format(*values)
        told += f"{mean(own, 'cost'):>6.0f}{mean(own, 'learn_seconds'):>7.1f}"
    print(f"{method:<24}{told}{columns}", flush=True)


def accuracies(rows: list[Figures], method: str, n: int, n_test: int) -> str:
    """Return mean, standard error, that of the chosen start, and a mark."""
    own = select(rows, method=method)
    values = [100.0 * accuracy(row, n) for row in own]
    told = f"{np.mean(values):.1f}"
    if len(own) > 1:
        told += f" +-{error_of_mean(values):.1f}"
        told += f", {100.0 * accuracy(chosen(own, n), n):.1f}"
    return told + star(rows, method, n, n_test)


def star(rows: list[Figures], method: str, n: int, n_test: int) -> str:
    """Return a mark where a method is as good as the best random start."""
    if method == RANDOM or not select(rows, method=RANDOM):
        return " "
    value = differences(rows, method, [n], n_test)[n]
    return "*" if value >= LEAST_DIFFERENCE else " "


def mean(rows: list[Figures], name: str) -> float:
    """Return the mean of a figure; NaN where one is undefined."""
    values = [row[name] for row in rows]
    return float("nan") if None in values else float(np.mean(values))


def error_of_mean(values: list[float]) -> float:
    """Return the standard error of a mean of several."""
    return float(np.std(values, ddof=1) / math.sqrt(len(values)))


def print_way(rows: list[Figures], plan: Any, n_test: int) -> None:
    """Print how good the places were on the way, and when they were good enough."""
    best = accuracy(
        chosen(select(rows, method=RANDOM), plan.size_on_way), plan.size_on_way
    )
    print(
        f"\nMean test % with N = {plan.size_on_way} after so many kernel evaluations; "
        f"the best random start has {100.0 * best:.1f}"
    )
    heads = "".join(f"{stop:>8}" for stop in plan.stops())
    print(f"{'':<24}{heads}  within a standard error after")
    for row in ways(rows, plan, n_test):
        told = "".join(f"{100.0 * value:>8.1f}" for value in row["test_accuracies"])
        print(f"{row['method']:<24}{told}  {row['enough_after'] or 'never'}")


def ways(rows: list[Figures], plan: Any, n_test: int) -> list[Figures]:
    """Return how good the places of each method were, and when they were good enough.

    That is when the mean over the starts is within a standard error of the best random
    start, or better.
    """
    best = accuracy(
        chosen(select(rows, method=RANDOM), plan.size_on_way), plan.size_on_way
    )
    enough = best - standard_error(best, n_test)
    found = []
    for method in dict.fromkeys(row["method"] for row in rows if "way" in row):
        each = [row["way"] for row in select(rows, method=method)]
        means = [
            float(np.mean([stop["test_accuracy"] for stop in stops]))
            for stops in zip(*each, strict=True)
        ]
        there = [
            stop
            for stop, value in zip(plan.stops(), means, strict=True)
            if value >= enough
        ]
        found.append(
            {
                "method": method,
                "n_train": plan.size_on_way,
                "spent": plan.stops(),
                "test_accuracies": means,
                "enough_after": there[0] if there else None,
            }
        )
    return found


def print_steps_head() -> None:
    """Print what the rows of steps are."""
    print("\nseconds of a step on MNIST; two hyperparameters")
    print(f"{'':<10}{'':<18}{'batch':>6}{'seconds':>12}{'source':>18}")


def print_step(row: Figures) -> None:
    """Print the seconds of a step beside the source's."""
    place = BATCHES.index(row["batch"]) if row["batch"] in BATCHES else None
    known = STEP_SECONDS.get((row["network"], row["method"]))
    beside = known[place] if known and place is not None else ""
    print(
        f"{row['network']:<10}{row['method']:<18}{row['batch']:>6}"
        f"{seconds_or_why(row, 'seconds_per_step'):>12}{beside:>18}",
        flush=True,
    )


def print_profile_head(n_steps: int) -> None:
    """Print what the rows of the profile are."""
    print(f"\n{n_steps} steps on MNIST; evaluations of a matrix, and with derivatives")
    print(
        f"{'':<10}{'':<18}{'batch':>6}{'seconds':>12}{'in objective':>14}"
        f"{'evaluations':>13}  source: seconds, evaluations"
    )


def print_profile(row: Figures) -> None:
    """Print one profile beside the source's."""
    told = ""
    if "seconds" in row:
        counts = f"{row['n_evaluations']}, {row['n_derivatives']}"
        told = f"{row['share_inside']:>14.0%}{counts:>13}"
    known = PROFILE.get(row["method"]) if row["network"] == THREE else None
    beside = f"{known[0]}, {known[1]}" if known else ""
    print(
        f"{row['network']:<10}{row['method']:<18}{row['batch']:>6}"
        f"{seconds_or_why(row, 'seconds'):>12}{told:<27}  {beside}",
        flush=True,
    )


def seconds_or_why(row: Figures, name: str) -> str:
    """Return seconds, or the memory that there is not."""
    if name in row:
        return f"{row[name]:.3f}"
    return f"{row['needed_bytes'] / GIBIBYTE:.0f} GiB"


def print_memory(row: Figures, failed: int) -> None:
    """Print the peak of one gradient."""
    size = "unknown" if row["bytes"] is None else f"{row['bytes'] / GIBIBYTE:.2f} GiB"
    print(
        f"\nmemory of learning one step, {row['gradient']} gradient, {row['network']}, "
        f"batch {row['batch']}: {size}; the source's autodiff failed at {failed}",
        flush=True,
    )


def comparable(rows: list[Figures], plan: Any, **wanted: Any) -> list[Figures]:
    """Return all rows of a setting that were measured to the same plan."""
    sizes = {str(n) for n in plan.sizes}
    return [
        row
        for row in rows
        if find([row], **wanted)
        and sizes <= set(row["accuracies"])
        and row.get("budget", plan.budget) == plan.budget
    ]
