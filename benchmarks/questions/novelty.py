"""Novelty: how many images of other kinds are found, and how many false alarms."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from benchmarks.data import Array
from benchmarks.image_sets import SETS
from benchmarks.measure import Stopwatch
from benchmarks.models import flatten
from benchmarks.report import Figures
from skconvgp import ImageClassifier
from skconvgp.questions import novelty
from skconvgp.transforms import ScatteringTransform

KEYS = ("data", "draw", "method")
# Names of sets, training images of known classes, and the classes that are known.
DATA = {
    "digits, 400": ("digits", 400, range(7)),
    "mnist, 400": ("mnist", 400, range(7)),
    "cifar10, vehicles, 400": ("cifar10", 400, (0, 1, 8, 9)),
    "textures, 200": ("textures", 200, range(4)),
    "defects, 200": ("defects", 200, range(2)),
    "cells, 200": ("cells", 200, range(2)),
    "sounds, 400": ("sounds", 400, range(7)),
}
NEIGHBORS = "nearest neighbours of scattering"
FOREST, SCATTERED = "isolation forest", "isolation forest of scattering"
OURS = "ImageClassifier"
METHODS = (OURS, NEIGHBORS, FOREST, SCATTERED)
NEEDS: dict[str, str] = {}
N_TEST, N_STRANGE = 1000, 200
LEVELS = (0.05, 0.01)
UNSEEN = "unseen classes"
SHOWN = (
    *("alarms_0.05", "alarms_0.01", "found_0.05", "found_0.01", "auc"),
    *("found_strange_0.05", "auc_strange", "fit_cpu_seconds"),
    "ask_cpu_seconds_of_1000",
)


def measure(data: str, draw: int, methods: list[str]) -> Iterator[Figures]:
    """Yield a row for each method."""
    X, y, known, others = _kinds(*DATA[data], draw)
    for method in methods:
        watch = Stopwatch()
        p_values = ASKED[method](X, y)
        row = {"method": method, **watch.read("fit_")}
        watch = Stopwatch()
        of_known = p_values(known)
        seconds = watch.read("ask_")
        row |= {f"{name}_of_1000": 1e3 * s / len(known) for name, s in seconds.items()}
        found = {kind: p_values(images) for kind, images in others.items()}
        strange = np.concatenate([p for kind, p in found.items() if kind != UNSEEN])
        for level in LEVELS:
            row[f"alarms_{level:g}"] = float((of_known <= level).mean())
            row[f"found_{level:g}"] = float((found[UNSEEN] <= level).mean())
            row[f"found_strange_{level:g}"] = float((strange <= level).mean())
        row["auc"] = _auc(of_known, found[UNSEEN])
        row["auc_strange"] = _auc(of_known, strange)
        row["found_of_kinds_0.05"] = {
            kind: float((p <= 0.05).mean()) for kind, p in found.items()
        }
        yield row | {"n_test": len(known), "n_unseen": len(found[UNSEEN])}


def _auc(known: Array, other: Array) -> float:
    """Return how often an image of another kind has the smaller p-value."""
    is_other = np.repeat([0, 1], [len(known), len(other)])
    return float(roc_auc_score(is_other, -np.append(known, other)))


def _kinds(
    name: str, n: int, classes: Any, draw: int
) -> tuple[Array, Array, Array, dict[str, Array]]:
    """Return training images, labels, other images of their classes, and of others."""
    made = SETS[name]
    k = len(np.unique(made.make(100, 100, draw).y))
    # One image more of each class, so that those of known classes are enough.
    whole = made.make(min(made.largest, n * k // len(classes) + k), 2 * N_TEST, draw)
    own, is_known = np.isin(whole.y, classes), np.isin(whole.y_test, classes)
    X, y = whole.X[own][:n], whole.y[own][:n]
    known = whole.X_test[is_known][:N_TEST]
    rng, shape = np.random.default_rng(draw), X.shape[1:]
    blank = (
        np.ones((3, *shape), X.dtype) * np.array([0.0, 0.5, 1.0])[:, None, None, None]
    )
    others = {
        UNSEEN: whole.X_test[~is_known][:N_TEST],
        "noise": rng.random((N_STRANGE, *shape)),
        "blank": np.repeat(blank, N_STRANGE // 3, axis=0),
        "inverted": 1.0 - known[:N_STRANGE],
    }
    return X, y, known, {kind: one.astype(np.float32) for kind, one in others.items()}


def _image_classifier(X: Array, y: Array) -> Callable[[Array], Array]:
    """Return p-values of novelty."""
    gp = ImageClassifier(random_state=0).fit(X, y)
    novelty(gp, X[:1])  # which solves once more
    return lambda images: novelty(gp, images)


def _scattered() -> Any:
    return make_pipeline(
        ScatteringTransform(), FunctionTransformer(flatten), StandardScaler()
    )


def _neighbors(X: Array, _y: Array) -> Callable[[Array], Array]:
    """Return p-values of the mean distance to five neighbours, among left-out ones."""
    features = _scattered().fit(X)
    searched = NearestNeighbors(n_neighbors=5).fit(features.transform(X))
    own = np.sort(searched.kneighbors()[0].mean(1))  # each without itself

    def p_values(images: Array) -> Array:
        distances = searched.kneighbors(features.transform(images))[0].mean(1)
        return (1 + len(own) - np.searchsorted(own, distances)) / (len(own) + 1)

    return p_values


def _forest(features: Any) -> Callable[[Array, Array], Any]:
    """Return what fits a forest, and returns ranks of scores among training images."""

    def fit(X: Array, _y: Array) -> Callable[[Array], Array]:
        model = make_pipeline(features(), IsolationForest(random_state=0)).fit(X)
        own = np.sort(model.score_samples(X))
        return lambda images: (
            (1 + np.searchsorted(own, model.score_samples(images), side="right"))
            / (len(own) + 1)
        )

    return fit


ASKED: dict[str, Callable[[Array, Array], Any]] = {
    OURS: _image_classifier,
    NEIGHBORS: _neighbors,
    FOREST: _forest(lambda: FunctionTransformer(flatten)),
    SCATTERED: _forest(_scattered),
}
