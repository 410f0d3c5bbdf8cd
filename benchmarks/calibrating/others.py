"""What a user of scikit-learn would take instead, tuned by cross-validation."""

import math
from collections.abc import Callable
from typing import Any

from peers.pipe import Stopwatch
from sklearn.calibration import CalibratedClassifierCV
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from calibrating.source import Figures
from calibrating.tasks import Task

FOLDS = 5
COSTS = [0.3, 1.0, 3.0, 10.0, 30.0, 100.0]
# Each of its steps factors a matrix of all samples, for each class against the rest.
MOST_BY_SKLEARN = 3000


def logistic(task: Task) -> tuple[Any, Figures]:
    """Fit logistic regression."""
    model = LogisticRegression(max_iter=2000)
    search = GridSearchCV(
        model, {"C": [0.01, *COSTS]}, scoring="neg_log_loss", cv=FOLDS
    )
    search.fit(task.rows, task.y)
    return search, search.best_params_


def support_vectors(method: str) -> Callable[[Task], tuple[Any, Figures]]:
    """Return what fits a support vector machine with one of its probability options."""

    def fit(task: Task) -> tuple[Any, Figures]:
        variance = float(task.rows.var()) * task.rows.shape[1]
        gammas = [share / variance for share in (0.3, 1.0, 3.0, 10.0)]
        search = GridSearchCV(SVC(), {"C": COSTS, "gamma": gammas}, cv=FOLDS)
        search.fit(task.rows, task.y)
        model = CalibratedClassifierCV(
            search.best_estimator_, method=method, cv=FOLDS, ensemble=False
        )
        return model.fit(task.rows, task.y), search.best_params_

    return fit


def gaussian_process(task: Task) -> tuple[Any, Figures] | None:
    """Fit scikit-learn's Gaussian process, where that ends."""
    if len(task.y) > MOST_BY_SKLEARN:
        return None
    # From a length of the size of distances: started at 1, it stays where digits, ten
    # apart, have nothing to do with each other.
    length = math.sqrt(task.rows.var() * task.rows.shape[1])
    kernel = ConstantKernel(1.0, (1e-2, 1e4)) * RBF(length, (1e-2, 1e3))
    model = GaussianProcessClassifier(kernel, random_state=0, copy_X_train=False)
    model.fit(task.rows, task.y)
    return model, {"kernel": repr(model.kernel_)}


OTHERS: dict[str, Callable[[Task], tuple[Any, Figures] | None]] = {
    "logistic regression": logistic,
    "SVC, sigmoid": support_vectors("sigmoid"),
    "SVC, isotonic": support_vectors("isotonic"),
    "SVC, temperature": support_vectors("temperature"),
    "scikit-learn's GP": gaussian_process,
}


def measure(name: str, task: Task) -> tuple[Figures, Any] | None:
    """Return cost and choices, and probabilities of the test samples."""
    watch = Stopwatch()
    found = OTHERS[name](task)
    if found is None:
        return None
    model, choices = found
    row = {"fit_seconds": watch.read()["seconds"]} | choices
    return row, model.predict_proba(task.test_rows)
