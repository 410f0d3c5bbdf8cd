"""Learning from one start, and what the kernel is worth then."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score
from sklearn.preprocessing import LabelBinarizer

from benchmarks.data import Array, Validated
from benchmarks.flows.budget import Log, WithinBudget, cost, theta_at
from benchmarks.flows.methods import Method
from benchmarks.measure import Stopwatch, accuracies, number
from benchmarks.report import Figures
from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    KernelFlowsClassifier,
    gram_diag,
    gram_matrix,
)

NOISES = (1e-4, 1e-3, 1e-2, 1e-1)  # of the processes that judge


@dataclass(frozen=True)
class Plan:
    """How much is learned from, and what is asked of the result."""

    budget: int  # kernel evaluations of a start
    n_pool: int  # images that are learned from
    batch: int
    n_fixed: int  # batches of the evaluation set
    sizes: tuple[int, ...]  # training images of the processes that judge
    size_on_way: int  # of those that judge places on the way

    def stops(self) -> list[int]:
        """Return what was spent when a place on the way is judged."""
        return [self.budget // 2**i for i in range(4, -1, -1)]


def learn(
    kernel: Any, method: Method, start: Array, split: Validated, plan: Plan
) -> tuple[Figures, Log]:
    """Learn from one start; return what was found and spent, and the way."""
    log = Log()
    gp = KernelFlowsClassifier(
        kernel.with_theta(start),
        optimizer=WithinBudget(method.optimizer, plan.budget, log, len(start)),
        objective=method.objective,
        batch_size=plan.batch,
        n_batches=plan.n_fixed,
        random_state=0,
    )
    pool = split.train.first(plan.n_pool)
    watch = Stopwatch()
    result = gp.fit(pool.X, pool.y).flow_result_
    row = {
        "theta": result.theta.tolist(),  # of the kernel, then of the noise
        "values": result.values,
        "rho": number(result.rho),
        "start_rho": number(result.start_rho),
        "cost": cost(result, len(start)),
        "n_evaluations": result.n_evaluations,
        "n_derivatives": result.n_derivatives,
        "n_steps": len(result.rho_trace),
        "learn_seconds": result.stats["seconds"],
        "seconds_inside": result.stats["seconds_inside"],
        "fit_cpu_seconds": watch.read()["cpu_seconds"],
        "message": result.message,
    }
    return row, log


def judge_kernel(kernel: Any, split: Validated, sizes: tuple[int, ...]) -> Figures:
    """Return accuracies of processes of the first training images, by their number.

    Each has the noise that is best on validation images.
    """
    train = split.train.first(max(sizes))
    # Of seven layers with large variances a matrix in float32 would overflow.
    kernel = (1.0 / gram_diag(kernel, train.X[:1], dtype="float64")[0]) * kernel
    gram = gram_matrix(kernel, train.X)
    cross = split.both(lambda X_new: gram_matrix(kernel, X_new, train.X))
    found = {}
    for n in sizes:
        own, y = gram[:n, :n], train.y[:n]
        noise = best_noise(own, y, cross["validation"][:, :n], split.validation.y)
        gp = ConvNetGPClassifier("precomputed", noise_variance=noise).fit(own, y)
        values = {name: gp.predict_proba(K[:, :n]) for name, K in cross.items()}
        row = {"noise_variance": noise} | accuracies(values, gp.classes_, split)
        found[str(n)] = row
    return found


def best_noise(gram: Any, y: Any, cross: Any, y_new: Any) -> float:
    """Return the noise with most new images right.

    Leave-one-out, by which the estimators choose, takes longer than all the rest.
    """
    labels = LabelBinarizer()
    targets = labels.fit_transform(y)

    def accuracy(noise: float) -> float:
        gp = ConvNetGPRegressor("precomputed", noise_variance=noise, normalize_y=True)
        latent = gp.fit(gram, targets).predict(cross)
        return accuracy_score(y_new, labels.classes_[latent.argmax(axis=1)])

    return max(NOISES, key=accuracy)


def judge_way(
    kernel: Any, start: Array, log: Log, split: Validated, plan: Plan
) -> list[Figures]:
    """Return accuracies of the best places known on the way."""
    known: dict[bytes, Figures] = {}
    rows = []
    for spent in plan.stops():
        theta = theta_at(log, spent, start)
        key = np.asarray(theta).tobytes()
        if key not in known:
            n = plan.size_on_way
            learned = kernel.with_theta(theta[: len(start)])
            known[key] = judge_kernel(learned, split, (n,))[str(n)]
        rows.append({"spent": spent, "theta": theta.tolist()} | known[key])
    return rows
