"""The noise that "auto" stands for, and whether the data can choose one."""

import numpy as np

from skconvgp.estimators._warn import warn_caller
from skconvgp.inference import FEWEST_INPUTS
from skconvgp.processes import Problem

# Number of inputs up to which "auto" uses an eigendecomposition: there its n^3
# operations take as long as n^2 covariances of images (docs/adr/noise.md).
MOST_INPUTS = 5000
CLASSIFIER_NOISE, REGRESSOR_NOISE = 1e-4, 1e-2
# Targets are constant if they differ by less than this share of the largest.
LEAST_SPREAD = 1e-12
# Share of the samples that are copies of others, up to which a search by
# leave-one-out ends near where it would without them (docs/adr/equal-inputs.md).
MOST_COPIED = 0.05


def usual_noise(*, has_classes: bool) -> float:
    """Return the relative noise variance if no criterion chooses it."""
    return CLASSIFIER_NOISE if has_classes else REGRESSOR_NOISE


def can_choose_noise(problem: Problem) -> bool:
    """Return whether inputs and targets suffice to choose the noise."""
    return not why_no_choice(problem)


def why_no_choice(problem: Problem) -> str:
    """Return why a noise cannot be chosen; empty if it can (docs/adr/noise.md)."""
    targets, n_inputs = problem.targets, problem.inputs.n_left_out
    spread = float(np.ptp(targets, axis=0).max())
    if n_inputs < FEWEST_INPUTS:
        return f"{n_inputs} different inputs, and a choice takes {FEWEST_INPUTS}"
    if spread <= LEAST_SPREAD * float(np.abs(targets).max()):
        return "all targets are equal"
    n_judged, least = problem.n_judged, max(FEWEST_INPUTS, -(-n_inputs // 2))
    if n_judged < least:
        return (
            f"only {n_judged} of {n_inputs} different inputs have another one of their "
            f"class, and a choice takes {least}"
        )
    return ""


def warn_of_copies(problem: Problem) -> None:
    """Warn if many samples have copies, from which leave-one-out predicts them."""
    n = len(problem.rows)
    pairs = zip(problem.inputs.of.tolist(), map(tuple, problem.targets), strict=True)
    share = 1.0 - len(set(pairs)) / n
    if share > MOST_COPIED:
        warn_caller(
            f"{share:.0%} of the samples are copies of others: optimizer='loo' "
            "predicts a sample that is left out from its copy, and may choose a "
            "length that is far too short. Leave repeated samples out, or use "
            "optimizer='evidence'.",
            UserWarning,
        )
