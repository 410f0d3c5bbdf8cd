"""Peak memory of one gradient, in a process of its own."""

import json
import subprocess
import sys
from typing import Any

from peers.ours import forget_peak, size
from peers.pipe import FOLDER

from flowing.images import load
from flowing.networks import NETWORKS
from flowing.source import NOISE
from skconvgp import KernelFlowsClassifier
from skconvgp.flows import GradientDescent

WARM = 20  # images


def peak_bytes(network: str, batch: int, gradient: str) -> int | None:
    """Return the bytes above those of a process that has done a little of the same.

    They are of learning with one step and of the fit after it. None where the system
    does not tell.
    """
    given = {"network": network, "batch": batch, "gradient": gradient}
    done = subprocess.run(
        [sys.executable, "-m", "flowing.memory", json.dumps(given)],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{given}: {done.stderr}")
    found: int | None = json.loads(done.stdout.splitlines()[-1])
    return found


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


def main() -> None:
    """Print the bytes for the case that the command line names."""
    given = json.loads(sys.argv[1])
    case = given["network"], given["gradient"]
    train = load("mnist", max(given["batch"], WARM), 1).train
    few = train.first(WARM)
    learn_one_step(few.X, few.y, *case)
    before = forget_peak()
    learn_one_step(train.X, train.y, *case)
    print(json.dumps(None if before is None else size("VmHWM") - before))


if __name__ == "__main__":
    main()
