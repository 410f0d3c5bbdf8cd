"""The ways to learn, by name: an optimiser and what it minimises."""

from dataclasses import dataclass
from typing import Any

from benchmarks.flows import published
from skconvgp.flows import LBFGS, Adam, BayesianOptimization, GradientDescent, Rho

ENDLESS = 10_000  # steps: the budget ends them
RATE = 0.1  # of Adam: a hundred steps go through half of the bounds
CHECK = 10  # steps between two looks at the fixed batches
MAIN_KIND = Rho().kind
# The ratio takes kernels that hardly fit for good ones where labels are hard to
# predict: it is near one half then, and above it for kernels that predict better.
OTHERS = ("held_out", "evidence", "loo_nlpd", "ratio")
KINDS = tuple(dict.fromkeys((MAIN_KIND, *OTHERS)))
MAIN = f"{published.ADAM}-{MAIN_KIND}"


@dataclass(frozen=True)
class Method:
    """An optimiser and the word for what it minimises."""

    optimizer: Any
    objective: str


def methods() -> dict[str, Method]:
    """Return all of them."""
    return {
        f"{name}-{kind}": Method(optimizer, kind)
        for kind in KINDS
        for name, optimizer in optimizers().items()
    }


def usual() -> list[str]:
    """Return those that are measured: all optimisers, and all that is minimised."""
    return [f"{name}-{MAIN_KIND}" for name in optimizers()] + [
        f"{published.ADAM}-{kind}" for kind in KINDS[1:]
    ]


def optimizers() -> dict[str, Any]:
    """Return all of them."""
    descent = {"max_iter": ENDLESS, "check_every": CHECK}
    return {
        published.ADAM: Adam(learning_rate=RATE, **descent),
        published.EXACT: GradientDescent(**descent),
        published.DIFFERENCES: GradientDescent(gradient="finite_difference", **descent),
        published.QUASI: LBFGS(max_iter=ENDLESS),
        published.BAYESIAN: BayesianOptimization(max_iter=ENDLESS),
    }
