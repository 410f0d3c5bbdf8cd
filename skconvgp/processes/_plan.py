"""Plan of a fit: its memory, its solver, and the function that fits.

Planning raises an error before any work, if settings do not go together or memory is
missing.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from skconvgp._protocols import (
    Completion,
    Expansion,
    IterativeSolver,
    Localization,
    Solver,
)
from skconvgp.completion import CoarseKernel, SubsetOfData
from skconvgp.engine import (
    Placement,
    Size,
    compute_at,
    free_memory,
    gibibytes,
    require_memory,
)
from skconvgp.inference import noise_grid
from skconvgp.processes._problem import Problem, Record, Settings
from skconvgp.processes._process import Process
from skconvgp.processes._run import (
    SMALLER_MATRIX,
    Resources,
    Run,
    Stage,
    run_of_fit,
)
from skconvgp.processes.basis._plain import PlainBasis
from skconvgp.processes.fits._label_models import LabelModel
from skconvgp.processes.posterior._neighbors import NeighborProcess
from skconvgp.solvers import Cholesky, ConjugateGradient, RefinedCholesky

HOST = torch.device("cpu")
# Matrices of the size of the Gram matrix that a fit holds at once.
GRAM_COPIES = 2  # the matrix and its factor
# While the noise is chosen: the matrix, a scaled copy, its eigenvectors, and the work
# space of LAPACK's `syevd`, which is two matrices, or of cuSOLVER's, which is four.
SELECTION_COPIES, GPU_SELECTION_COPIES = 5, 7
# Numbers for each pair of versions of an image, while the noise is chosen with images
# left out: blocks of the inverse for every noise, and one of them with its factor, two
# solves and a column.
BLOCK_COPIES = len(noise_grid(torch.float64)) + 5
# Columns of the preconditioner beside a matrix that nearly fills the memory, at most
# one for ten samples. It takes 2 GiB beside the matrix of 60 000 samples.
FALLBACK_RANK, FALLBACK_SHARE = 500, 10
TRIES = 20  # of amplitudes with known noise variances, about
# Ways to fit.
EXACT, ITERATIVE, SUBSET = "exact", "iterative", "a subset of the samples"
COMPLETION, LANDMARKS, FEATURES = "completion", "landmarks", "random features"
PATCHES, NEIGHBORS = "patches", "nearest neighbours"


FittedProcess: TypeAlias = Process | NeighborProcess


@dataclass(frozen=True)
class Fitted:
    """A fitted process, the record of the fit, and the samples it uses."""

    process: FittedProcess
    record: Record
    used: NDArray[np.intp]  # (m,), indices of the samples that it is fitted to
    # (m,), indices of landmarks among the samples given to `fit`, if there are some
    landmarks: NDArray[np.intp] | None = None


# Fits a problem, given its basis and the run.
Fit: TypeAlias = Callable[[Problem, Any, Run], Fitted]


@dataclass(frozen=True)
class Plan:
    """How a process will be fitted."""

    n: int  # samples
    size: Size  # numbers that a fit holds at once
    fit_at: Fit  # fits the process, given the problem, the basis and the run
    # Covariances of the samples, or features; None if the fit finds its precision.
    basis: Any = None
    solver: Solver[Any] | None = None  # of the user, or in its place; if there is one
    remedy: str = SMALLER_MATRIX  # if memory is missing
    user: str = ""  # of the memory; by default a fit to the samples
    dtype: torch.dtype | None = None  # of the numbers; None: that of solves
    way: str = EXACT  # of fitting
    stages: tuple[Stage, ...] = ()  # of the fit
    # Fields of the report of a fit that are known before it.
    known: dict[str, Any] = field(default_factory=dict)

    def fit(self, problem: Problem, resources: Resources) -> tuple[Fitted, Run]:
        """Return the fitted process, and the run that computed it."""
        placement, needed = self.placement(resources)

        def fit_at(placement: Placement) -> tuple[Fitted, Run]:
            run, basis = self._prepare(needed, placement, resources)
            return self.fit_at(problem, basis, run), run

        return compute_at(placement, fit_at)

    def require(self, resources: Resources) -> None:
        """Raise if devices or memory do not allow the fit."""
        placement, needed = self.placement(resources)
        compute_at(placement, lambda at: self._prepare(needed, at, resources))

    def _prepare(
        self, needed: int, placement: Placement, resources: Resources
    ) -> tuple[Run, Any]:
        run = self.run(needed, placement, resources)
        return run, in_precision(self.basis, resources, run)

    def run(self, needed: int, placement: Placement, resources: Resources) -> Run:
        """Return the run; raise if `needed` bytes are not free."""
        own = self.remedy, self.user
        return run_of_fit(self.n, needed, placement, resources, *own)

    def placement(self, resources: Resources) -> tuple[Placement, int]:
        """Return where to fit, and the bytes that a fit holds there at once."""
        return placement_of_fit(self.n, self.size, resources, self.dtype)


def prepare_fit(
    basis: PlainBasis, needed: int, placement: Placement, resources: Resources
) -> tuple[Run, PlainBasis]:
    """Return the run of a fit, and the basis with the precision of its tiles.

    Raises
    ------
    TileMemoryError
        If `needed` bytes are not free.
    """
    run = run_of_fit(basis.n_samples, needed, placement, resources)
    return run, in_precision(basis, resources, run)


def in_precision(basis: Any, resources: Resources, run: Run) -> Any:
    """Return a basis with the precision of its tiles, if it has some."""
    if basis is None or basis.kernel_basis is None:
        return basis
    return resources.with_precision(basis, run)


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


Strategy: TypeAlias = (
    Completion | Expansion | SubsetOfData | CoarseKernel | Localization | None
)


@dataclass(frozen=True)
class Parts:
    """Parts from which a process is made.

    Parameters
    ----------
    solver : Solver
        Solves with a Gram matrix.
    solver_setting : object
        The setting of the user, for messages.
    completion : object or None
        Part that completes or replaces the Gram matrix.
    fraction : float
        Share of its distinct entries that may be evaluated.
    models_of : callable
        Returns the candidate models of the labels of a problem; none if all targets
        share one noise variance.
    keeps_left_out : bool
        Whether leave-one-out values are used after the fit.
    """

    solver: Solver[Any]
    solver_setting: object
    completion: Strategy
    fraction: float
    models_of: Callable[[Problem], list[LabelModel]]
    keeps_left_out: bool

    @property
    def is_auto(self) -> bool:
        """Whether an iterative solver may replace the direct one."""
        return isinstance(self.solver_setting, str) and self.solver_setting == "auto"

    @property
    def is_direct(self) -> bool:
        """Whether the solver is `Cholesky`, so that smaller matrices may be factored.

        Processes of features and of neighbours factor these, not the Gram matrix.
        """
        return type(self.solver) is Cholesky


@dataclass(frozen=True)
class Route:
    """Solver of an exact process, and the memory it needs."""

    solver: Solver[Any]
    size: Size  # numbers that a fit holds at once
    is_held: bool  # whether the Gram matrix is among these
    reason: str  # why "auto" chose this solver; empty if the user did
    # Whether the matrix is held in single precision, for a solver that overwrites it;
    # and the solver with which to go on if there is no factor in that precision.
    is_single: bool = False
    fallback: ConjugateGradient | None = None

    @property
    def way(self) -> str:
        """The way to fit."""
        return ITERATIVE if isinstance(self.solver, IterativeSolver) else EXACT

    @property
    def known(self) -> dict[str, Any]:
        """Fields of the report of a fit that are known before it."""
        return {
            "solver": type(self.solver).__name__,
            "solver_reason": self.reason,
            "is_gram_held": self.is_held,
        }


def route_of(
    n: int,
    solver: Solver[Any],
    resources: Resources,
    *,
    is_auto: bool,
    is_selecting: bool,
    has_kernel: bool,
    n_versions: int = 1,
    noise: float = 0.0,
) -> Route:
    """Return the route of an exact process of n rows, `n_versions` for each sample.

    With "auto" another solver may replace the direct one: one that holds the matrix in
    single precision, if the noise is no less than its rounding, or an iterative one. If
    the noise is selected, the matrix is decomposed. With a kernel it need not be held.
    """
    held = on_gpu = GRAM_COPIES * n**2
    if is_selecting:
        blocks = BLOCK_COPIES * n * n_versions if n_versions > 1 else 0
        held = SELECTION_COPIES * n**2 + blocks
        on_gpu = GPU_SELECTION_COPIES * n**2 + blocks
    # A GPU returns the factor to the host.
    size = Size(held, on_gpu, n**2)
    direct = Route(copy.deepcopy(solver), size, is_held=True, reason="")
    if is_selecting or not has_kernel:
        return direct
    if not is_auto:
        if isinstance(solver, IterativeSolver):
            return iterative_route(direct, n, resources)
        if hasattr(solver, "n_single_values"):
            return _route_in_place(direct, n, resources, direct.solver) or direct
        return direct
    missing = missing_memory(size, resources)
    if missing:
        in_place = route_in_place(direct, n, resources, missing, noise)
        if in_place is not None and not missing_memory(in_place.size, resources):
            return in_place
        route = replace(direct, solver=ConjugateGradient(), reason=missing)
        return iterative_route(route, n, resources)
    reason = "the Gram matrix and its factor fit into the free memory"
    return replace(direct, reason=reason)


def require_tries(settings: Settings, route: Route) -> None:
    """Raise if an amplitude is searched, and each try takes all covariances again.

    The noise variances are known.
    """
    if settings.amplitude == "profile" and (route.is_single or not route.is_held):
        reason = route.reason or f"with {type(route.solver).__name__}"
        raise ValueError(
            "amplitude='profile' with a noise variance for each sample solves the "
            f"system about {TRIES} times, for which the Gram matrix has to be held "
            f"beside its factor, and it is not ({reason}): set `amplitude` to a "
            "number, in squared units of the targets that are fitted, or to None."
        )


def missing_memory(
    size: Size,
    resources: Resources,
    what: str = "the Gram matrix and its factor",
    dtype: torch.dtype | None = None,
) -> str:
    """Return why a matrix and its factor cannot be held; empty if they can.

    Their numbers have a precision, by default that of solves.
    """
    itemsize = (dtype or resources.solve_dtype).itemsize
    placement = resources.placement(size.on_gpu * itemsize)
    wanted = {HOST: size.held}
    if placement.device != HOST:
        wanted = {placement.device: size.on_gpu, HOST: size.beside_gpu}
    for device, count in wanted.items():
        free = free_memory(device)
        if count * itemsize > free:
            return (
                f"{what} need "
                f"{gibibytes(count * itemsize)} and {gibibytes(free)} are free"
            )
    return ""


def _route_in_place(
    direct: Route,
    n: int,
    resources: Resources,
    solver: Any,
    fallback: ConjugateGradient | None = None,
) -> Route | None:
    """Return the route of one matrix in single precision; None if it is not for that.

    The matrix is on the host, and solves are in double precision.
    """
    double = torch.float64.itemsize
    n_single, beside = solver.n_single_values(n)
    if fallback is not None:
        beside = max(beside, fallback.n_values(n))
    n_bytes = n_single * torch.float32.itemsize + beside * double
    is_on_host = resources.placement(n_bytes).device == HOST
    if resources.solve_dtype.itemsize < double or not is_on_host:
        return None
    held = -(-n_bytes // double)
    size = Size(held, held, held)
    return replace(direct, solver=solver, size=size, is_single=True, fallback=fallback)


def route_in_place(
    direct: Route, n: int, resources: Resources, missing: str, noise: float
) -> Route | None:
    """Return the route of one matrix in single precision, if it is of use."""
    solver = RefinedCholesky()
    if noise < solver.least_noise(n):
        return None
    fallback = ConjugateGradient(rank=max(1, min(FALLBACK_RANK, n // FALLBACK_SHARE)))
    route = _route_in_place(direct, n, resources, solver, fallback)
    if route is None:
        return None
    reason = f"{missing}; one matrix in single precision holds both"
    return replace(route, reason=reason)


def iterative_route(route: Route, n: int, resources: Resources) -> Route:
    """Return the route of a solver for which the matrix need not be held."""
    assert isinstance(route.solver, IterativeSolver)
    itemsize, solver_values = resources.solve_dtype.itemsize, route.solver.n_values(n)
    placement = resources.placement(solver_values * itemsize)
    budget = resources.memory_budget(placement, solver_values * itemsize)
    room = min(budget, free_memory(placement.device) - solver_values * itemsize)
    is_held = n**2 * itemsize <= room
    held = solver_values + n**2 if is_held else solver_values
    return replace(route, size=Size(held, held, held), is_held=is_held)
