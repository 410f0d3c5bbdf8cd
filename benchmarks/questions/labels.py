"""Wrong labels: how many of those that are looked at first are wrong."""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from benchmarks.data import Array, Samples
from benchmarks.data import draw as drawn
from benchmarks.measure import Stopwatch
from benchmarks.report import Figures
from skconvgp import ImageClassifier
from skconvgp.questions import audit

KEYS = ("data", "draw", "method")
# Names of sets, training images, and the share of their labels that are changed.
DATA = {
    f"{name}, 500, {share:.0%} wrong": (name, 500, share)
    for name in ("digits", "mnist", "cifar10")
    for share in (0.02, 0.05, 0.1, 0.2)
}
OURS = "audit"
SVC_FOLDS, OUR_FOLDS = "cleanlab, SVC", "cleanlab, ImageClassifier in folds"
METHODS = (OURS, SVC_FOLDS, OUR_FOLDS)
NEEDS = {SVC_FOLDS: "cleanlab", OUR_FOLDS: "cleanlab"}
FOLDS = 5
SHOWN = (
    *("precision_at_k", "n_told", "precision_told", "recall_told"),
    *("n_doubtful", "recall_listed", "cpu_seconds"),
)


def measure(data: str, draw: int, methods: list[str]) -> Iterator[Figures]:
    """Yield a row for each method."""
    name, n, share = DATA[data]
    some = drawn(name, n, draw)
    y, is_wrong = changed(some.y, share, draw)
    for method in methods:
        watch = Stopwatch()
        proba, order, told, doubtful = _asked(method, some, y)
        seconds = watch.read("")
        row = {"method": method} | judged(is_wrong, order, told)
        if doubtful is not None:
            listed = np.concatenate([told, doubtful])
            row |= {"n_doubtful": len(doubtful)}
            row |= {"recall_listed": float(is_wrong[listed].sum() / is_wrong.sum())}
        if method == OURS and find_spec("cleanlab"):
            row["same_as_cleanlab"] = _same(y, proba, told)
        yield row | seconds


def changed(y: Array, share: float, draw: int) -> tuple[Array, Array]:
    """Return labels of which a share is another one, and which of them are."""
    rng = np.random.default_rng(draw)
    wrong = rng.choice(len(y), round(share * len(y)), replace=False)
    k, found = int(y.max()) + 1, y.copy()
    found[wrong] = (y[wrong] + rng.integers(1, k, len(wrong))) % k
    return found, found != y


def judged(is_wrong: Array, order: Array, told: Array) -> Figures:
    """Return shares of wrong labels among the first ones, and among those told.

    As many are looked at first as there are wrong labels.
    """
    k, hits = int(is_wrong.sum()), int(is_wrong[told].sum())
    return {
        "n_wrong": k,
        "precision_at_k": float(is_wrong[order[:k]].mean()),
        "n_told": len(told),
        "precision_told": hits / len(told) if len(told) else None,
        "recall_told": hits / k,
    }


def _asked(
    method: str, some: Samples, y: Array
) -> tuple[Array, Array, Array, Array | None]:
    """Return left-out probabilities, an order, and samples that are told as wrong.

    The last ones are worth a look; None of others, which have no such list.
    """
    gp = ImageClassifier(image_shape=some.X.shape[1:], random_state=0)
    rows = some.flat().X
    if method == OURS:
        fitted = gp.fit(rows, y)
        found = audit(fitted)
        order, told, doubtful = (
            np.array([one["index"] for one in found.records(name)], int)
            for name in ("labels", "wrong_labels", "doubtful_labels")
        )
        return fitted.loo_predict_proba(), order, told, doubtful
    from cleanlab.filter import find_label_issues

    model: Any = gp
    if method == SVC_FOLDS:
        model = make_pipeline(StandardScaler(), SVC(probability=True, random_state=0))
    proba = cross_val_predict(model, rows, y, cv=FOLDS, method="predict_proba")
    order = proba[np.arange(len(y)), y].argsort(kind="stable")
    return proba, order, np.flatnonzero(find_label_issues(y, proba)), None


def _same(y: Array, proba: Array, told: Array) -> bool:
    """Return whether cleanlab tells the same samples by its rule of the same name."""
    from cleanlab.filter import find_label_issues

    expected = find_label_issues(
        y,
        proba,
        filter_by="confident_learning",
        return_indices_ranked_by="self_confidence",
    )
    return np.array_equal(told, expected)
