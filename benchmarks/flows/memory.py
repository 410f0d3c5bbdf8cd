"""Peak memory of one gradient, in a process of its own."""

from typing import Any

from benchmarks.flows.networks import NETWORKS, load
from benchmarks.flows.published import NOISE
from benchmarks.measure import apart, forget_peak, size
from skconvgp import KernelFlowsClassifier
from skconvgp.flows import GradientDescent

WARM = 20  # images


def peak_bytes(network: str, batch: int, gradient: str) -> int | None:
    """Return the bytes above those of a process that has done a little of the same.

    They are of learning with one step and of the fit after it. None where the system
    does not tell.
    """
    found: int | None = apart(_peak_bytes, network, batch, gradient)
    return found


def _peak_bytes(network: str, batch: int, gradient: str) -> int | None:
    train = load("mnist", max(batch, WARM), 1).train
    few = train.first(WARM)
    learn_one_step(few.X, few.y, network, gradient)
    before = forget_peak()
    learn_one_step(train.X, train.y, network, gradient)
    return None if before is None else size("VmHWM") - before


def learn_one_step(X: Any, y: Any, network: str, gradient: str) -> None:
    """Learn one step from a single batch of all images."""
    KernelFlowsClassifier(
        NETWORKS[network](),
        optimizer=GradientDescent(gradient, max_iter=1),
        batch_size=len(X),
        n_batches=1,
        noise_variance=NOISE,
        random_state=0,
    ).fit(X, y)
