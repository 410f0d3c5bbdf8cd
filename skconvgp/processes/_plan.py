"""Plan of a fit: its memory, and the function that fits.

Planning raises an error before any work, if settings do not go together or memory is
missing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from skconvgp._protocols import Solver
from skconvgp.engine import Placement, Size, compute_at, require_memory
from skconvgp.processes._neighbors import NeighborProcess
from skconvgp.processes._prior import PlainPrior
from skconvgp.processes._problem import Problem, Record
from skconvgp.processes._process import Process
from skconvgp.processes._run import SMALLER_MATRIX, Resources, Run, run_of_fit
from skconvgp.solvers import Cholesky

HOST = torch.device("cpu")


FittedProcess: TypeAlias = Process | NeighborProcess


@dataclass(frozen=True)
class Fitted:
    """A fitted process, the record of the fit, and the samples it uses."""

    process: FittedProcess
    record: Record
    used: NDArray[np.intp]  # (m,), indices of the samples that it is fitted to
    # (m,), indices of landmarks among the samples given to `fit`, if there are some
    landmarks: NDArray[np.intp] | None = None


# Fits a problem, given its prior and the run.
Fit: TypeAlias = Callable[[Problem, Any, Run], Fitted]


@dataclass(frozen=True)
class Plan:
    """How a process will be fitted."""

    n: int  # samples
    size: Size  # numbers that a fit holds at once
    fit_at: Fit  # fits the process, given the problem, the basis and the run
    # Covariances of the samples, or features; None if the fit finds its precision.
    prior: Any = None
    solver: Solver[Any] = field(default_factory=Cholesky)
    remedy: str = SMALLER_MATRIX  # if memory is missing
    user: str = ""  # of the memory; by default a fit to the samples
    dtype: torch.dtype | None = None  # of the numbers; None: that of solves

    def fit(self, problem: Problem, resources: Resources) -> tuple[Fitted, Run]:
        """Return the fitted process, and the run that computed it."""
        placement, needed = self.placement(resources)

        def fit_at(placement: Placement) -> tuple[Fitted, Run]:
            run, prior = self._prepare(needed, placement, resources)
            return self.fit_at(problem, prior, run), run

        return compute_at(placement, fit_at)

    def require(self, resources: Resources) -> None:
        """Raise if devices or memory do not allow the fit."""
        placement, needed = self.placement(resources)
        compute_at(placement, lambda at: self._prepare(needed, at, resources))

    def _prepare(
        self, needed: int, placement: Placement, resources: Resources
    ) -> tuple[Run, Any]:
        own = self.remedy, self.user
        run = run_of_fit(self.n, needed, placement, resources, *own)
        return run, in_precision(self.prior, resources, run)

    def placement(self, resources: Resources) -> tuple[Placement, int]:
        """Return where to fit, and the bytes that a fit holds there at once."""
        return placement_of_fit(self.n, self.size, resources, self.dtype)


def prepare_fit(
    prior: PlainPrior, needed: int, placement: Placement, resources: Resources
) -> tuple[Run, PlainPrior]:
    """Return the run of a fit, and the prior with the precision of its tiles.

    Raises
    ------
    TileMemoryError
        If `needed` bytes are not free.
    """
    run = run_of_fit(prior.n_samples, needed, placement, resources)
    return run, in_precision(prior, resources, run)


def in_precision(prior: Any, resources: Resources, run: Run) -> Any:
    """Return a prior with the precision of its tiles, if it has some."""
    if prior is None or prior.kernel_prior is None:
        return prior
    return resources.with_precision(prior, run)


def placement_of_fit(
    n: int, size: Size, resources: Resources, dtype: torch.dtype | None = None
) -> tuple[Placement, int]:
    """Return where to fit n samples, and the bytes that a fit holds there at once.

    Its numbers have a precision, by default that of solves.

    Raises
    ------
    TileMemoryError
        If a GPU computes a result for which the host has no memory.
    """
    itemsize = (dtype or resources.solve_dtype).itemsize
    placement = resources.placement(size.on_gpu * itemsize)
    if placement.device == HOST:
        return placement, size.held * itemsize
    user = f"The matrix of {n} samples that comes back from the GPU"
    require_memory(size.beside_gpu * itemsize, HOST, user, SMALLER_MATRIX)
    return placement, size.on_gpu * itemsize
