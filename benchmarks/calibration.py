"""Probabilities to rely on: likelihoods beside what scikit-learn has.

    SKCONVGP_DATA=<folder with mnist.npz and uci_classification> \\
        python benchmarks/calibration.py

Takes about two hours on two cores, most of it for the peers' grids. Error, log loss and
calibration error of every likelihood with kernels whose settings maximise the evidence,
beside logistic regression, support vector machines with each of their probability
options, and scikit-learn's Gaussian process where it ends; all of them choose by
cross-validation or leave-one-out, on training samples only. Each part can run alone:

    python benchmarks/calibration.py --quick
    python benchmarks/calibration.py --tasks magic --splits 0
    python benchmarks/calibration.py --peers
    python benchmarks/calibration.py --only-peers --peers svc
    python benchmarks/calibration.py --likelihoods laplace --peers

Prints tables and writes benchmarks/results/calibration.json after each figure; other
figures stay. A quick run writes only what --output names. One option of the peers, the
temperature of a support vector machine, needs scikit-learn 1.8 or later.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from calibrating import others, ours
from calibrating.report import KEYS, judge, print_task, read, targets
from calibrating.source import Figures
from calibrating.tasks import IMAGES, TASKS, Task, load
from completing.report import dated, put, save
from peers.machine import machine, versions
from peers.report import print_targets

RESULTS = Path(__file__).parent / "results" / "calibration.json"
N_TRAIN, FEW = 3000, 200  # samples of a table


def main() -> None:
    """Measure, print and save."""
    options = parse()
    record = read(options.output, "classification")
    record |= {"versions": versions(), "machine": machine()}
    for name in options.tasks:
        for split in options.splits[:1] if name in IMAGES else options.splits:
            measure(load(name, split, options.n_train, options.n_test), record, options)
        print_task(record["classification"], name)
    is_good = print_targets([] if options.quick else targets(record["classification"]))
    if options.output:
        print(f"\nwritten to {options.output}")
    if options.check and not is_good:
        sys.exit(1)


def parse() -> Any:
    """Return the options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    add("--splits", nargs="+", type=int, default=[0, 1, 2], help="of the tables")
    add("--likelihoods", nargs="+", choices=ours.NAMES, default=ours.NAMES)
    add("--peers", nargs="*", choices=others.PEERS, default=others.PEERS)
    add("--only-peers", action="store_true", help="leave ours out")
    add("--quick", action="store_true", help="a few samples, a minute or two")
    add("--check", action="store_true", help="exit with 1 if a figure is missed")
    add("--output", type=Path, help="by default results/calibration.json if not quick")
    options = parser.parse_args()
    options.n_train = FEW if options.quick else N_TRAIN
    options.n_test = 2 * FEW if options.quick else None
    if options.quick:
        options.splits = options.splits[:1]
    elif not options.output:
        options.output = RESULTS
    return options


def measure(task: Task, record: Figures, options: Any) -> None:
    """Measure all methods on a task."""

    def add(method: str, row: Figures, probabilities: Any) -> None:
        place = {"task": task.name, "split": task.split, "method": method}
        row = place | {"n_train": len(task.y)} | row | judge(task.y_test, probabilities)
        put(record["classification"], dated(row), *KEYS)
        save(options.output, record)

    if not options.only_peers:
        for name, row, probabilities in ours.measure(task, options.likelihoods):
            add(name, row, probabilities)
    for name, row, probabilities in others.measure(task, options.peers):
        add(name, row, probabilities)


if __name__ == "__main__":
    main()
