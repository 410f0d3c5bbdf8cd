"""Finite networks on tables of two classes, beside processes of the same samples."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.special import softmax

from benchmarks.data import Samples
from benchmarks.data import classes as load_classes
from benchmarks.finite_networks import bagged
from benchmarks.finite_networks.bagged import scaled
from benchmarks.measure import Stopwatch, judge, ran_on, unwarned
from benchmarks.report import Figures
from skconvgp import BayesianNetworkClassifier, ConvNetGPClassifier
from skconvgp.completion import Nystrom, RandomFeatures
from skconvgp.kernels import Kernel, rbf

# Tables of the source: 4.2 and 4.3 have 5000 test samples, 6.3 and 6.4 a tenth.
BOOTSTRAPS, FUNCTIONS = "4.2, 4.3", "6.3, 6.4"
SETS = {BOOTSTRAPS: ("magic", "htru2"), FUNCTIONS: ("eeg_eye_state", "htru2", "magic")}
N_TEST = 5000
N_LEARNED = 2000  # samples from which the kernel is learned
KERNEL = rbf(2.0)
EXACT, SPARSE = "exact process", "process of 500 landmarks"
FEATURES, FEATURE_DRAWS = "random features, exact", "random features, 50 draws"
WEIGHTS, CHAINS = "weights, bootstrap", "weights, chains"
ENSEMBLE, MATCHED = "ensemble", "matched, chains"
OF_FUNCTIONS, BY_BOOTSTRAP = "functions, chains", "functions, bootstrap"
N_FEATURES = 5000
SAMPLING = {
    "inference": "sghmc",
    "n_draws": 40,
    "n_chains": 4,
    "burn_in": 3000,
    "thin": 200,
    "learning_rate": 0.01,
}
TRAINING = {"n_draws": 20, "max_iter": 60, "learning_rate": 0.01}
BY_FEATURES = {"batch_size": 512, "features": 1000}
BAGGED_SIZES = (100, 100)  # as BayesianNetworkClassifier by default
BY_SOFTMAX = {"likelihood": "softmax"}


def load(table: str, name: str, split: int, n_train: int) -> Samples:
    """Return the samples of a table of the source, at most so many to learn from."""
    task = load_classes(name, split, None, None)
    codes = np.unique(task.y)
    X = np.concatenate([task.X, task.X_test])
    y = np.searchsorted(codes, np.concatenate([task.y, task.y_test]))
    cut = len(task.y)
    if table == BOOTSTRAPS:
        order = np.random.default_rng(split).permutation(len(y))
        X, y, cut = X[order], y[order], len(y) - N_TEST
    n = min(cut, n_train)
    return Samples(X[:n], y[:n], X[cut:], y[cut:])


def networks(table: str) -> dict[str, dict[str, Any]]:
    """Return settings of the networks of a table."""
    if table == BOOTSTRAPS:
        usual = {"hidden_layer_sizes": (512, 512), "activation": "relu"}
        models = {
            WEIGHTS: {"n_draws": 50},
            CHAINS: SAMPLING | BY_SOFTMAX | {"n_draws": 52},
            ENSEMBLE: BY_SOFTMAX | {"inference": "ensemble"},
        }
    else:
        usual = {"activation": "tanh"}
        models = {
            OF_FUNCTIONS: SAMPLING | BY_FEATURES | {"prior": KERNEL},
            BY_BOOTSTRAP: TRAINING | BY_FEATURES | {"prior": KERNEL},
            MATCHED: SAMPLING | {"prior": "matched", "kernel": KERNEL},
            WEIGHTS: {},
            ENSEMBLE: BY_SOFTMAX | {"inference": "ensemble"},
        }
    return {name: usual | chosen for name, chosen in models.items()}


def measure(
    table: str, data: Samples, device: str, effort: float, methods: list[str]
) -> Iterator[tuple[str, Figures]]:
    """Yield name and scores of each method; none is all."""

    def is_asked(name: str) -> bool:
        return not methods or name in methods

    yield from _processes(table, data, device, is_asked)
    if is_asked(bagged.BAG):
        sizes = networks(table)[ENSEMBLE].get("hidden_layer_sizes", BAGGED_SIZES)
        found, row = bagged.classes(data.X, data.y, data.X_test, sizes)
        yield bagged.BAG, row | {"n_train": len(data.y)} | judge(data.y_test, found)
    for name, settings in filter(lambda one: is_asked(one[0]), networks(table).items()):
        model = BayesianNetworkClassifier(
            **scaled(settings, effort), device=device, random_state=0
        )
        watch = Stopwatch()
        with unwarned():
            model.fit(data.X, data.y)
        row = watch.read("fit_")
        rhat = float(np.nanmax(model.rhat_)) if hasattr(model, "rhat_") else None
        yield (
            name,
            _row(row, data, model.predict_proba(data.X_test), model.device_)
            | {"rhat": rhat, "n_diverged": model.fit_report_.n_diverged},
        )


def _processes(
    table: str, data: Samples, device: str, is_asked: Callable[[str], bool]
) -> Iterator[tuple[str, Figures]]:
    """Yield the scores of processes with one kernel, learned on some samples."""
    usual = {"likelihood": "dirichlet", "device": device, "random_state": 0}
    parts = {EXACT: None, SPARSE: Nystrom(500)}
    if table == BOOTSTRAPS:
        parts |= {FEATURES: RandomFeatures(N_FEATURES)}
    if not any(map(is_asked, (*parts, FEATURE_DRAWS))):
        return
    few = slice(0, N_LEARNED)
    learned = ConvNetGPClassifier(KERNEL, optimizer="evidence", **usual)
    kernel: Kernel = learned.fit(data.X[few], data.y[few]).kernel_
    for name, part in parts.items():
        is_feature = name == FEATURES
        if not (is_asked(name) or (is_feature and is_asked(FEATURE_DRAWS))):
            continue
        watch = Stopwatch()
        gp = ConvNetGPClassifier(kernel, completion=part, **usual)
        gp.fit(data.X, data.y)
        row = watch.read("fit_") | {"kernel": repr(kernel)}
        yield name, _row(row, data, gp.predict_proba(data.X_test), gp.device_)
        if is_feature and is_asked(FEATURE_DRAWS):
            draws = gp.sample_y(data.X_test, 50, random_state=0)
            mean = softmax(draws, axis=1).mean(axis=2)
            yield FEATURE_DRAWS, _row(row, data, mean, gp.device_)


def _row(row: Figures, data: Samples, probabilities: Any, device: str) -> Figures:
    sizes = {"n_train": len(data.y), "device": device}
    return row | sizes | ran_on(device) | judge(data.y_test, probabilities)
