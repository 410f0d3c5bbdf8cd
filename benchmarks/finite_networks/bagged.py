"""The peer of finite networks that scikit-learn has: a bag of trained networks."""

from typing import Any

import numpy as np
from sklearn.ensemble import BaggingClassifier, BaggingRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor

from benchmarks.data import Array, Samples
from benchmarks.measure import Stopwatch, judge_numbers, ran_on
from benchmarks.report import Figures

BAG = "scikit-learn, bag of networks"
N_NETWORKS = 20
TRAINING = {"max_iter": 200, "early_stopping": True, "random_state": 0}


def numbers(table: Samples, sizes: tuple[int, ...]) -> Figures:
    """Return the scores of a bag; samples that a network left out tell the noise."""
    watch = Stopwatch()
    centre, unit = table.y.mean(), table.y.std()
    network = MLPRegressor(hidden_layer_sizes=sizes, **TRAINING)
    bag = BaggingRegressor(network, N_NETWORKS, oob_score=True, random_state=0)
    bag.fit(table.X, (table.y - centre) / unit)
    row = seconds(watch)
    left_out = centre + unit * bag.oob_prediction_
    deviation = np.sqrt(np.mean((table.y - left_out) ** 2))
    mean = centre + unit * bag.predict(table.X_test)
    return row | judge_numbers(table.y_test, mean, np.full(len(mean), deviation))


def classes(
    X: Array, y: Array, X_test: Array, sizes: tuple[int, ...]
) -> tuple[Array, Figures]:
    """Return probabilities of the classes, and seconds."""
    watch = Stopwatch()
    network = MLPClassifier(hidden_layer_sizes=sizes, **TRAINING)
    bag = BaggingClassifier(network, N_NETWORKS, random_state=0)
    bag.fit(X, y)
    return bag.predict_proba(X_test), seconds(watch)


def seconds(watch: Stopwatch) -> Figures:
    """Return what a row says of the time and the machine."""
    return watch.read("fit_") | {"device": "cpu"} | ran_on("cpu")


def scaled(settings: dict[str, Any], effort: float) -> dict[str, Any]:
    """Return settings with as many times the steps or epochs."""
    return settings | {
        name: max(4, round(settings[name] * effort))
        for name in ("max_iter", "burn_in", "thin")
        if name in settings
    }
