"""Block conjugate gradients: all right-hand sides share their search directions."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from skconvgp.linalg._cholesky import plain_cholesky

__all__ = ["BlockSolution", "block_cg", "orthonormal"]

DEPENDENT = 1e-10  # a direction below this share of the longest one is left out
DIVERGED = 1e8  # relative residual at which a run ends: the matrix is singular
PROGRESS = 0.5  # a restart must at least halve the residual of one column


@dataclass(frozen=True)
class BlockSolution:
    """Result of block conjugate gradients, converged or not."""

    value: Tensor  # (n, k), the iterate with the smallest residual
    n_iter: int  # iterations: products with a block of columns
    residual: Tensor  # (k,), norms of rhs - A value, relative to the norms of rhs


def block_cg(
    matmul: Callable[[Tensor], Tensor],
    rhs: Tensor,
    precondition: Callable[[Tensor], Tensor],
    *,
    tolerance: float,
    max_iter: int,
) -> BlockSolution:
    """Solve A x = rhs for a positive definite A and many right-hand sides (n, k).

    `matmul` returns A times columns (n, b), and `precondition` P^-1 times columns, with
    P near A. The tolerance is for the norm of a residual, relative to its right-hand
    side. `max_iter` is for all columns together. The best iterate is returned with its
    true residuals.

    Directions that become dependent are dropped, so that equal columns do no harm. The
    residuals that the iteration updates drift away from the true ones. Columns whose
    true residual is above the tolerance are therefore solved again from it, until such
    a restart helps none of them.

    References
    ----------
    Ji and Li, "A breakdown-free block conjugate gradient method", 2017; O'Leary, "The
    block conjugate gradient algorithm and related methods", 1980.
    """
    lengths = rhs.norm(dim=0)
    unit = rhs / lengths.where(lengths > 0.0, 1.0)
    value, residual = torch.zeros_like(unit), unit.clone()
    norms = residual.norm(dim=0)
    n_iter = 0
    while n_iter < max_iter:
        active = (norms > tolerance).nonzero()[:, 0]
        if not len(active):
            break
        change, used = _cycle(
            matmul, residual[:, active], precondition, tolerance, max_iter - n_iter
        )
        n_iter += used
        before = norms[active]
        value[:, active] += change
        residual[:, active] = unit[:, active] - matmul(value[:, active])
        norms[active] = residual[:, active].norm(dim=0)
        is_done = norms[active] <= tolerance
        is_better = norms[active] <= PROGRESS * before
        if not bool((is_done | is_better).any()):
            break
    return BlockSolution(value * lengths, n_iter, norms)


def _cycle(
    matmul: Callable[[Tensor], Tensor],
    rhs: Tensor,
    precondition: Callable[[Tensor], Tensor],
    tolerance: float,
    max_iter: int,
) -> tuple[Tensor, int]:
    """Return the best iterate of one run from zero, and the number of iterations."""
    value, residual = torch.zeros_like(rhs), rhs
    best, smallest = value, float(rhs.norm(dim=0).max())
    directions = orthonormal(precondition(residual))[0]
    for n_iter in range(1, max_iter + 1):
        image = matmul(directions)
        factor = plain_cholesky(_symmetric(directions.mT @ image))
        if factor is None:
            return best, n_iter
        step = torch.cholesky_solve(directions.mT @ residual, factor)
        value = value + directions @ step
        residual = residual - image @ step
        largest = float(residual.norm(dim=0).max())
        if largest < smallest:
            best, smallest = value, largest
        if largest <= tolerance or not largest <= DIVERGED:
            return best, n_iter
        # Made A-orthogonal to the last directions, and so to all before them.
        new = precondition(residual)
        new = new - directions @ torch.cholesky_solve(image.mT @ new, factor)
        directions = orthonormal(new)[0]
    return best, max_iter


def orthonormal(columns: Tensor) -> tuple[Tensor, Tensor]:
    """Return an orthonormal basis Q (n, r) and S (r, k) with Q S the columns (n, k).

    Directions that are short compared to the longest one are left out.
    """
    basis, upper = torch.linalg.qr(columns)
    rotation, sizes, rows = torch.linalg.svd(upper, full_matrices=False)
    kept = sizes > DEPENDENT * sizes.max()
    return basis @ rotation[:, kept], sizes[kept, None] * rows[kept]


def _symmetric(matrix: Tensor) -> Tensor:
    return (matrix + matrix.mT) / 2
