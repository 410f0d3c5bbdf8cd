"""How good are finite networks as draws, on tables and images, beside processes?

    SKCONVGP_DATA=<folder with mnist.npz, uci_regression, uci_classification> \\
        python -m benchmarks finite_networks

Takes two minutes on a core: split 0 of boston with some of the steps, and 200 images.
--whole takes all sets, ten splits of those of numbers (five of Protein), and up to 5000
images, which are days on a core. Each part can run alone, also in several processes,
whose files a last call puts together:

    python -m benchmarks finite_networks --sets energy --splits 0 1 --output one.json
    python -m benchmarks finite_networks --images 1000 --output two.json
    python -m benchmarks finite_networks --merge one.json two.json

Tables 6.1, 6.2 and 6.5 of Kozyrskiy (2023): errors and negative log densities of
networks with a Gaussian process as prior, by Markov chains and by a bootstrap, in our
form and in the one that is printed, beside those of the source and of exact processes
of the same splits, which `regression` measured. The source does not state its settings
of the chains. On sets of more than 5000 samples, steps of networks with a kernel read
512 samples, and features in place of the kernel. Networks with a prior of weights are
as they are by default, whatever the effort.

Tables 4.2 and 4.3, 6.3 and 6.4 (--classes): errors and log losses of networks beside
processes of the same samples: the exact one, one of landmarks and one of random
features. All of these tables have a bag of scikit-learn's networks beside them.

Images: does the prior of a deep convolutional network help a small one? The deep one
has seven hidden layers. Compared are its exact process and that of the default network,
and a network of two layers of convolutions with the prior of functions, with one of
weights, and as an ensemble; each has 8 networks. They judge the first 1000 test images
of MNIST. Those of 14 x 14 pixels are means of 2 x 2. finite_networks/images.py says how
all of them are trained.

Rows that are there are not measured again. --effort multiplies the number of steps.
"""

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

from benchmarks.data import REPORTED_CLASSES, REPORTED_NUMBERS, numbers, splits
from benchmarks.finite_networks import bagged, classes, images, tables
from benchmarks.measure import Record
from benchmarks.models import CHOSEN, exact_rows
from benchmarks.report import AGAIN, MERGE, Figures, show, show_means

# Of the source: root mean square error, and mean negative log density if it is there.
REPORTED: dict[str, dict[str, tuple[float, ...]]] = {
    tables.CHAINS: {name: own[0] for name, own in REPORTED_NUMBERS.items()},
    tables.MATCHED: {name: own[1] for name, own in REPORTED_NUMBERS.items()},
    tables.PRINTED: {
        "boston": (2.82,),
        "concrete": (4.88,),
        "energy": (0.49,),
        "wine_red": (0.62,),
    },
}

# The same of classes: error, and mean negative log likelihood.
REPORTED_OF = {
    classes.BOOTSTRAPS: {
        classes.WEIGHTS: REPORTED_CLASSES["Table 4.3, bootstrap of a network"],
        classes.CHAINS: REPORTED_CLASSES["Table 4.3, MCMC of a network"],
        classes.FEATURE_DRAWS: REPORTED_CLASSES[
            "Table 4.2, bootstrap on random features"
        ],
        classes.SPARSE: REPORTED_CLASSES["Table 4.2, sparse GP"],
    },
    classes.FUNCTIONS: {
        classes.OF_FUNCTIONS: {
            "eeg_eye_state": (0.0749, 0.33),
            "htru2": (0.0190, 0.06),
            "magic": (0.1184, 0.31),
        },
        classes.MATCHED: REPORTED_CLASSES["Table 6.3-6.4, Wasserstein prior"],
        classes.ENSEMBLE: {
            "eeg_eye_state": (0.1096, 0.24),
            "htru2": (0.0197, 0.07),
            "magic": (0.1210, 0.30),
        },
    },
}
SETS = tuple(REPORTED_NUMBERS)
MOST_SPLITS = 10
CLASSES = classes.SETS[classes.FUNCTIONS]
PARTS = {
    "tables": ("set", "split", "effort", "method"),
    "classes": ("table", "set", "split", "n_asked", "effort", "method"),
    "images": ("n", "side", "effort", "method"),
}
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
        *(classes.networks(classes.BOOTSTRAPS) | classes.networks(classes.FUNCTIONS)),
    ),
    "images": images.NAMES,
}
# Exact processes: of the kernel of largest evidence, and of the networks' prior.
EXACT = {CHOSEN: "exact, largest evidence", "rbf": "exact, prior of the networks"}


def options(add: Any) -> None:
    add("--sets", nargs="*", choices=SETS, help="boston, if no other data are given")
    add("--splits", nargs="+", type=int, default=[0])
    add("--images", nargs="*", type=int, help="their numbers; 200, as for --sets")
    sides = (14, 28)
    add("--sides", nargs="+", type=int, choices=sides, default=[14], help="of images")
    add("--noises", nargs="+", type=float, default=list(images.NOISES))
    add("--classes", nargs="*", choices=CLASSES, help="sets of classes")
    add("--class-tables", nargs="+", choices=classes.SETS, default=[*classes.SETS])
    add("--rows", type=int, default=10**6, help="training samples of classes, at most")
    all_methods = [name for part in METHODS.values() for name in part]
    add("--methods", nargs="*", default=[], choices=all_methods, help="none is all")
    add("--effort", type=float, default=0.2, help="of the steps, a multiple")
    add("--device", default="auto")
    add("--whole", action="store_true", help="all sets, and splits of numbers")
    add("--again", **AGAIN)
    add("--merge", **MERGE)


def run(options: Any, record: Record) -> None:
    settle(options)
    record.write(reported=REPORTED, reported_classes=REPORTED_OF)
    how = options.device, options.effort
    for name in options.sets:
        for split in splits(name, filter(MOST_SPLITS.__gt__, options.splits)):
            place: Figures = {"set": name, "split": split, "effort": options.effort}
            methods = missing(record, "tables", place, options)
            if methods:
                table = numbers(name, split)
                add(record, "tables", place, tables.measure(name, table, *how, methods))
        show_set(record, name)
    for name in options.classes:
        for table, split in product(options.class_tables, options.splits):
            if name not in classes.SETS[table] or (options.whole and split):
                continue
            place = {"table": table, "set": name, "split": split}
            place |= {"n_asked": options.rows, "effort": options.effort}
            methods = missing(record, "classes", place, options)
            if methods:
                data = classes.load(table, name, split, options.rows)
                add(
                    record,
                    "classes",
                    place,
                    classes.measure(table, data, *how, methods),
                )
        show_classes(record, name)
    for n, side in product(options.images, options.sides):
        place = {"n": n, "side": side, "effort": options.effort}
        methods = missing(record, "images", place, options)
        if methods:
            how_images = options.effort, options.noises, options.device, methods
            add(record, "images", place, images.measure(n, side, *how_images))
        print("\nMNIST, " + ", ".join(f"{key} {value}" for key, value in place.items()))
        show_methods(record.rows("images", **place), IMAGE_SCORES, {})


def settle(options: Any) -> None:
    """Give options the values that follow from others."""
    if options.sets is options.classes is options.images is None:
        options.sets, options.images = ["boston"], [200]
    for name in ("sets", "classes", "images"):
        setattr(options, name, getattr(options, name) or [])
    if options.whole:
        options.sets, options.splits = list(SETS), range(MOST_SPLITS)
        options.classes, options.effort = list(CLASSES), 1.0
        options.images, options.sides = [1000, 5000], [14, 28]


def missing(record: Record, part: str, place: Figures, options: Any) -> list[str]:
    """Return the methods that a place has no rows of."""
    asked = [name for name in METHODS[part] if name in options.methods]
    return [
        method
        for method in asked or METHODS[part]
        if record.missing(part, **place, method=method)
    ]


def add(
    record: Record, part: str, place: Figures, measured: Iterator[tuple[str, Figures]]
) -> None:
    """Add and print the rows of a place."""
    for method, row in measured:
        print(record.add(part, place | {"method": method} | row), flush=True)


def show_set(record: Record, name: str) -> None:
    """Print means over the splits of a set, with the source's figures behind."""
    rows = record.rows("tables", set=name)
    splits = {row["split"] for row in rows}
    rows += [
        row | {"method": EXACT[row["method"]]}
        for row in exact_rows(name)
        if row["method"] in EXACT and row["split"] in splits
    ]
    print(f"\n{name}: means over {len(splits)} splits")
    show_methods(rows, SCORES, {key: of.get(name) for key, of in REPORTED.items()})


def show_classes(record: Record, name: str) -> None:
    """Print means over the splits of a set, with the source's figures behind."""
    for table, reported in REPORTED_OF.items():
        print(f"\n{name}, tables {table}")
        told = {method: of.get(name) for method, of in reported.items()}
        rows = record.rows("classes", set=name, table=table)
        show_methods(rows, CLASS_SCORES, told)


def show_methods(rows: list[Figures], scores: Iterable[str], reported: Figures) -> None:
    """Print the means of the scores of each method, and what the source reports."""
    show("", (*scores, "source"), 34, 20)
    told = {method: str(of) for method, of in reported.items() if of}
    show_means(rows, scores, 34, 20, source=told)
