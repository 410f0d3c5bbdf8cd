"""Which probabilities can be relied on, of likelihoods and of scikit-learn's models?

    SKCONVGP_DATA=<folder with mnist.npz and uci_classification> \\
        python -m benchmarks calibration

Takes about two hours on two cores, most of it for the peers' grids. Error, log loss and
calibration error of every likelihood with kernels whose settings maximise the evidence,
beside logistic regression, support vector machines with each of their probability
options, and scikit-learn's Gaussian process where it ends; all of them choose by
cross-validation or leave-one-out, on training samples only. Each part can run alone:

    python -m benchmarks calibration --quick
    python -m benchmarks calibration --tasks magic --splits 0
    python -m benchmarks calibration --peers
    python -m benchmarks calibration --only-peers --peers svc
    python -m benchmarks calibration --likelihoods laplace --peers

One option of the peers, the temperature of a support vector machine, needs scikit-learn
1.8 or later.
"""

from itertools import chain
from typing import Any

from benchmarks.calibration import others, ours
from benchmarks.calibration.report import IMAGES, TASKS, show_task, targets
from benchmarks.data import Samples, classes, images
from benchmarks.measure import Record, judge
from benchmarks.report import Target

PART = "classification"
PARTS = {PART: ("task", "split", "method")}
USUAL = {"splits": [0, 1, 2], "n_train": 3000, "n_test": None}
QUICK = {"splits": [0], "n_train": 200, "n_test": 400}


def options(add: Any) -> None:
    add("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    add("--splits", nargs="+", type=int, help="of the tables; three of them")
    add("--likelihoods", nargs="+", choices=ours.NAMES, default=ours.NAMES)
    add("--peers", nargs="*", choices=others.PEERS, default=others.PEERS)
    add("--only-peers", action="store_true", help="leave ours out")


def run(options: Any, record: Record) -> list[Target]:
    likelihoods = () if options.only_peers else options.likelihoods
    for name in options.tasks:
        for split in options.splits[:1] if name in IMAGES else options.splits:
            task = load(name, split, options)
            place = {"task": name, "split": split}
            measured = chain(
                ours.measure(task, likelihoods),
                others.measure(task.flat(), options.peers),
            )
            for method, found, probabilities in measured:
                row = place | {"method": method, "n_train": len(task.y)} | found
                record.add(PART, row | judge(task.y_test, probabilities))
        show_task(record.rows(PART, task=name), name)
    return [] if options.quick else targets(record.rows(PART))


def load(name: str, split: int, options: Any) -> Samples:
    """Return images, or a scaled table."""
    if name not in IMAGES:
        return classes(name, split, options.n_train, options.n_test)
    n = min(IMAGES[name], options.n_train) if options.quick else IMAGES[name]
    return images("mnist", n, options.n_test)
