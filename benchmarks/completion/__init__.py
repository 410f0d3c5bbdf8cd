"""What do Gram matrices that are completed, not computed, cost, and how right are they?

    SKCONVGP_DATA=<folder with mnist.npz> python -m benchmarks completion

Takes some hours on two cores. Fits and predicts with every strategy at several
fractions of the entries, beside the exact process and a subset of the data, on the
images of one setting of Meinel 2020, whose figures stand beside ours. Then completes as
the source did, combines strategies in ways that the package leaves out, and completes
matrices of random entries. Each part can run alone:

    python -m benchmarks completion --quick
    python -m benchmarks completion --setting 2 --parts strategies
    python -m benchmarks completion --strategies nystrom soft-impute --fractions 0.1
    python -m benchmarks completion --parts random --random-n 1000

Images of CIFAR-10 at the places of a setting, of which the source has no figures:

    SKCONVGP_DATA=<folder with cifar10.npz> python -m benchmarks completion \\
        --data cifar10 --parts strategies --fractions 0.1 0.2 0.5 0.8 \\
        --strategies nystrom iterative-svd soft-impute "subset of data"
"""

from collections.abc import Iterable, Iterator
from typing import Any

import torch

from benchmarks.completion import published, tables
from benchmarks.completion.combined import combinations
from benchmarks.completion.matrices import (
    Covariances,
    complete_random,
    judge_matrix,
    measure_mixed,
)
from benchmarks.completion.strategies import (
    MANY,
    METHODS,
    Maker,
    Strategy,
    measure,
    start_up,
    strategies,
)
from benchmarks.data import FETCH, Labelled, Validated
from benchmarks.measure import Record
from benchmarks.report import Figures, Target, dated, put
from skconvgp.exceptions import CompletionError
from skconvgp.kernels import convnet

PARTS = {"random": ("strategy", "n", "missing")}
QUICK = {"n_train": 300, "n_test": 200, "random_n": 100, "fractions": [0.2, 0.5]}
USUAL = {"random_n": 5000}  # as the source's
LARGEST_HELD = 5000  # images, of combinations: several matrices of all of them
FRACTION = 0.2  # of the source's tables
RANDOM_RTOL = 1e-3  # there is nothing to come near to
# Settings whose figures the source shows at all fractions; others are of tables.
AT_ALL_FRACTIONS = (1, 4)
AT_ONCE = (published.NYSTROM, published.SVD)  # less than an hour of more images
CURVES_OF = 1  # the setting of which the source's method is shown at all fractions
SOLVERS = ("lsqr", "cholesky")  # as the source stopped it, and to the end
PLACES = ("strategies", "mixed", "combined", "random")
REPORTED = "mnist"  # the images of the source
MOST_OTHER = 2000  # training images of other sets


def options(add: Any) -> None:
    names = list(strategies())[1:]
    settings = published.SETTINGS
    add("--data", choices=FETCH, default=REPORTED, help="the images")
    add("--setting", type=int, default=1, choices=settings, help="which of them")
    add("--strategies", nargs="+", choices=names, metavar="STRATEGY", help=str(names))
    add("--fractions", nargs="+", type=float, help="of the entries, for all of them")
    add("--n-train", type=int, help="training images, at most those of the setting")
    add("--n-test", type=int, help="images for validation, and for tests, at most")
    add("--random-n", type=int, help="side of the random matrix")
    add("--parts", nargs="+", choices=PLACES, default=PLACES, help="all by default")


def is_trial(options: Any) -> bool:
    return bool(options.n_train or options.n_test)


def run(options: Any, record: Record) -> list[Target]:
    record.figures = {"settings": {}, "random": []} | record.figures
    record.write(source=tables.reported())
    found: list[Target] = []
    if set(options.parts) != {"random"}:
        try:
            split = load(options)
        except OSError as error:
            record.leave_out(options.data, error)
        else:
            found = measure_setting(split, record, options)
    if "random" in options.parts:
        measure_random(record, options)
    return found


def load(options: Any) -> Validated:
    """Return the images of a setting, or the first of each part."""
    X, y = FETCH[options.data](return_X_y=True)
    setting, n_test = published.SETTINGS[options.setting], options.n_test
    most = None if reported_setting(options) else MOST_OTHER
    return Validated(
        Labelled(X[setting.train], y[setting.train]).first(options.n_train or most),
        Labelled(X[setting.validation], y[setting.validation]).first(n_test),
        Labelled(X[setting.test], y[setting.test]).first(n_test),
    )


def reported_setting(options: Any) -> int | None:
    """Return the setting, if it is of the images of the source."""
    return options.setting if options.data == REPORTED else None


def measure_setting(split: Validated, record: Record, options: Any) -> list[Target]:
    """Measure on the images of one setting; return what is required of them."""
    place = "settings" if options.data == REPORTED else options.data
    settings = record.figures.setdefault(place, {})
    figures = settings.setdefault(str(options.setting), {"rows": []})
    figures["sizes"] = [len(p.y) for p in (split.train, split.validation, split.test)]
    found: list[Target] = []
    if "strategies" in options.parts:
        rows = measure_strategies(split, figures["rows"], record, options)
        tables.print_beside_subset(rows)
        if options.is_whole:
            found = tables.targets(reported_setting(options), figures["rows"])
    if {"mixed", "combined"} & set(options.parts):
        measure_held(split, figures, record, options)
    return found


def measure_strategies(
    split: Validated, kept: list[Figures], record: Record, options: Any
) -> list[Figures]:
    """Measure the exact process and all others beside it; return the rows."""
    number, n = reported_setting(options), len(split.train.y)
    gp = strategies()[published.EXACT].make(n, None)
    start_up(gp, split)
    exact = measure(gp, split)
    tables.print_setting(number, split, exact)
    rows: list[Figures] = []

    def add(name: str, fraction: float | None, row: Figures) -> None:
        rows.append(beside_exact(row, exact, strategy=name, fraction=fraction))
        tables.show_row(number, rows[-1])
        keep(record, kept, rows[-1])

    add(published.EXACT, None, exact)
    del gp  # and the factor that it keeps
    for name, fraction, make in cases(n, options):
        try:
            add(name, fraction, measure(make(n, fraction), split))
        except (CompletionError, MemoryError) as error:
            record.leave_out(f"{name}, {fraction}", error)
    return rows


def keep(record: Record, rows: list[Figures], row: Figures, *keys: str) -> None:
    """Add a row to those of a setting, and write the file."""
    put(rows, dated(row), *keys, "strategy", "fraction")
    record.write()


def cases(n: int, options: Any) -> Iterator[tuple[str, float | None, Maker]]:
    """Yield what is to be measured beside the exact process."""
    for name, strategy in strategies().items():
        is_asked = options.strategies and name in options.strategies
        if name == published.EXACT or (options.strategies and not is_asked):
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


def measure_held(
    split: Validated, figures: Figures, record: Record, options: Any
) -> None:
    """Measure what needs matrices of all pairs: the source's method, combinations."""
    exact = Covariances.of(convnet(), split)
    if "mixed" in options.parts:
        print(
            "\nthe source's method: completed matrix, exact covariances with new images"
        )
        tables.show_head(("entries", "RMSE", "solver"))
        for row in mixed(split, exact, options):
            cells = row["share"], row["relative_rmse"], row["solver"]
            tables.show_accuracies(reported_setting(options), row, cells)
            keep(record, figures.setdefault("mixed", []), row, "solver")
    if "combined" in options.parts and len(split.train.y) > LARGEST_HELD:
        print(f"\nCombinations: {LARGEST_HELD} images at most.")
    elif "combined" in options.parts:
        print("\ncombinations; entries are those of the exact kernel")
        tables.show_head(("entries",))
        for row in combinations(split, exact, FRACTION):
            tables.show_accuracies(reported_setting(options), row, (row["share"],))
            keep(record, figures.setdefault("combined", []), row)


def mixed(split: Validated, exact: Covariances, options: Any) -> Iterator[Figures]:
    """Yield the exact matrix and completions, solved as the source did and exactly."""
    whole = {
        "strategy": published.EXACT,
        "fraction": None,
        "share": 1.0,
        "relative_rmse": None,
    }
    for solver in SOLVERS:
        yield whole | {"solver": solver} | judge_matrix(exact, split, solver)
    for name in METHODS:
        is_asked = options.strategies and name in options.strategies
        if options.strategies and not is_asked:
            continue
        is_slow = name not in AT_ONCE and len(split.train.y) > LARGEST_HELD
        if is_slow and not is_asked:
            print(f"{name}: more than {LARGEST_HELD} images take --strategies")
            continue
        is_curve = options.setting == CURVES_OF and name != published.REGRESSION
        for fraction in options.fractions or (MANY if is_curve else [FRACTION]):
            covariances, told = measure_mixed(exact, name, METHODS[name](), fraction)
            for solver in SOLVERS if fraction == FRACTION else SOLVERS[:1]:
                judged = judge_matrix(covariances, split, solver)
                yield told | {"solver": solver} | judged


def measure_random(record: Record, options: Any) -> None:
    """Complete matrices of random entries, on one core."""
    n = options.random_n
    torch.set_num_threads(1)
    tables.print_random_head(n)
    for name in published.RANDOM_MINUTES:
        if options.strategies and name not in options.strategies:
            continue
        for missing in published.RANDOM_MISSING[:: 4 if options.quick else 1]:
            if options.fractions and round(1.0 - missing, 6) not in options.fractions:
                continue
            method = METHODS[name](pattern="random", rtol=RANDOM_RTOL)
            row = complete_random(n, missing, name, method)
            tables.print_random(row)
            record.add("random", row)
