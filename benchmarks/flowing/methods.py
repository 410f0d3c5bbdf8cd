"""The ways to learn, by name."""

from dataclasses import dataclass
from typing import Any

from flowing.source import (
    ADAM,
    BAYESIAN,
    DIFFERENCES,
    EVIDENCE,
    EXACT,
    LEAVE_ONE_OUT,
    QUASI,
)
from skconvgp.flows import LBFGS, Adam, BayesianOptimization, GradientDescent, Rho

ENDLESS = 10_000  # steps: the budget ends them
RATE = 0.1  # of Adam: a hundred steps go through half of the bounds


@dataclass(frozen=True)
class Method:
    """An optimiser and what it minimises."""

    optimizer: Any
    objective: Any


def methods() -> dict[str, Method]:
    """Return all of them, the package's default first."""
    adam = Adam(max_iter=ENDLESS, learning_rate=RATE, check_every=10)
    descent = {"max_iter": ENDLESS, "check_every": 10}
    return {
        ADAM: Method(adam, Rho()),
        EXACT: Method(GradientDescent(**descent), Rho()),
        DIFFERENCES: Method(
            GradientDescent(gradient="finite_difference", **descent), Rho()
        ),
        QUASI: Method(LBFGS(max_iter=ENDLESS), Rho()),
        BAYESIAN: Method(BayesianOptimization(max_iter=ENDLESS), Rho()),
        EVIDENCE: Method(adam, Rho(kind="evidence")),
        LEAVE_ONE_OUT: Method(adam, Rho(kind="loo_nlpd")),
    }
