"""Finite networks as draws: tables of numbers and of classes, and images.

    SKCONVGP_DATA=<folder with mnist.npz, uci_regression, uci_classification> \\
        python benchmarks/finite_networks.py

Takes two minutes on a core: split 0 of boston with some of the steps, and 200 images.
--whole takes all sets, ten splits of those of numbers (five of Protein), and up to 5000
images, which are days on a core. Each part can run alone, also in several processes,
whose files a last call puts together:

    python benchmarks/finite_networks.py --sets energy --splits 0 1 --output one.json
    python benchmarks/finite_networks.py --images 1000 --output two.json
    python benchmarks/finite_networks.py --merge one.json two.json

Tables 6.1, 6.2 and 6.5 of Kozyrskiy (2023): errors and negative log densities of
networks with a Gaussian process as prior, by Markov chains and by a bootstrap, in our
form and in the one that is printed, beside those of the source and of exact processes
of the same splits, which are in benchmarks/results/regression.json. The source does not
state its settings of the chains. On sets of more than 5000 samples, steps of networks
with a kernel read 512 samples, and features in place of the kernel. Networks with a
prior of weights are as they are by default, whatever the effort.

Tables 4.2 and 4.3, 6.3 and 6.4 (--classes): errors and log losses of networks beside
processes of the same samples: the exact one, one of landmarks and one of random
features. All of these tables have a bag of scikit-learn's networks beside them.

Images: does the prior of a deep convolutional network help a small one? The deep one
has seven hidden layers. Compared are its exact process and that of the default network,
and a network of two layers of convolutions with the prior of functions, with one of
weights, and as an ensemble; each has 8 networks. They judge the first 1000 test images
of MNIST. Those of 14 x 14 pixels are means of 2 x 2. drawing/images.py says how all of
them are trained.

Prints tables and writes benchmarks/results/finite_networks.json after each row. Rows
that are there are not measured again, unless --again is given. --effort multiplies the
number of steps.
"""

import argparse
import json
import statistics
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

from calibrating.regression import CHOSEN, load
from calibrating.report import read
from calibrating.source import Figures
from completing.report import dated, put, save
from drawing import bagged, classes, images, tables
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
MOST_SPLITS, N_SPLITS = 10, {"protein": 5}
# Of the source: error, and mean negative log likelihood.
REPORTED_CLASSES: dict[str, dict[str, dict[str, tuple[float, float]]]] = {
    classes.BOOTSTRAPS: {
        classes.WEIGHTS: {"magic": (0.12, 0.31), "htru2": (0.02, 0.08)},
        classes.CHAINS: {"magic": (0.12, 0.29), "htru2": (0.02, 0.07)},
        classes.FEATURE_DRAWS: {"magic": (0.13, 0.33), "htru2": (0.02, 0.07)},
        classes.SPARSE: {"magic": (0.13, 0.35), "htru2": (0.02, 0.07)},
    },
    classes.FUNCTIONS: {
        classes.OF_FUNCTIONS: {
            "eeg_eye_state": (0.0749, 0.33),
            "htru2": (0.0190, 0.06),
            "magic": (0.1184, 0.31),
        },
        classes.MATCHED: {
            "eeg_eye_state": (0.0587, 0.18),
            "htru2": (0.0197, 0.06),
            "magic": (0.1163, 0.29),
        },
        classes.ENSEMBLE: {
            "eeg_eye_state": (0.1096, 0.24),
            "htru2": (0.0197, 0.07),
            "magic": (0.1210, 0.30),
        },
    },
}
CLASSES = classes.SETS[classes.FUNCTIONS]
KEYS = ("set", "split", "effort", "method")
CLASS_KEYS = ("table", "set", "split", "n_asked", "effort", "method")
IMAGE_KEYS = ("n", "side", "effort", "method")
PARTS = {"tables": KEYS, "classes": CLASS_KEYS, "images": IMAGE_KEYS}
SCORES = ("rmse", "nlpd", "coverage")
CLASS_SCORES = ("error", "log_loss", "calibration_error")
IMAGE_SCORES = (*CLASS_SCORES, "predict_cpu_seconds")
# What is measured in a place. Printed forms follow the corrected ones, of few samples.
METHODS = {
    "tables": (bagged.BAG, *tables.MODELS, tables.PRINTED),
    "classes": (
        classes.EXACT,
        classes.SPARSE,
        classes.FEATURES,
        classes.FEATURE_DRAWS,
        bagged.BAG,
        *dict.fromkeys(
            [
                *classes.networks(classes.BOOTSTRAPS),
                *classes.networks(classes.FUNCTIONS),
            ]
        ),
    ),
    "images": images.NAMES,
}
# Exact processes: of the kernel of largest evidence, and of the networks' prior.
EXACT = {CHOSEN: "exact, largest evidence", "rbf": "exact, prior of the networks"}


def main() -> None:
    """Measure, print and save."""
    options = parse()
    record = read(options.output, "tables") | {"machine": machine()}
    record |= {"versions": versions(), "reported": REPORTED}
    record |= {"reported_classes": REPORTED_CLASSES}
    for part in PARTS:
        record.setdefault(part, [])
    for path in options.merge:
        merge(record, json.loads(path.read_text()))
    if options.merge:
        save(options.output, record)
        options.sets, options.classes, options.images = [], [], []
    for name in options.sets:
        for split in filter(N_SPLITS.get(name, MOST_SPLITS).__gt__, options.splits):
            place = {"set": name, "split": split, "effort": options.effort}
            fill(options, record, "tables", place, _table(options, name, split))
        print_set(record["tables"], name)
    for name in options.classes:
        for split in options.splits if not options.whole else [0]:
            fill_classes(options, record, name, split)
        print_classes(record["classes"], name)
    for n, side in product(options.images, options.sides):
        place = {"n": n, "side": side, "effort": options.effort}
        fill(options, record, "images", place, _images(options, place))
        print_images(record["images"], place)
    print(f"\nwritten to {options.output}")


def merge(record: Figures, other: Figures) -> None:
    """Add the rows of another file, in the place of those that they repeat."""
    for part, keys in PARTS.items():
        for row in other.get(part, []):
            put(record[part], row, *keys)


def fill_classes(options: Any, record: Figures, name: str, split: int) -> None:
    """Add the rows of a set with classes to each table that has it."""
    for table in options.class_tables:
        if name not in classes.SETS[table]:
            continue
        place = {"table": table, "set": name, "split": split}
        place |= {"n_asked": options.rows, "effort": options.effort}
        fill(options, record, "classes", place, _classes(options, place))


def fill(
    options: Any,
    record: Figures,
    part: str,
    place: Figures,
    measure: Callable[[list[str]], Iterator[tuple[str, Figures]]],
) -> None:
    """Add the rows of a place that are not there."""
    rows, keys = record[part], PARTS[part]
    asked = [name for name in METHODS[part] if name in options.methods]
    missing = [
        method
        for method in asked or METHODS[part]
        if options.again or not find(rows, **place, method=method)
    ]
    if not missing:
        return
    for method, row in measure(missing):
        put(rows, dated(place | {"method": method} | row), *keys)
        save(options.output, record)
        print(place, method, row, flush=True)


def _table(options: Any, name: str, split: int) -> Any:
    def run(methods: list[str]) -> Iterator[tuple[str, Figures]]:
        table = load(name, split)
        return tables.measure(name, table, options.device, options.effort, methods)

    return run


def _classes(options: Any, place: Figures) -> Any:
    def run(methods: list[str]) -> Iterator[tuple[str, Figures]]:
        table, name, split = place["table"], place["set"], place["split"]
        data = classes.load(table, name, split, options.rows)
        return classes.measure(table, data, options.device, options.effort, methods)

    return run


def _images(options: Any, place: Figures) -> Any:
    return lambda methods: images.measure(
        **place, noises=options.noises, device=options.device, methods=methods
    )


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


def print_classes(rows: list[Figures], name: str) -> None:
    """Print means over the splits of a set, with the source's figures behind."""
    for table, of_source in REPORTED_CLASSES.items():
        own = [row for row in rows if row["set"] == name and row["table"] == table]
        if not own:
            continue
        print(f"\n{name}, tables {table}")
        print(f"{'':<34}{'error':>9}{'log loss':>9}{'ECE':>9}   source")
        for method in dict.fromkeys(row["method"] for row in own):
            chosen = [row for row in own if row["method"] == method]
            remark = str(of_source.get(method, {}).get(name, ""))
            print_row(method, chosen, CLASS_SCORES, remark)


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
    add(
        "--sets", nargs="*", choices=SETS, help="boston, if no other data are asked for"
    )
    add("--splits", nargs="+", type=int, default=[0])
    add("--images", nargs="*", type=int, help="their numbers; 200, as for --sets")
    add(
        "--sides", nargs="+", type=int, choices=(14, 28), default=[14], help="of images"
    )
    add("--noises", nargs="+", type=float, default=list(images.NOISES))
    add("--classes", nargs="*", choices=CLASSES, help="sets of classes")
    add("--class-tables", nargs="+", choices=classes.SETS, default=[*classes.SETS])
    add("--rows", type=int, default=10**6, help="training samples of classes, at most")
    all_methods = [name for part in METHODS.values() for name in part]
    add("--methods", nargs="*", default=[], choices=all_methods, help="none is all")
    add("--effort", type=float, default=0.2, help="of the steps, a multiple")
    add("--device", default="auto")
    add("--merge", nargs="*", type=Path, default=[], help="files whose rows are added")
    add("--whole", action="store_true", help="all sets, and splits of numbers")
    add("--again", action="store_true", help="measure rows again that are there")
    add("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.sets is options.classes is options.images is None:
        options.sets, options.images = ["boston"], [200]
    for name in ("sets", "classes", "images"):
        setattr(options, name, getattr(options, name) or [])
    if options.whole:
        options.sets, options.splits = list(SETS), range(MOST_SPLITS)
        options.classes, options.effort = list(CLASSES), 1.0
        options.images, options.sides = [1000, 5000], [14, 28]
    return options


if __name__ == "__main__":
    main()
