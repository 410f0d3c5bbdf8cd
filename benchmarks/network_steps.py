"""Do finite networks learn a small table in fewer steps?

    SKCONVGP_DATA=<folder with uci_classification, uci_regression>
        python -m benchmarks network_steps

Takes about ten minutes on one thread. The default models of twenty networks learn
some splits of small tables, with the 3000 steps that were the default for tables of any
size, and with 1000. Rows have the scores and processor seconds of a split.
"""

from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from benchmarks.data import Samples, classes, numbers
from benchmarks.measure import Record, Stopwatch, judge_numbers, unwarned
from benchmarks.report import mean as averaged
from benchmarks.report import show
from skconvgp import BayesianNetworkClassifier, BayesianNetworkRegressor

PARTS = {"steps": ("set", "split", "steps")}
TABLES = {
    "iris": load_iris,
    "wine": load_wine,
    "breast cancer": load_breast_cancer,
    "digits": load_digits,
}
UCI = ("magic", "htru2")
NUMBERS = ("yacht", "boston", "energy")
STEPS = (3000, 1000)
SCORES = ("accuracy", "log_loss", "fit_cpu_seconds")
SCORES_OF_NUMBERS = ("rmse", "nlpd", "fit_cpu_seconds")
LEAST_BATCH = 64  # of the default, for tables of this size
N_UCI, N_NEW = 150, 1000
USUAL = {"n_splits": 3}
QUICK = {"n_splits": 1}


def options(add: Any) -> None:
    sets = [*TABLES, *UCI, *NUMBERS]
    add("--sets", nargs="+", choices=sets, default=sets)
    add("--n-splits", type=int)


def run(options: Any, record: Record) -> None:
    torch.set_num_threads(1)
    for name in options.sets:
        scores = SCORES_OF_NUMBERS if name in NUMBERS else SCORES
        show("set, steps", scores)
        for steps in STEPS:
            for split in range(options.n_splits):
                place = {"set": name, "split": split, "steps": steps}
                if record.missing("steps", **place):
                    record.add("steps", place | measure(name, split, steps))
            rows = record.rows("steps", set=name, steps=steps)
            show(f"{name}, {steps}", (averaged(rows, score) for score in scores))


def measure(name: str, split: int, steps: int) -> dict[str, Any]:
    """Return the scores of the default model with a number of steps."""
    table = load(name, split)
    kind = BayesianNetworkRegressor if name in NUMBERS else BayesianNetworkClassifier
    n_batches = -(-len(table.y) // LEAST_BATCH)
    model = kind(max_iter=-(-steps // n_batches), random_state=split)
    watch = Stopwatch()
    with unwarned():
        model.fit(table.X, table.y)
    row = watch.read("fit_") | {"n_train": len(table.y)}
    if name in NUMBERS:
        mean, std = model.predict(table.X_test, return_std=True)
        return row | judge_numbers(table.y_test, mean, std)
    probabilities = model.predict_proba(table.X_test)
    found = model.classes_[probabilities.argmax(1)]
    return row | {
        "accuracy": float(accuracy_score(table.y_test, found)),
        "log_loss": float(log_loss(table.y_test, probabilities, labels=model.classes_)),
    }


def load(name: str, split: int) -> Samples:
    """Return a table of samples to learn from, and others to test."""
    if name in NUMBERS:
        return numbers(name, split)
    if name in UCI:
        return classes(name, split, N_UCI, N_NEW)
    X, y = TABLES[name](return_X_y=True)
    X, X_test, y, y_test = train_test_split(
        X, y, train_size=0.5, stratify=y, random_state=split
    )
    scaler = StandardScaler().fit(X)
    parts = (scaler.transform(part).astype(np.float64) for part in (X, X_test))
    X, X_test = parts
    return Samples(X, y, X_test, y_test)
