"""Local processes: weights of neighbours, on six tables of UCI and on a curve.

    SKCONVGP_DATA=<folder with uci_regression> python benchmarks/neighbors.py

Takes three minutes on a core: the first split of yacht and protein, and one draw of the
curve. --whole takes all sets, ten splits and ten draws, which are hours. Each part can
run alone:

    python benchmarks/neighbors.py --sets boston kin8nm --splits 0 1 --draws

Parts can run in several processes with an --output each, whose files --merge adds.

Mean squared errors of processes on nearest neighbours, which are weighted or not
(Kozyrskiy, 2023, table 5.2 and figure 5.3). The number of neighbours, the lengthscale
and the noise have the least squared error on held-out training samples: on 600, or if
there are at most 2000 on all of them, in three folds. Exact processes of the same
splits are those of benchmarks/results/regression.json, where they exist.

Prints tables and writes benchmarks/results/neighbors.json after each row; rows that are
there are not measured again, unless --again is given.
"""

import argparse
import json
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from calibrating.regression import CHOSEN, load
from calibrating.report import read
from calibrating.source import Figures
from completing.report import dated, put, save
from drawing.place import ran_on
from localizing.measure import ALONE, EXACT, measure_curve, measure_table
from peers.machine import machine, versions
from peers.report import find

RESULTS = Path(__file__).parent / "results" / "neighbors.json"
EXACT_RESULTS = RESULTS.with_name("regression.json")
# Of the source, in the order of the names below.
REPORTED = {
    "yacht": (0.63, 2.02, 1.09, 57.80),
    "boston": (14.78, 15.30, 17.94, 23.30),
    "concrete": (34.79, 40.43, 37.81, 94.23),
    "kin8nm": (0.01, 0.01, 0.01, 0.01),
    "power_plant": (14.65, 14.40, 16.85, 15.35),
    "protein": (36.85, 12.50, 17.03, 19.89),
}
NAMES = ("hilbert", "epanechnikov", EXACT, ALONE)
SPLITS = {"protein": range(5)}  # that are stored
SIZES = (400, 200, 100)  # of the curve
KEYS = ("set", "split", "method")


def main() -> None:
    """Measure, print and save."""
    options = parse()
    record = read(options.output, "tables") | {"machine": machine()}
    record |= {"versions": versions(), "reported": reported()}
    record.setdefault("curves", [])
    for path in options.merge:
        other = json.loads(path.read_text())
        for part in ("tables", "curves"):
            for row in other.get(part, []):
                put(record[part], row, *KEYS)
    if options.merge:
        save(options.output, record)
        options.sets, options.draws = [], []
    for name in options.sets:
        for split in filter(SPLITS.get(name, range(20)).__contains__, options.splits):
            place = {"set": name, "split": split}
            fill(options, record, "tables", place, _table(name, split))
        print_rows(record["tables"], name, exact_of(name))
    for n in SIZES:
        for draw in options.draws:
            place = {"set": f"Doppler {n}", "split": draw}
            fill(options, record, "curves", place, _curve(n, draw))
        if options.draws:
            print_rows(record["curves"], f"Doppler {n}", [])
    print(f"\nwritten to {options.output}")


def fill(
    options: Any,
    record: Figures,
    part: str,
    place: Figures,
    measure: Callable[[], Iterator[tuple[str, Figures]]],
) -> None:
    """Add the rows of a set and a split; leave them as they are if all are there."""
    rows = record[part]
    if find(rows, **place, is_last=True) and not options.again:
        return
    measured = list(measure())
    for method, row in measured:
        is_last = method == measured[-1][0]
        named = {"method": method, "is_last": is_last} | ran_on("cpu")
        put(rows, dated(place | named | row), *KEYS)
    save(options.output, record)


def _table(name: str, split: int) -> Callable[[], Iterator[tuple[str, Figures]]]:
    return lambda: measure_table(load(name, split))


def _curve(n: int, draw: int) -> Callable[[], Iterator[tuple[str, Figures]]]:
    return lambda: measure_curve(n, draw)


def reported() -> Figures:
    """Return the figures of the source by set and method."""
    return {
        name: dict(zip(NAMES, values, strict=True)) for name, values in REPORTED.items()
    }


def exact_of(name: str) -> list[Figures]:
    """Return rows of exact processes, with their mean squared errors."""
    rows = json.loads(EXACT_RESULTS.read_text())["regression"]
    return [
        row | {"method": EXACT, "mse": row["rmse"] ** 2}
        for row in rows
        if row["set"] == name and row["method"] == CHOSEN
    ]


def print_rows(rows: list[Figures], name: str, exact: list[Figures]) -> None:
    """Print means over the splits, and below what the source reports."""
    chosen = [row for row in rows if row["set"] == name]
    splits = {row["split"] for row in chosen}
    chosen += [row for row in exact if row["split"] in splits]
    print(f"\n{name}: mean squared errors, means over {len(splits)} splits or draws")
    for method in dict.fromkeys(row["method"] for row in chosen):
        values = [row["mse"] for row in chosen if row["method"] == method]
        print(f"{method:<32}{statistics.fmean(values):>12.4f}", flush=True)
    for method, value in reported().get(name, {}).items():
        print(f"{'source: ' + method:<32}{value:>12}")


def parse() -> Any:
    """Return the options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--sets", nargs="*", choices=list(REPORTED), default=["yacht", "protein"])
    add("--splits", nargs="+", type=int, default=[0])
    add("--draws", nargs="*", type=int, default=[0], help="seeds of the curve's noise")
    add("--whole", action="store_true", help="all sets, ten splits and ten draws")
    add("--merge", nargs="*", type=Path, default=[], help="files whose rows are added")
    add("--again", action="store_true", help="measure rows again that are there")
    add("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.whole:
        options.sets, options.splits, options.draws = (
            list(REPORTED),
            range(10),
            range(10),
        )
    return options


if __name__ == "__main__":
    main()
