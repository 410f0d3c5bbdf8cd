"""Do Kernel Flows predict tables better than the kernel that they begin with?

    SKCONVGP_DATA=<folder with uci_classification, uci_regression> \
        python -m benchmarks flow_tables

Takes about an hour on a core. Estimators of Kernel Flows with their default and with
further objectives, each from the kernel `rbf()`, beside that kernel without learning,
the kernel with the largest evidence and with the largest leave-one-out density of all
samples, and scikit-learn's processes. Nine tables of UCI and of scikit-learn, two
splits of each, at most 1000 training and 2000 test samples. Errors are those of labels,
or root mean squares in units of the deviation of the training targets; densities are in
these units. Tables can be measured alone; rows that are there are not measured again:

    python -m benchmarks flow_tables --tables diabetes --methods start "Kernel Flows"
"""

from itertools import product
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from benchmarks.data import Samples, classes, numbers
from benchmarks.measure import Record, Stopwatch, judge, judge_numbers, unwarned
from benchmarks.report import AGAIN, Figures, Target, mean, select, show
from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    KernelFlowsClassifier,
    KernelFlowsRegressor,
)
from skconvgp.kernels import rbf

PART, KEYS = "tables", ("table", "split", "method")
PARTS = {PART: KEYS}
START, FLOWS = "start", "Kernel Flows"
SKLEARN = "scikit-learn"
# What `KernelFlowsRegressor(objective=...)` minimises, by the name of the row.
OBJECTIVES = {FLOWS: None} | {
    f"{FLOWS}, {kind}": kind for kind in ("l2", "held_out", "evidence", "loo_nlpd")
}
OPTIMIZERS = {START: None, "evidence": "evidence", "loo": "loo"}
LOADERS = {"diabetes": load_diabetes, "breast_cancer": load_breast_cancer}
NUMBERS = ("diabetes", "boston", "concrete", "energy", "wine_red", "yacht")
LABELS = ("breast_cancer", "magic", "eeg_eye_state")
MOST, MOST_TEST = 1000, 2000  # samples
METHODS = (*OPTIMIZERS, *OBJECTIVES, SKLEARN)
USUAL = {"tables": (*NUMBERS, *LABELS), "splits": (0, 1), "methods": METHODS}
QUICK = {"tables": ("diabetes",), "splits": (0,), "methods": (START, FLOWS)}
SHOWN = ("error", "log_loss", "fit_cpu_seconds")


def options(add: Any) -> None:
    add("--tables", nargs="+", choices=(*NUMBERS, *LABELS))
    add("--splits", nargs="+", type=int)
    add("--methods", nargs="+", choices=METHODS)
    add("--again", **AGAIN)


def run(options: Any, record: Record) -> list[Target]:
    show("", SHOWN, 42, 16)
    for table, split in product(options.tables, options.splits):
        samples = load(table, split)
        for method in options.methods:
            place = {"table": table, "split": split, "method": method}
            if record.missing(PART, **place):
                row = measure(make(method, table in LABELS), samples, table in LABELS)
                record.add(PART, place | {"n_train": len(samples.y)} | row)
                show(f"{table} {split}, {method}", map(row.get, SHOWN), 42, 16)
    return targets(record.rows(PART))


def load(table: str, split: int) -> Samples:
    """Return a table; features are scaled by training samples."""
    if table in LOADERS:
        X, y = LOADERS[table](return_X_y=True)
        strata = y if table in LABELS else None
        X, X_test, y, y_test = train_test_split(
            X, y, test_size=0.25, random_state=split, stratify=strata
        )
        scaler = StandardScaler().fit(X)
        return Samples(scaler.transform(X), y, scaler.transform(X_test), y_test)
    if table in LABELS:
        return classes(table, split, MOST, MOST_TEST)
    return numbers(table, split).first(MOST)


def make(method: str, has_labels: bool) -> Any:
    """Return a model that is not fitted."""
    if method == SKLEARN:
        kernel = ConstantKernel(1.0, (1e-2, 1e4)) * RBF(1.0, (1e-2, 1e3))
        if has_labels:
            return GaussianProcessClassifier(kernel, random_state=0)
        kernel += WhiteKernel(0.1, (1e-8, 1e1))
        return GaussianProcessRegressor(kernel, normalize_y=True, random_state=0)
    if method in OPTIMIZERS:
        whole = ConvNetGPClassifier if has_labels else ConvNetGPRegressor
        return whole(rbf(), optimizer=OPTIMIZERS[method], random_state=0)
    flows = KernelFlowsClassifier if has_labels else KernelFlowsRegressor
    return flows(objective=OBJECTIVES[method], random_state=0)


def measure(model: Any, samples: Samples, has_labels: bool) -> Figures:
    """Fit, predict and judge."""
    watch = Stopwatch()
    with unwarned():
        model.fit(samples.X, samples.y)
    row: Figures = watch.read("fit_") | told(model)
    if has_labels:
        y = np.searchsorted(model.classes_, samples.y_test)
        return row | judge(y, model.predict_proba(samples.X_test))
    scale = samples.y.std()
    found = judge_numbers(samples.y_test / scale, *of_scale(model, samples, scale))
    return row | {"error": found.pop("rmse"), "log_loss": found.pop("nlpd")} | found


def of_scale(model: Any, samples: Samples, scale: float) -> tuple[Any, Any]:
    """Return means and deviations of observations, in units of a scale."""
    if isinstance(model, GaussianProcessRegressor):
        mean, std = model.predict(samples.X_test, return_std=True)
    else:
        both = {"return_std": True, "noise": True}
        mean, std = model.predict_latent(samples.X_test, **both)
    return mean / scale, std / scale


def told(model: Any) -> Figures:
    """Return what an estimator of ours tells of its kernel."""
    found = {"kernel": repr(getattr(model, "kernel_", None))}
    result = getattr(model, "flow_result_", None)
    return found | ({"left_out": result.left_out} if result else {})


def excess(rows: list[Figures], method: str, score: str) -> float:
    """Return the mean of a score above that of the start, over tables and splits."""
    own, starts = select(rows, method=method), select(rows, method=START)
    return mean(own, score) - mean(starts, score)


def targets(rows: list[Figures]) -> list[Target]:
    """Return that the default is better than the start, and no objective is better."""
    names = {row["method"] for row in rows}
    if not set(METHODS) <= names:
        return []
    found = {method: excess(rows, method, "log_loss") for method in OBJECTIVES}
    least = min(value for name, value in found.items() if name != FLOWS)
    return [
        ("log loss above that of the start", found[FLOWS], "at most", 0.0),
        ("above that of the best objective", found[FLOWS] - least, "at most", 0.0),
    ]
