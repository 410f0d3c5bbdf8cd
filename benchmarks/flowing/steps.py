"""Seconds of a step, and a profile of ten."""

from functools import cache
from typing import Any

import numpy as np
import torch
from completing.images import Part

from flowing.budget import WithinBudget
from flowing.memory import peak_bytes
from flowing.networks import NETWORKS
from flowing.source import AUTOGRAD, BAYESIAN, DIFFERENCES, EXACT, Figures
from skconvgp import KernelFlowsClassifier
from skconvgp.engine import free_memory
from skconvgp.flows import BayesianOptimization, FlowResult, GradientDescent

GRADIENTS = {
    EXACT: "exact",
    AUTOGRAD: "autograd",
    DIFFERENCES: "finite_difference",
}
STEPS = 5  # of which the first is left out
# Of Bayesian optimisation, which proposes from its process after the others.
INITIAL = 3
PROBE = 24  # images of a graph whose memory is measured


def time_steps(network: str, method: str, batch: int, pool: Part) -> Figures:
    """Return the seconds of a step, or why there are none."""
    needed = graph_bytes(network, batch) if method == AUTOGRAD else 0
    if needed > free_memory(torch.device("cpu")):
        return {"needed_bytes": needed}
    n_first = INITIAL if method == BAYESIAN else 1
    result = run(network, method, batch, n_first + STEPS, pool)
    seconds = np.diff(result.seconds)[n_first - 1 :]
    return {
        "seconds_per_step": float(np.median(seconds)),
        "slowest": float(seconds.max()),
        "n_steps": len(seconds),
    }


def profile(network: str, method: str, batch: int, n_steps: int, pool: Part) -> Figures:
    """Return the seconds of some steps, and what they went into."""
    needed = graph_bytes(network, batch) if method == AUTOGRAD else 0
    if needed > free_memory(torch.device("cpu")):
        return {"needed_bytes": needed}
    result = run(network, method, batch, n_steps, pool)
    seconds = float(result.seconds[-1])
    return {
        "seconds": seconds,
        "share_inside": result.stats["seconds_inside"] / seconds,
        "n_evaluations": result.n_evaluations,
        "n_derivatives": result.n_derivatives,
    }


def run(network: str, method: str, batch: int, n_steps: int, pool: Part) -> FlowResult:
    """Learn for some steps, with an evaluation set of one batch."""
    gp = KernelFlowsClassifier(
        NETWORKS[network](),
        optimizer=WithinBudget(optimizer(method, n_steps)),
        batch_size=batch,
        n_batches=1,
        random_state=0,
    )
    return gp.fit(pool.X, pool.y).flow_result_


def optimizer(method: str, n_steps: int) -> Any:
    """Return one that makes so many steps."""
    if method == BAYESIAN:
        return BayesianOptimization(n_initial=INITIAL, max_iter=n_steps)
    return GradientDescent(GRADIENTS[method], max_iter=n_steps, check_every=n_steps)


def graph_bytes(network: str, batch: int) -> int:
    """Return the memory of torch's graph of a batch: it grows with the pairs."""
    return int(probe(network) * (batch / PROBE) ** 2)


@cache
def probe(network: str) -> int:
    """Return the memory of a small graph; none is known where it is not told."""
    return peak_bytes(network, PROBE, "autograd") or 0
