"""Numbers and their intervals: eight tables of UCI, kernels by evidence.

    SKCONVGP_DATA=<folder with uci_regression> python benchmarks/regression.py

Takes about four hours on a core. Root mean squared error, negative log density and the
coverage of 95 % intervals of exact Gaussian processes with three kernels, beside
scikit-learn's and what the literature reports, on the splits that the literature uses.
Hyperparameters and noise maximise the evidence of at most 2000 training samples; then
the process is fitted to all of them, or of the largest set to 10 000. Each part can run
alone:

    python benchmarks/regression.py --quick
    python benchmarks/regression.py --sets yacht energy --splits 0 1

Prints tables and writes benchmarks/results/regression.json after each figure; other
figures stay. A quick run writes only what --output names.
"""

import argparse
import statistics
from pathlib import Path
from typing import Any

from calibrating.regression import SETS, load, measure
from calibrating.report import read
from calibrating.source import REPORTED_REGRESSION, Figures
from completing.report import dated, put, save
from peers.machine import machine, versions

RESULTS = Path(__file__).parent / "results" / "regression.json"
KEYS = ("set", "split", "method")
SPLITS = {"protein": range(5)}  # that are stored; of the others 20
SCORES = ("rmse", "nlpd", "coverage", "fit_cpu_seconds")
N_LEARNED, N_TRAIN = 2000, 10_000
FEW = 150  # samples of a quick run


def main() -> None:
    """Measure, print and save."""
    options = parse()
    record = read(options.output, "regression")
    record |= {"versions": versions(), "machine": machine()}
    rows = record["regression"]
    for name in options.sets:
        for split in filter(SPLITS.get(name, range(20)).__contains__, options.splits):
            table = load(name, split).first(options.n_train)
            place = {"set": name, "split": split, "n_train": len(table.y)}
            for method, row in measure(table, options.n_learned):
                put(rows, dated(place | {"method": method} | row), *KEYS)
                save(options.output, record)
        print_set([row for row in rows if row["set"] == name], name)
    if options.output:
        print(f"\nwritten to {options.output}")


def parse() -> Any:
    """Return the options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--sets", nargs="+", choices=SETS, default=list(SETS))
    add("--splits", nargs="+", type=int, default=range(20))
    add("--quick", action="store_true", help="a few samples of two sets, a minute")
    add("--output", type=Path, help="by default results/regression.json if not quick")
    options = parser.parse_args()
    options.n_learned = FEW if options.quick else N_LEARNED
    options.n_train = FEW if options.quick else N_TRAIN
    if options.quick:
        options.sets, options.splits = options.sets[:2], options.splits[:1]
    elif not options.output:
        options.output = RESULTS
    return options


def print_set(rows: list[Figures], name: str) -> None:
    """Print means over the splits, with what was reported below."""
    n_splits = len({row["split"] for row in rows})
    print(
        f"\n{name}: means over {n_splits} split{'s' if n_splits > 1 else ''} of "
        f"{rows[0]['n_train']} training samples"
    )
    heads = ("RMSE", "NLPD", "in 95 %", "CPU s")
    print(f"{'':<36}" + "".join(f"{head:>10}" for head in heads))
    for method in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == method]
        means = (statistics.fmean(row[score] for row in own) for score in SCORES)
        told = "{:>10.3f}{:>10.3f}{:>10.3f}{:>10.1f}".format(*means)
        print(f"{method:<36}{told}", flush=True)
    for method, figures in REPORTED_REGRESSION.get(name, {}).items():
        print(f"{method:<36}" + "".join(f"{value:>10}" for value in figures))


if __name__ == "__main__":
    main()
