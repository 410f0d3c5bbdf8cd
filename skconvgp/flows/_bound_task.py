"""BoundTask: how a patch process is learned by the bound, and what is learned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from skconvgp._protocols import Step
from skconvgp.flows._patch_parameters import LearnedPatches
from skconvgp.flows._variational_bound import VariationalBound
from skconvgp.processes import LearnedPosterior, Variational


@dataclass(frozen=True)
class LearnedBound:
    """What a search by the bound has learned."""

    patches: LearnedPatches
    posterior: LearnedPosterior


@dataclass(frozen=True)
class BoundTask:
    """How a patch process is learned by the bound."""

    bound: VariationalBound
    variational: Variational  # likelihood of labels, or none for targets
    noise: float | None  # of targets, relative; None learns it, too
    learns_kernel: bool
    folder: Path | None  # of the state
    # Called with each step; returns whether to stop.
    watch: Callable[[Step], bool] = field(repr=False)
