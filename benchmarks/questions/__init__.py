"""How good are answers about your data, beside what users take now?

    SKCONVGP_DATA=<folder of images and tables> python -m benchmarks questions

Each part asks one question of `skconvgp.questions` and of packages that users take for
it, on several draws of the training samples:

- sets: which labels fit? Coverage and size of prediction sets, beside split and
  cross-conformal prediction of MAPIE around the same classifier.
- intervals: in which interval is the target? Coverage and width, beside MAPIE's.
- novelty: is it an image of this kind? How many images of other kinds are found, and
  how many false alarms there are, beside nearest neighbours of scattering coefficients
  and an isolation forest.
- labels: which labels are wrong? How many of those that are looked at first, and of
  those that are told, beside cleanlab with probabilities of five folds.
- query: which images to label next? Accuracy with 50 to 400 labels by each strategy.
- attribution: what did it look at? How soon the probability of the predicted label
  falls if the pixels that a map points at are made black, beside random order,
  occlusion, and integrated gradients of captum of a small network.

Rows of packages that are not installed are left out. Rows that are there are not
measured again; parts, sets and draws can run alone. Whole, it takes some hours on a
core:

    python -m benchmarks questions --parts sets --draws 0 1
"""

from importlib.util import find_spec
from typing import Any

from benchmarks.measure import Record
from benchmarks.questions import attribution, intervals, labels, novelty, query, sets
from benchmarks.report import AGAIN, Figures, show

ASKED = {
    "sets": sets,
    "intervals": intervals,
    "novelty": novelty,
    "labels": labels,
    "query": query,
    "attribution": attribution,
}
PARTS = {name: part.KEYS for name, part in ASKED.items()}
USUAL = {"draws": list(range(5))}
QUICK = {"draws": [0], "parts": ["intervals"]}


def options(add: Any) -> None:
    add("--parts", nargs="+", choices=ASKED, help="all by default")
    add("--data", nargs="+", help="names of sets, all by default")
    add("--draws", nargs="+", type=int)
    add("--again", **AGAIN)


def run(options: Any, record: Record) -> None:
    for name in options.parts or ASKED:
        part = ASKED[name]
        for data in part.DATA:
            if not options.data or data in options.data:
                _run(name, data, options, record)


def _run(name: str, data: str, options: Any, record: Record) -> None:
    """Measure the rows of a set that are missing, and show the means of all."""
    part = ASKED[name]
    for draw in options.draws:
        missing = [
            method
            for method in part.METHODS
            if record.missing(name, data=data, draw=draw, method=method)
            and find_spec(part.NEEDS.get(method, "skconvgp")) is not None
        ]
        for row in part.measure(data, draw, missing) if missing else ():
            record.add(name, {"data": data, "draw": draw} | row)
    print(f"\n{name}, {data}: means over draws")
    show("", part.SHOWN, 44, 15)
    for method in part.METHODS:
        rows = record.rows(name, data=data, method=method)
        if rows:
            show(method, (_mean(rows, score) for score in part.SHOWN), 44, 15)


def _mean(rows: list[Figures], score: str) -> float | None:
    """Return the mean of a score over the rows that have it."""
    values = [row[score] for row in rows if row.get(score) is not None]
    return sum(values) / len(values) if values else None
