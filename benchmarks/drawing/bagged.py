"""The peer of finite networks that scikit-learn has: a bag of trained networks."""

from typing import Any

import numpy as np
from calibrating.regression import Table, judge
from calibrating.source import Figures
from numpy.typing import NDArray
from peers.pipe import Stopwatch
from sklearn.ensemble import BaggingClassifier, BaggingRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor

from drawing.place import ran_on

BAG = "scikit-learn, bag of networks"
N_NETWORKS = 20
TRAINING = {"max_iter": 200, "early_stopping": True, "random_state": 0}


def numbers(table: Table, sizes: tuple[int, ...]) -> Figures:
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
    return row | judge(table.y_test, mean, np.full(len(mean), deviation))


def classes(
    X: NDArray[Any], y: NDArray[Any], X_test: NDArray[Any], sizes: tuple[int, ...]
) -> tuple[NDArray[Any], Figures]:
    """Return probabilities of the classes, and seconds."""
    watch = Stopwatch()
    network = MLPClassifier(hidden_layer_sizes=sizes, **TRAINING)
    bag = BaggingClassifier(network, N_NETWORKS, random_state=0)
    bag.fit(X, y)
    return bag.predict_proba(X_test), seconds(watch)


def seconds(watch: Stopwatch) -> Figures:
    """Return what a row says of the time and the machine."""
    found = watch.read()
    taken = {"fit_cpu_seconds": found["cpu_seconds"], "fit_seconds": found["seconds"]}
    return taken | {"device": "cpu"} | ran_on("cpu")
