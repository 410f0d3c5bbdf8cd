"""What a user of scikit-learn would take instead, tuned by cross-validation."""

import math
import warnings
from collections.abc import Collection, Iterator
from typing import Any

from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from benchmarks.data import Samples
from benchmarks.measure import Stopwatch
from benchmarks.report import Figures

FOLDS = 5
COSTS = [0.3, 1.0, 3.0, 10.0, 30.0, 100.0]
# Each of its steps factors a matrix of all samples, for each class against the rest.
MOST_BY_SKLEARN = 3000
LOGISTIC, PROCESS = "logistic regression", "scikit-learn's GP"
METHODS = ("sigmoid", "isotonic", "temperature")
OWN = "SVC, probability=True"  # deprecated in scikit-learn 1.9
OTHERS = (LOGISTIC, *(f"SVC, {method}" for method in METHODS), OWN, PROCESS)
PEERS = ("logistic", "svc", "process")


def logistic(task: Samples) -> tuple[Any, Figures]:
    """Fit logistic regression."""
    model = LogisticRegression(max_iter=2000)
    grid = {"C": [0.01, *COSTS]}
    search = GridSearchCV(model, grid, scoring="neg_log_loss", cv=FOLDS, n_jobs=-1)
    search.fit(task.X, task.y)
    return search, search.best_params_


def support_vectors(task: Samples) -> tuple[SVC, Figures]:
    """Return a support vector machine with the best settings, not fitted."""
    variance = float(task.X.var()) * task.X.shape[1]
    gammas = [share / variance for share in (0.3, 1.0, 3.0, 10.0)]
    grid = {"C": COSTS, "gamma": gammas}
    search = GridSearchCV(SVC(), grid, cv=FOLDS, refit=False, n_jobs=-1)
    search.fit(task.X, task.y)
    return SVC(**search.best_params_), search.best_params_


def gaussian_process(task: Samples) -> tuple[Any, Figures]:
    """Fit scikit-learn's Gaussian process."""
    # From a length of the size of distances: started at 1, it stays where digits, ten
    # apart, have nothing to do with each other.
    length = math.sqrt(task.X.var() * task.X.shape[1])
    kernel = ConstantKernel(1.0, (1e-2, 1e4)) * RBF(length, (1e-2, 1e3))
    model = GaussianProcessClassifier(kernel, random_state=0, copy_X_train=False)
    model.fit(task.X, task.y)
    return model, {"kernel": repr(model.kernel_)}


def measure(
    task: Samples, peers: Collection[str]
) -> Iterator[tuple[str, Figures, Any]]:
    """Yield name, cost and choices, and probabilities of the test samples."""
    if "logistic" in peers:
        watch = Stopwatch()
        model, choices = logistic(task)
        yield _row(LOGISTIC, task, model, choices, watch.read()["seconds"])
    if "svc" in peers:
        yield from _measure_svc(task)
    if "process" not in peers:
        return
    if len(task.y) > MOST_BY_SKLEARN:
        print(f"{PROCESS} is left out: {len(task.y)} samples are too many")
        return
    watch = Stopwatch()
    model, choices = gaussian_process(task)
    yield _row(PROCESS, task, model, choices, watch.read()["seconds"])


def _measure_svc(task: Samples) -> Iterator[tuple[str, Figures, Any]]:
    """Yield all options of the support vector machine.

    Its settings are searched for once; each option has taken as long as the search and
    its own fits.
    """
    watch = Stopwatch()
    machine, choices = support_vectors(task)
    searched = watch.read()["seconds"]
    models = {
        f"SVC, {method}": CalibratedClassifierCV(
            machine, method=method, cv=FOLDS, ensemble=False
        )
        for method in METHODS
    }
    models[OWN] = clone(machine).set_params(probability=True, random_state=0)
    for name, model in models.items():
        watch = Stopwatch()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The `probability`", FutureWarning)
            model.fit(task.X, task.y)
        seconds = searched + watch.read()["seconds"]
        yield _row(name, task, model, choices, seconds)


def _row(
    name: str, task: Samples, model: Any, choices: Figures, seconds: float
) -> tuple[str, Figures, Any]:
    row = {"fit_seconds": seconds} | choices
    return name, row, model.predict_proba(task.X_test)
