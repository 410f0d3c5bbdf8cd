"""Learning from one start, and what the kernel is worth then."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from completing.images import Split
from completing.measure import judge, number
from numpy.typing import NDArray
from peers.pipe import Stopwatch

from flowing.budget import Log, WithinBudget, cost, theta_at
from flowing.methods import Method
from flowing.source import NOISE, Figures
from skconvgp import ConvNetGPClassifier, KernelFlowsClassifier, gram_matrix


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
    kernel: Any, method: Method, start: NDArray[Any], split: Split, plan: Plan
) -> tuple[Figures, Log]:
    """Learn from one start; return what was found and spent, and the way."""
    log = Log()
    gp = KernelFlowsClassifier(
        kernel.with_theta(start),
        optimizer=WithinBudget(method.optimizer, plan.budget, log),
        objective=method.objective,
        batch_size=plan.batch,
        n_batches=plan.n_fixed,
        noise_variance=NOISE,
        random_state=0,
    )
    pool = split.train.first(plan.n_pool)
    watch = Stopwatch()
    result = gp.fit(pool.X, pool.y).flow_result_
    row = {
        "theta": result.theta.tolist(),
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


def judge_kernel(kernel: Any, split: Split, sizes: tuple[int, ...]) -> Figures:
    """Return accuracies of processes of the first training images, by their number."""
    train = split.train.first(max(sizes))
    gram = gram_matrix(kernel, train.X)
    cross = split.both(lambda X_new: gram_matrix(kernel, X_new, train.X))
    found = {}
    for n in sizes:
        gp = ConvNetGPClassifier("precomputed", noise_variance=NOISE)
        gp.fit(gram[:n, :n], train.y[:n])
        values = {name: gp.predict_proba(K[:, :n]) for name, K in cross.items()}
        found[str(n)] = judge(values, gp.classes_, split)
    return found


def judge_way(
    kernel: Any, start: NDArray[Any], log: Log, split: Split, plan: Plan
) -> list[Figures]:
    """Return accuracies of the best places known on the way."""
    known: dict[bytes, Figures] = {}
    rows = []
    for spent in plan.stops():
        theta = theta_at(log, spent, start)
        key = np.asarray(theta).tobytes()
        if key not in known:
            n = plan.size_on_way
            known[key] = judge_kernel(kernel.with_theta(theta), split, (n,))[str(n)]
        rows.append({"spent": spent, "theta": theta.tolist()} | known[key])
    return rows
