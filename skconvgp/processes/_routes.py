"""Route of an exact process: which solver, and whether the matrix is held."""

import copy
from dataclasses import dataclass, replace
from typing import Any

import torch

from skconvgp._protocols import IterativeSolver, Solver
from skconvgp.engine import Size, free_memory, gibibytes
from skconvgp.inference import noise_grid
from skconvgp.processes._run import Resources
from skconvgp.solvers import ConjugateGradient

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


@dataclass(frozen=True)
class Route:
    """Solver of an exact process, and the memory it needs."""

    solver: Solver[Any]
    size: Size  # numbers that a fit holds at once
    is_held: bool  # whether the Gram matrix is among these
    reason: str  # why "auto" chose this solver; empty if the user did


def route_of(
    n: int,
    solver: Solver[Any],
    resources: Resources,
    *,
    is_auto: bool,
    is_selecting: bool,
    has_kernel: bool,
    n_versions: int = 1,
) -> Route:
    """Return the route of an exact process of n rows, `n_versions` for each sample.

    With "auto" an iterative solver may replace the direct one. If the noise is
    selected, the matrix is decomposed. With a kernel it need not be held.
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
        return direct
    missing = missing_memory(size, resources)
    if missing:
        route = replace(direct, solver=ConjugateGradient(), reason=missing)
        return iterative_route(route, n, resources)
    reason = "the Gram matrix and its factor fit into the free memory"
    return replace(direct, reason=reason)


def missing_memory(
    size: Size, resources: Resources, what: str = "the Gram matrix and its factor"
) -> str:
    """Return why a matrix and its factor cannot be held; empty if they can."""
    itemsize = resources.solve_dtype.itemsize
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
