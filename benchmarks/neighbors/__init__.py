"""Which weights of neighbours suit local processes, on six tables and on a curve?

    SKCONVGP_DATA=<folder with uci_regression> python -m benchmarks neighbors

Takes three minutes on a core: the first split of yacht and protein, and one draw of the
curve. --whole takes all sets, ten splits and ten draws, which are hours. Each part can
run alone, in several processes with an --output each, whose files --merge adds:

    python -m benchmarks neighbors --sets boston kin8nm --splits 0 1 --draws

Mean squared errors of processes on nearest neighbours, which are weighted or not
(Kozyrskiy, 2023, table 5.2 and figure 5.3). The number of neighbours, the lengthscale
and the noise have the least squared error on held-out training samples: on 600, or if
there are at most 2000 on all of them, in three folds. Exact processes of the same
splits are those that `regression` measured. Rows that are there are not measured again.
"""

from collections.abc import Iterator
from typing import Any

from benchmarks.data import numbers, splits
from benchmarks.measure import Record, ran_on
from benchmarks.models import CHOSEN, exact_rows
from benchmarks.neighbors.methods import ALONE, EXACT, measure_curve, measure_table
from benchmarks.report import AGAIN, MERGE, Figures, show, show_means

KEYS = ("set", "split", "method")
PARTS = {"tables": KEYS, "curves": KEYS}
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
SIZES = (400, 200, 100)  # of the curve


def options(add: Any) -> None:
    add("--sets", nargs="*", choices=list(REPORTED), default=["yacht", "protein"])
    add("--splits", nargs="+", type=int, default=[0])
    add("--draws", nargs="*", type=int, default=[0], help="seeds of the curve's noise")
    add("--whole", action="store_true", help="all sets, ten splits and ten draws")
    add("--again", **AGAIN)
    add("--merge", **MERGE)


def run(options: Any, record: Record) -> None:
    if options.whole:
        options.sets = list(REPORTED)
        options.splits = options.draws = range(10)
    record.write(reported=reported())
    for name in options.sets:
        for split in splits(name, options.splits):
            if record.missing("tables", set=name, split=split, is_last=True):
                add(record, "tables", name, split, measure_table(numbers(name, split)))
        exact = [
            row | {"method": EXACT, "mse": row["rmse"] ** 2}
            for row in exact_rows(name)
            if row["method"] == CHOSEN
        ]
        show_rows(record, "tables", name, exact)
    for n in SIZES if options.draws else ():
        for draw in options.draws:
            name = f"Doppler {n}"
            if record.missing("curves", set=name, split=draw, is_last=True):
                add(record, "curves", name, draw, measure_curve(n, draw))
        show_rows(record, "curves", f"Doppler {n}", [])


def add(
    record: Record,
    part: str,
    name: str,
    split: int,
    measured: Iterator[tuple[str, Figures]],
) -> None:
    """Add the rows of a set and a split, all or none of them."""
    rows = list(measured)
    for method, row in rows:
        place: Figures = {"set": name, "split": split, "method": method}
        place["is_last"] = method == rows[-1][0]
        record.add(part, place | ran_on("cpu") | row)


def reported() -> Figures:
    """Return the figures of the source by set and method."""
    return {
        name: dict(zip(NAMES, values, strict=True)) for name, values in REPORTED.items()
    }


def show_rows(record: Record, part: str, name: str, exact: list[Figures]) -> None:
    """Print means over the splits, and below what the source reports."""
    rows = record.rows(part, set=name)
    splits = {row["split"] for row in rows}
    rows += [row for row in exact if row["split"] in splits]
    print(f"\n{name}: mean squared errors, means over {len(splits)} splits or draws")
    show_means(rows, ["mse"])
    for method, value in reported().get(name, {}).items():
        show(f"source: {method}", [value])
