"""Settings of searches for hyperparameters, on all samples and on batches."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike

from skconvgp._protocols import Objective, Optimizer
from skconvgp.estimators.settings._checks import UnfitError, is_auto
from skconvgp.flows import LBFGS, Adam, Rho, VariationalBound

# Iterations on patches: further ones fit the learning images
# (docs/adr/learning-of-patches.md).
USUAL_PATCHES = LBFGS(max_iter=25)
PATCH_KINDS = {"evidence": "evidence", "loo": "loo"}
BOUND = "elbo"

KINDS = {"evidence": "evidence", "loo": "loo_nlpd"}  # of `Rho`, by value of `optimizer`
# The objective is a mean over targets: a smaller change is negligible even in the sum
# over ten thousand targets.
USUAL = LBFGS(max_iter=200, tolerance=1e-7)

# Of Kernel Flows (docs/adr/kernel-flows.md).
USUAL_KIND = "loo_nlpd"
USUAL_BATCH = 600  # samples; docs/maths.rst, "Kernel Flows"
LEAST_BATCH = 2  # samples: one to predict from, one to predict


@dataclass(frozen=True)
class Choice:
    """How the hyperparameters of a kernel are chosen.

    Parameters
    ----------
    criterion : str
        "evidence" or "loo".
    kind : str
        The criterion as a kind of `Rho`.
    optimizer : Optimizer
        Algorithm of the search.
    is_usual : bool
        Whether it is the optimiser that strings stand for.
    """

    criterion: str
    kind: str
    optimizer: Optimizer
    is_usual: bool


def as_choice(
    optimizer: object,
    kinds: Mapping[str, str] = KINDS,
    usual: Optimizer | None = None,
) -> Choice | None:
    """Return how hyperparameters are chosen; an object maximises the evidence.

    `kinds` has words for criteria, and what each stands for. The usual optimiser is
    that which words stand for.
    """
    if optimizer is None:
        return None
    if isinstance(optimizer, str) and optimizer in kinds:
        search = copy.deepcopy(usual or USUAL)
        return Choice(optimizer, kinds[optimizer], search, is_usual=True)
    if isinstance(optimizer, type) or not isinstance(optimizer, Optimizer):
        words = ", ".join(map(repr, kinds))
        own = _of_patches(optimizer)
        raise UnfitError(f"None, {words} or an optimiser of skconvgp.flows{own}")
    search = copy.deepcopy(optimizer)
    return Choice("evidence", kinds["evidence"], search, is_usual=False)


def as_patch_choice(optimizer: object) -> Choice | VariationalBound | None:
    """Return how a kernel of patches is learned: by a criterion, or by the bound."""
    if isinstance(optimizer, VariationalBound):
        optimizer.check()
        return optimizer
    if isinstance(optimizer, str) and optimizer == BOUND:
        return VariationalBound()
    try:
        return as_choice(optimizer, PATCH_KINDS, USUAL_PATCHES)
    except UnfitError:
        words = ", ".join(map(repr, (*PATCH_KINDS, BOUND)))
        message = f"None, {words} or an optimiser of skconvgp.flows"
        raise UnfitError(message) from None


def as_objective(objective: object, noise: float | str) -> Objective:
    """Return the objective of batches: `Rho` for None or a string.

    Its nugget is the noise of the process if that is a number > 0.
    """
    if objective is None or isinstance(objective, str):
        usual = Rho(USUAL_KIND if objective is None else objective)
        if isinstance(noise, str) or noise == 0.0:
            return usual
        return replace(usual, noise_variance=noise)
    if isinstance(objective, type) or not isinstance(objective, Objective):
        raise UnfitError("None, a kind of skconvgp.flows.Rho or an objective object")
    return objective


def as_optimizer(optimizer: object) -> Optimizer:
    """Return a copy of the optimiser of hyperparameters: Adam for None."""
    if optimizer is None:
        return Adam()
    if isinstance(optimizer, type) or not isinstance(optimizer, Optimizer):
        own = _of_patches(optimizer)
        raise UnfitError(f"None or an optimiser of skconvgp.flows{own}")
    return copy.deepcopy(optimizer)


def _of_patches(optimizer: object) -> str:
    """Return which estimators take an optimiser, if it is one of patches alone."""
    if not isinstance(optimizer, VariationalBound):
        return ""
    return "; VariationalBound is for PatchGPClassifier and PatchGPRegressor"


def as_batch_size(size: object, n: int, usual: int) -> int:
    """Return the size of batches of n samples: at most the usual one for "auto"."""
    if is_auto(size):
        return min(usual, n)
    if isinstance(size, Integral) and LEAST_BATCH <= int(size) <= n:
        return int(size)
    raise UnfitError(
        f"'auto' or an int from {LEAST_BATCH} to the number of samples, {n}"
    )


def as_batch_sizes(size: object, n: int) -> tuple[int, ...]:
    """Return the sizes of batches of n samples, each for an equal part of the steps."""
    if is_auto(size):
        return (min(USUAL_BATCH, n),)
    least = LEAST_BATCH
    sizes = tuple(size) if isinstance(size, tuple | list | np.ndarray) else (size,)
    are_counts = all(
        isinstance(item, Integral) and int(item) >= least for item in sizes
    )
    if not sizes or not are_counts:
        raise UnfitError(f"'auto', an int >= {least} or a sequence of them")
    if max(sizes) > n:
        raise UnfitError(f"at most the number of training samples, {n}")
    return tuple(map(int, sizes))


def require_room(codes: ArrayLike | None, batch_size: int) -> None:
    """Raise if a batch is too small to hold all classes."""
    n_classes = 0 if codes is None else len(np.unique(np.asarray(codes)))
    if batch_size < n_classes:
        raise ValueError(
            f"A batch of {batch_size} samples has no room for {n_classes} classes: "
            "raise `batch_size`. Batches are stratified, each class in its share."
        )
