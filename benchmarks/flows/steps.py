"""Seconds of a step, a profile of ten, and the peak memory of one."""

from functools import cache
from typing import Any

import numpy as np
import torch

from benchmarks.data import Labelled
from benchmarks.flows import published
from benchmarks.flows.budget import WithinBudget
from benchmarks.flows.networks import NETWORKS, load
from benchmarks.measure import apart, forget_peak, size
from benchmarks.report import Figures
from skconvgp import KernelFlowsClassifier
from skconvgp.engine import free_memory
from skconvgp.flows import BayesianOptimization, FlowResult, GradientDescent

GRADIENTS = {
    published.EXACT: "exact",
    published.AUTOGRAD: "autograd",
    published.DIFFERENCES: "finite_difference",
}
STEPS = 5  # that are timed, after the first
# Of Bayesian optimisation, which proposes from its process after the others.
INITIAL = 3
WARM = 20  # images, before memory is measured
SHARE = 0.8  # of the free memory, for a graph
PROBES = (16, 40)  # images of graphs whose memory is measured


def time_steps(network: str, method: str, batch: int, pool: Labelled) -> Figures:
    """Return the seconds of a step, or why there are none."""
    if needed := bytes_missing(network, method, batch):
        return {"needed_bytes": needed}
    n_first = INITIAL if method == published.BAYESIAN else 1
    result = run(network, method, batch, n_first + STEPS, pool)
    seconds = np.diff(result.seconds)[n_first - 1 :]
    return {
        "seconds_per_step": float(np.median(seconds)),
        "slowest": float(seconds.max()),
        "n_steps": len(seconds),
    }


def profile(
    network: str, method: str, batch: int, n_steps: int, pool: Labelled
) -> Figures:
    """Return the seconds of some steps, and what they went into."""
    if needed := bytes_missing(network, method, batch):
        return {"needed_bytes": needed}
    result = run(network, method, batch, n_steps, pool)
    seconds = result.stats["seconds"]
    return {
        "seconds": seconds,
        "share_inside": result.stats["seconds_inside"] / seconds,
        "n_evaluations": result.n_evaluations,
        "n_derivatives": result.n_derivatives,
    }


def run(
    network: str, method: str, batch: int, n_steps: int, pool: Labelled
) -> FlowResult:
    """Learn for some steps, with an evaluation set of one batch."""
    counted = WithinBudget(optimizer(method, n_steps))
    return learn_with(counted, network, batch, pool)


def learn_once(network: str, gradient: str, pool: Labelled) -> None:
    """Learn one step from a single batch of all images."""
    descent = GradientDescent(gradient, max_iter=1)
    learn_with(descent, network, len(pool.y), pool)


def learn_with(part: Any, network: str, batch: int, pool: Labelled) -> FlowResult:
    """Learn with an evaluation set of one batch."""
    gp = KernelFlowsClassifier(
        NETWORKS[network](),
        optimizer=part,
        batch_size=batch,
        n_batches=1,
        noise_variance=published.NOISE,
        random_state=0,
    )
    return gp.fit(pool.X, pool.y).flow_result_


def optimizer(method: str, n_steps: int) -> Any:
    """Return one that makes so many steps."""
    if method == published.BAYESIAN:
        return BayesianOptimization(n_initial=INITIAL, max_iter=n_steps)
    return GradientDescent(GRADIENTS[method], max_iter=n_steps, check_every=n_steps)


def bytes_missing(network: str, method: str, batch: int) -> int:
    """Return the memory of torch's graph of a batch, 0 if there is as much."""
    if method != published.AUTOGRAD:
        return 0
    needed = int(bytes_per_pair(network) * batch**2)
    return needed if needed > SHARE * free_memory(torch.device("cpu")) else 0


@cache
def bytes_per_pair(network: str) -> float:
    """Return the memory of a pair in a graph; 0 where it is not told."""
    few, many = (peak_bytes(network, n, "autograd") or 0 for n in PROBES)
    return (many - few) / (PROBES[1] ** 2 - PROBES[0] ** 2)


def peak_bytes(network: str, batch: int, gradient: str) -> int | None:
    """Return the bytes above those of a process that has done a little of the same.

    They are of learning with one step and of the fit after it. None where the system
    does not tell.
    """
    found: int | None = apart(_peak_bytes, network, batch, gradient)
    return found


def _peak_bytes(network: str, batch: int, gradient: str) -> int | None:
    train = load("mnist", max(batch, WARM), 1).train
    learn_once(network, gradient, train.first(WARM))
    before = forget_peak()
    learn_once(network, gradient, train)
    return None if before is None else size("VmHWM") - before
