"""Gram matrices completed instead of computed: cost, error and accuracy.

    SKCONVGP_DATA=<folder with mnist.npz> python benchmarks/completion.py

Takes some hours on two cores. Fits and predicts with every strategy at several
fractions of the entries, beside the exact process and a subset of the data, on the
images of one setting of Meinel 2020, whose figures stand beside ours. Then completes as
the source did, combines strategies in ways that the package leaves out, and completes
matrices of random entries. Each part can run alone:

    python benchmarks/completion.py --quick
    python benchmarks/completion.py --setting 2 --parts strategies
    python benchmarks/completion.py --strategies nystrom soft-impute --fractions 0.1
    python benchmarks/completion.py --parts random --random-n 1000

Prints tables and writes benchmarks/results/completion.json after each figure; figures
of other settings and strategies stay. A quick run writes only what --output names.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from completing.combined import combinations
from completing.images import Split, load
from completing.matrices import (
    Covariances,
    complete_random,
    judge_matrix,
    measure_mixed,
)
from completing.measure import measure, start_up
from completing.report import (
    KEYS,
    dated,
    print_beside_subset,
    print_combined,
    print_combined_head,
    print_mixed,
    print_mixed_head,
    print_random,
    print_random_head,
    print_row,
    print_setting,
    put,
    read,
    reported,
    save,
    targets,
)
from completing.source import (
    EXACT,
    FACTORS,
    NYSTROM,
    RANDOM_MINUTES,
    RANDOM_MISSING,
    REGRESSION,
    SETTINGS,
    SOFT,
    SVD,
    Figures,
)
from completing.strategies import MANY, METHODS, Maker, Strategy, strategies
from peers.machine import machine, versions
from peers.report import print_targets

from skconvgp.exceptions import CompletionError
from skconvgp.kernels import convnet

RESULTS = Path(__file__).parent / "results" / "completion.json"
# Of a quick run.
LITTLE = {"n_train": 300, "n_test": 200, "random_n": 100, "fractions": [0.2, 0.5]}
USUAL = {"random_n": 5000}  # as the source's
LARGEST_HELD = 5000  # images, of combinations: several matrices of all of them
FRACTION = 0.2  # of the source's tables
RANDOM_RTOL = 1e-3  # there is nothing to come near to
# Settings whose figures the source shows at all fractions; others are of tables.
AT_ALL_FRACTIONS = (1, 4)
MIXED = (NYSTROM, SVD, SOFT, FACTORS, REGRESSION)
AT_ONCE = (NYSTROM, SVD)  # that take less than an hour of more images
CURVES_OF = 1  # the setting of which the source's method is shown at all fractions
SOLVERS = ("lsqr", "cholesky")  # as the source stopped it, and to the end
PARTS = ("strategies", "mixed", "combined", "random")


def main() -> None:
    """Measure, print and save."""
    options = parse()
    record = read(options.output)
    record |= {"source": reported(), "versions": versions(), "machine": machine()}
    found = []
    if options.parts != {"random"}:
        try:
            split = load(options.setting, options.n_train, options.n_test)
        except OSError as error:
            leave_out("MNIST", error, options)
        else:
            found = measure_setting(split, record, options)
    if "random" in options.parts:
        measure_random(record, options)
    is_good = print_targets(found) and not options.left_out
    if options.output:
        print(f"\nwritten to {options.output}")
    if options.check and not is_good:
        sys.exit(1)


def parse() -> Any:
    """Return the options."""
    names = list(strategies())[1:]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--setting", type=int, default=1, choices=SETTINGS, help="of the images")
    add("--strategies", nargs="+", choices=names, metavar="STRATEGY", help=str(names))
    add("--fractions", nargs="+", type=float, help="of the entries, for all of them")
    add("--n-train", type=int, help="training images, at most those of the setting")
    add("--n-test", type=int, help="images for validation, and for tests, at most")
    add("--random-n", type=int, help="side of the random matrix")
    add("--parts", nargs="+", choices=PARTS, default=PARTS, help="all by default")
    add("--quick", action="store_true", help=f"takes minutes: {LITTLE}")
    add(
        "--check",
        action="store_true",
        help="exit with 1 if a figure is missed or missing",
    )
    add("--output", type=Path, help="by default results/completion.json if not quick")
    options = parser.parse_args()
    options.left_out, options.parts = [], set(options.parts)
    options.is_whole = not (options.quick or options.n_train or options.n_test)
    for name, value in (LITTLE if options.quick else USUAL).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    if options.is_whole and not options.output:
        options.output = RESULTS
    return options


def measure_setting(split: Split, record: Figures, options: Any) -> list[Any]:
    """Measure on the images of one setting; return what is required of them."""
    number = str(options.setting)
    figures = record["settings"].setdefault(number, {"rows": []})
    figures["sizes"] = [len(p.y) for p in (split.train, split.validation, split.test)]
    found = []
    if "strategies" in options.parts:
        rows = measure_strategies(split, figures["rows"], record, options)
        print_beside_subset(rows)
        found = targets(options.setting, figures["rows"]) if options.is_whole else []
    if options.parts & {"mixed", "combined"}:
        measure_held(split, figures, record, options)
    return found


def measure_strategies(
    split: Split, kept: list[Figures], record: Figures, options: Any
) -> list[Figures]:
    """Measure the exact process and all others beside it; return the rows."""
    number, n = options.setting, len(split.train.y)
    gp = strategies()[EXACT].make(n, None)
    start_up(gp, split)
    exact = measure(gp, split)
    print_setting(number, split, exact)
    rows: list[Figures] = []

    def add(name: str, fraction: float | None, row: Figures) -> None:
        rows.append(beside_exact(row, exact, strategy=name, fraction=fraction))
        print_row(number, rows[-1])
        put(kept, dated(rows[-1]), *KEYS)
        save(options.output, record)

    add(EXACT, None, exact)
    del gp  # and the factor that it keeps
    for name, fraction, make in cases(n, options):
        try:
            add(name, fraction, measure(make(n, fraction), split))
        except (CompletionError, MemoryError) as error:
            leave_out(f"{name}, {fraction}", error, options)
    return rows


def cases(n: int, options: Any) -> Iterator[tuple[str, float | None, Maker]]:
    """Yield what is to be measured beside the exact process."""
    for name, strategy in strategies().items():
        is_asked = options.strategies and name in options.strategies
        if name == EXACT or (options.strategies and not is_asked):
            continue
        if not is_asked and strategy.largest_n and n > strategy.largest_n:
            print(f"{name}: more than {strategy.largest_n} images take --strategies")
            continue
        for fraction in fractions_of(strategy, options):
            yield name, fraction, strategy.make


def fractions_of(strategy: Strategy, options: Any) -> Iterable[float | None]:
    """Return what was asked for, else what belongs to the strategy and the setting."""
    if None in strategy.fractions:
        return strategy.fractions
    if options.fractions:
        return options.fractions
    is_figure = options.setting in AT_ALL_FRACTIONS
    return strategy.fractions if is_figure else [FRACTION]


def beside_exact(row: Figures, exact: Figures, **told: Any) -> Figures:
    """Return a row with its name, and its cost as shares of the exact one."""
    seconds, predict_seconds = exact["gram_seconds"], exact["predict_seconds"]
    ratios = {
        "exact_gram_seconds": seconds,  # of the same run
        "gram_ratio": row["gram_seconds"] / seconds,
        "fit_ratio": row["fit_seconds"] / seconds,
        "predict_ratio": row["predict_seconds"] / predict_seconds,
        "cpu_ratio": row["fit_cpu_seconds"] / exact["fit_cpu_seconds"],
    }
    return told | row | ratios


def measure_held(split: Split, figures: Figures, record: Figures, options: Any) -> None:
    """Measure what needs matrices of all pairs: the source's method, combinations."""
    exact = Covariances.of(convnet(), split)
    if "mixed" in options.parts:
        print_mixed_head()
        for row in mixed(split, exact, options):
            print_mixed(options.setting, row)
            put(figures.setdefault("mixed", []), dated(row), "solver", *KEYS)
            save(options.output, record)
    if "combined" in options.parts and len(split.train.y) > LARGEST_HELD:
        print(f"\nCombinations: {LARGEST_HELD} images at most.")
    elif "combined" in options.parts:
        print_combined_head()
        for row in combinations(split, exact, FRACTION):
            print_combined(row)
            put(figures.setdefault("combined", []), dated(row), *KEYS)
            save(options.output, record)


def mixed(split: Split, exact: Covariances, options: Any) -> Iterator[Figures]:
    """Yield the exact matrix and completions, solved as the source did and exactly."""
    whole = {"strategy": EXACT, "fraction": None, "share": 1.0, "relative_rmse": None}
    for solver in SOLVERS:
        yield whole | {"solver": solver} | judge_matrix(exact, split, solver)
    for name in MIXED:
        is_asked = options.strategies and name in options.strategies
        if options.strategies and not is_asked:
            continue
        is_slow = name not in AT_ONCE and len(split.train.y) > LARGEST_HELD
        if is_slow and not is_asked:
            print(f"{name}: more than {LARGEST_HELD} images take --strategies")
            continue
        is_curve = options.setting == CURVES_OF and name != REGRESSION
        for fraction in options.fractions or (MANY if is_curve else [FRACTION]):
            covariances, told = measure_mixed(exact, name, METHODS[name](), fraction)
            for solver in SOLVERS if fraction == FRACTION else SOLVERS[:1]:
                judged = judge_matrix(covariances, split, solver)
                yield told | {"solver": solver} | judged


def measure_random(record: Figures, options: Any) -> None:
    """Complete matrices of random entries, on one core."""
    n = options.random_n
    torch.set_num_threads(1)
    print_random_head(n)
    for name in RANDOM_MINUTES:
        if options.strategies and name not in options.strategies:
            continue
        for missing in RANDOM_MISSING[:: 4 if options.quick else 1]:
            if options.fractions and round(1.0 - missing, 6) not in options.fractions:
                continue
            method = METHODS[name](pattern="random", rtol=RANDOM_RTOL)
            row = complete_random(n, missing, name, method)
            print_random(row)
            put(record["random"], dated(row), "strategy", "n", "missing")
            save(options.output, record)


def leave_out(what: str, reason: object, options: Any) -> None:
    """Say why there is no figure."""
    print(f"{what} is left out: {reason}")
    options.left_out.append(what)


if __name__ == "__main__":
    main()
