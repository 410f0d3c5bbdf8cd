"""Finite networks as draws: tables of numbers, and a prior of functions for images.

    SKCONVGP_DATA=<folder with mnist.npz, uci_regression> \\
        python benchmarks/finite_networks.py

Takes a minute on a core: split 0 of boston, and 200 images. --whole takes all sets and
5000 images, which are hours. Each part can run alone:

    python benchmarks/finite_networks.py --sets energy --splits 0 1 --images
    python benchmarks/finite_networks.py --sets --images 1000

Tables 6.1, 6.2 and 6.5 of Kozyrskiy (2023): errors and negative log densities of
networks with a Gaussian process as prior, by Markov chains and by a bootstrap, in our
form and in the one that is printed, beside those of the source and of exact processes
of the same splits, which are in benchmarks/results/regression.json. The source does not
state its settings of the chains.

Images: does the prior of a deep convolutional network help a small one? The deep one
has seven hidden layers. Compared are the exact process, and a network of two layers
of convolutions with the prior of functions, with one of weights, and as an ensemble;
each has 8 networks. They judge the first 1000 test images of MNIST. Those of 14 x 14
pixels are means of 2 x 2.

Prints tables and writes benchmarks/results/finite_networks.json after each row. The
rows of a set are not measured again if all are there, unless --again is given.
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
from drawing import images, tables
from peers.machine import machine, versions
from peers.report import find

RESULTS = Path(__file__).parent / "results" / "finite_networks.json"
EXACT_RESULTS = RESULTS.with_name("regression.json")
# Of the source: root mean square error, and mean negative log density if it is there.
REPORTED: dict[str, dict[str, tuple[float, ...]]] = {
    tables.CHAINS: {
        "boston": (2.73, 2.45),
        "concrete": (4.06, 2.74),
        "energy": (0.48, 0.80),
        "kin8nm": (0.04, -1.46),
        "power_plant": (3.24, 2.73),
        "protein": (3.61, 2.73),
        "wine_red": (0.60, 0.76),
    },
    tables.MATCHED: {
        "boston": (2.83, 2.48),
        "concrete": (4.80, 3.03),
        "energy": (0.34, 0.35),
        "kin8nm": (0.06, -1.23),
        "power_plant": (3.72, 2.74),
        "protein": (3.65, 2.75),
        "wine_red": (0.60, 0.92),
    },
    tables.PRINTED: {
        "boston": (2.82,),
        "concrete": (4.88,),
        "energy": (0.49,),
        "wine_red": (0.62,),
    },
}
SETS = tuple(REPORTED[tables.CHAINS])
KEYS = ("set", "split", "method")
IMAGE_KEYS = ("n", "side", "max_iter", "learning_rate", "method")
SCORES = ("rmse", "nlpd", "coverage")
IMAGE_SCORES = ("error", "log_loss", "calibration_error", "predict_cpu_seconds")
# Exact processes: of the kernel of largest evidence, and of the networks' prior.
EXACT = {CHOSEN: "exact, largest evidence", "rbf": "exact, prior of the networks"}


def main() -> None:
    """Measure, print and save."""
    options = parse()
    record = read(options.output, "tables") | {"machine": machine()}
    record |= {"versions": versions(), "reported": REPORTED}
    record.setdefault("images", [])
    for name in options.sets:
        for split in options.splits:
            place = {"set": name, "split": split}
            fill(options, record, "tables", place, KEYS, _table(name, split))
        print_set(record["tables"], name)
    for n in options.images:
        place = {"n": n} | {key: getattr(options, key) for key in IMAGE_KEYS[1:-1]}
        fill(options, record, "images", place, IMAGE_KEYS, _images(place))
        print_images(record["images"], place)
    print(f"\nwritten to {options.output}")


def fill(
    options: Any,
    record: Figures,
    part: str,
    place: Figures,
    keys: tuple[str, ...],
    measure: Callable[[], Iterator[tuple[str, Figures]]],
) -> None:
    """Add the rows of a place; leave them as they are if all are there."""
    rows = record[part]
    if find(rows, **place, is_last=True) and not options.again:
        return
    newest: Figures = {}
    for method, row in measure():
        newest = dated(place | {"method": method, "is_last": False} | row)
        put(rows, newest, *keys)
        save(options.output, record)
    put(rows, newest | {"is_last": True}, *keys)
    save(options.output, record)


def _table(name: str, split: int) -> Callable[[], Iterator[tuple[str, Figures]]]:
    return lambda: tables.measure(load(name, split))


def _images(place: Figures) -> Callable[[], Iterator[tuple[str, Figures]]]:
    return lambda: images.measure(**place)


def print_set(rows: list[Figures], name: str) -> None:
    """Print means over the splits of a set, with the source's figures behind."""
    own = [row for row in rows if row["set"] == name]
    splits = {row["split"] for row in own}
    exact = json.loads(EXACT_RESULTS.read_text())["regression"]
    own += [
        row | {"method": EXACT[row["method"]]}
        for row in exact
        if row["set"] == name and row["method"] in EXACT and row["split"] in splits
    ]
    print(f"\n{name}: means over {len(splits)} splits")
    print(f"{'':<34}{'RMSE':>9}{'NLPD':>9}{'cover':>9}   source")
    for method in dict.fromkeys(row["method"] for row in own):
        chosen = [row for row in own if row["method"] == method]
        print_row(method, chosen, SCORES, str(REPORTED.get(method, {}).get(name, "")))


def print_images(rows: list[Figures], place: Figures) -> None:
    """Print the scores on images."""
    print("\nMNIST, " + ", ".join(f"{key} {value}" for key, value in place.items()))
    print(f"{'':<34}{'error':>9}{'log loss':>9}{'ECE':>9}{'seconds':>9}")
    for row in rows:
        if place.items() <= row.items():
            print_row(row["method"], [row], IMAGE_SCORES, "")


def print_row(
    method: str, rows: list[Figures], scores: tuple[str, ...], remark: str
) -> None:
    """Print the means of the scores of a method."""
    means = [statistics.fmean(row[score] for row in rows) for score in scores]
    figures = "".join(f"{mean:>9.3f}" for mean in means)
    print(f"{method:<34}{figures}   {remark}", flush=True)


def parse() -> Any:
    """Return the options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--sets", nargs="*", choices=SETS, default=["boston"])
    add("--splits", nargs="+", type=int, default=[0])
    add("--images", nargs="*", type=int, default=[200], help="numbers of images")
    add("--side", type=int, choices=(14, 28), default=14, help="of the images")
    add("--max-iter", type=int, default=300, help="steps of training on images")
    add("--learning-rate", type=float, default=0.03, help="of these steps at first")
    add("--whole", action="store_true", help="all sets, ten splits, 5000 images")
    add("--again", action="store_true", help="measure rows again that are there")
    add("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.whole:
        options.sets, options.splits = list(SETS), range(10)
        options.images, options.side = [1000, 5000], 28
    return options


if __name__ == "__main__":
    main()
