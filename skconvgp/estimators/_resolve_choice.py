"""Settings of how a kernel is chosen on all samples: `_resolve` for `optimizer`."""

import copy
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from skconvgp._protocols import Optimizer
from skconvgp.estimators._resolve import reject
from skconvgp.flows import LBFGS

__all__ = ["Choice", "resolve_choice", "resolve_restarts"]

KINDS = {"evidence": "evidence", "loo": "loo_nlpd"}  # of `Rho`, by word
# Values are for each target: what a step brings less than this is nothing even to the
# sum over ten thousand of them.
USUAL = LBFGS(max_iter=200, tolerance=1e-7)


@dataclass(frozen=True)
class Choice:
    """How a kernel is chosen.

    Parameters
    ----------
    criterion : str
        The word for what judges it.
    kind : str
        The same as a kind of `Rho`.
    optimizer : Optimizer
        Searches.
    is_usual : bool
        Whether it is the optimiser that words stand for.
    """

    criterion: str
    kind: str
    optimizer: Optimizer
    is_usual: bool


def resolve_choice(owner: object, optimizer: object) -> Choice | None:
    """Return how a kernel is chosen: an object searches by evidence."""
    if optimizer is None:
        return None
    if isinstance(optimizer, str) and optimizer in KINDS:
        usual = copy.deepcopy(USUAL)
        return Choice(optimizer, KINDS[optimizer], usual, is_usual=True)
    if isinstance(optimizer, type) or not isinstance(optimizer, Optimizer):
        words = ", ".join(map(repr, KINDS))
        expected = f"None, {words} or an optimiser of skconvgp.flows"
        reject(owner, "optimizer", expected, optimizer)
    own = copy.deepcopy(optimizer)
    return Choice("evidence", KINDS["evidence"], own, is_usual=False)


def resolve_restarts(owner: object, count: Any) -> int:
    """Return how many searches begin elsewhere."""
    is_int = isinstance(count, Integral) and not isinstance(count, bool)
    if not is_int or count < 0:
        reject(owner, "n_restarts_optimizer", "an int >= 0", count)
    return int(count)
