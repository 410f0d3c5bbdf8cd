"""Optimisers as the number of hyperparameters grows, on one network."""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.data import Array, Validated
from benchmarks.flows import published
from benchmarks.flows.budget import WithinBudget
from benchmarks.flows.methods import CHECK, MAIN_KIND, RATE
from benchmarks.flows.networks import HIGHEST, LOWEST
from benchmarks.measure import Stopwatch, unwarned
from benchmarks.report import Figures, mean, select, show
from skconvgp import KernelFlowsClassifier
from skconvgp.flows import LBFGS, Adam, BayesianOptimization
from skconvgp.kernels import Conv2d, Dense, Flatten, ReLU, Sequential

NUMBERS = (2, 6, 12, 20)
DEPTH, WINDOW = 9, 7  # of the network: 20 variances
NAMES = "weight_variance", "bias_variance"
OPTIMIZERS: dict[str, Callable[[int], Any]] = {
    published.BAYESIAN: lambda n_steps: BayesianOptimization(max_iter=n_steps),
    published.QUASI: lambda n_steps: LBFGS(max_iter=n_steps),
    published.ADAM: lambda n_steps: Adam(
        max_iter=n_steps, learning_rate=RATE, check_every=CHECK
    ),
}
SCORES = {
    "start_objective": "at start",
    "objective": "objective",
    "test_accuracy": "accuracy",
    "learn_seconds": "s",
    "n_evaluations": "matrices",
    "n_derivatives": "derived",
}


def network(n_parameters: int, start: Array) -> Any:
    """Return a network that learns the variances of its first layers.

    `start` (20,) has the logarithms of weight and bias variances per location, layer by
    layer. All networks are the same at the start.
    """
    layers: list[Any] = []
    n_free = n_parameters // len(NAMES)
    for place, pair in enumerate(np.exp(start).reshape(DEPTH + 1, len(NAMES))):
        is_last = place == DEPTH
        fan_in = 1.0 if is_last else float(WINDOW**2)
        settings: dict[str, Any] = {}
        for name, value, unit in zip(NAMES, pair, (fan_in, 1.0), strict=True):
            settings[name] = float(value) * unit
            limits = LOWEST * unit, HIGHEST * unit
            settings[f"{name}_bounds"] = limits if place < n_free else "fixed"
        layers += [Flatten(), Dense(**settings)] if is_last else []
        layers += [] if is_last else [Conv2d(WINDOW, **settings), ReLU()]
    return Sequential(*layers)


def draw_start(seed: int) -> Array:
    """Return logarithms of variances that hardly tell images apart.

    Those of the weights are near the lowest, and of the biases near the highest.
    """
    width = np.log(HIGHEST / LOWEST) / 4.0
    shares = np.random.default_rng(seed).uniform(size=(DEPTH + 1, len(NAMES)))
    found: Array = np.log([LOWEST, HIGHEST]) + width * shares * (1.0, -1.0)
    return found.ravel()


def learn_some(
    n_parameters: int, method: str, start: int, split: Validated, options: Any
) -> Figures:
    """Learn some variances from one start; return values, seconds and accuracy."""
    optimizer = OPTIMIZERS[method](options.n_steps)
    gp = KernelFlowsClassifier(
        network(n_parameters, draw_start(start)),
        optimizer=WithinBudget(optimizer),
        objective=MAIN_KIND,
        batch_size=options.small_batch,
        noise_variance=published.NOISE,
        random_state=0,
    )
    watch = Stopwatch()
    with unwarned():
        result = gp.fit(split.train.X, split.train.y).flow_result_
    return {
        "start_objective": result.start_rho,
        "objective": result.rho,
        "theta": result.theta.tolist(),
        "learn_seconds": result.stats["seconds"],
        "seconds_inside": result.stats["seconds_inside"],
        **watch.read("fit_"),
        "n_evaluations": result.n_evaluations,
        "n_derivatives": result.n_derivatives,
        "n_steps": len(result.rho_trace),
        "message": result.message,
        "test_accuracy": gp.score(split.test.X, split.test.y),
        "n_train": len(split.train.y),
        "batch": options.small_batch,
    }


def show_parameters(rows: list[Figures]) -> None:
    """Print means over the starts."""
    show("", SCORES.values(), 32, 12)
    for n, method in dict.fromkeys(
        (row["n_parameters"], row["method"]) for row in rows
    ):
        own = select(rows, n_parameters=n, method=method)
        show(f"{n} variances, {method}", (mean(own, one) for one in SCORES), 32, 12)
