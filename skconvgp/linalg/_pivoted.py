"""Pivoted partial Cholesky factorisation, greedy or random, from columns on demand."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from skconvgp._threads import threads_for

__all__ = ["PivotedCholesky", "pivoted_cholesky"]

# A residual diagonal entry below this share of the entry itself is a rounding error.
ROUNDING = {torch.float64: 1e-12, torch.float32: 1e-5}


@dataclass(frozen=True)
class PivotedCholesky:
    """Partial factorisation F F^T of a positive semi-definite matrix."""

    # Rows and columns (k,) that F F^T has in common with the matrix, in order of
    # choice.
    pivots: Tensor
    factor: Tensor  # F (n, k); its rows at the pivots are lower triangular
    residual: Tensor  # (n,), diagonal of the matrix minus F F^T


def pivoted_cholesky(
    diag: Tensor,
    columns: Callable[[Tensor], Tensor],
    max_columns: int,
    generator: torch.Generator | None = None,
    block: int = 1,
    rtol: float = 0.0,
) -> PivotedCholesky:
    """Factor a positive semi-definite matrix (n, n) from a few of its columns.

    `diag` (n,) is its diagonal, and `columns` returns the columns (n, b) at indices
    (b,), of which at most `max_columns` are evaluated, a block at once.

    Without a generator the pivots are the largest entries of the residual diagonal;
    with a generator they are drawn in proportion to it. The columns of a block are
    chosen from the same residual, and a column that depends on others of its block is
    no pivot. No column is evaluated twice.

    Entries of the residual diagonal below the share `rtol` of the matrix's diagonal
    count as zero. The factorisation stops when the others sum to at most this share of
    the trace. A share below the rounding error of the dtype is raised to it.

    References
    ----------
    Harbrecht, Peters and Schneider, "On the low-rank approximation by the pivoted
    Cholesky decomposition", 2012 (greedy); Chen, Epperly, Tropp and Webber, "Randomly
    pivoted Cholesky", 2022 (random, in blocks).
    """
    share = max(rtol, ROUNDING[diag.dtype])
    floor, enough = share * diag, share * float(diag.sum())
    max_rank = min(max_columns, diag.shape[0])
    factor = diag.new_empty(diag.shape[0], max_rank)
    pivots = torch.empty(max_rank, dtype=torch.int64, device=diag.device)
    residual = diag.clone()
    rank = n_evaluated = 0
    weights = torch.where(residual > floor, residual, 0.0)
    while n_evaluated < max_rank and float(weights.sum()) > enough:
        chosen = _choose(weights, min(block, max_rank - n_evaluated), generator)
        explained = factor[:, :rank], factor[chosen, :rank].mT
        left = columns(chosen)
        with threads_for(len(chosen) * explained[0].numel()):
            left = torch.addmm(left, *explained, alpha=-1.0)
        kept, root = _independent(left[chosen], floor[chosen])
        new = torch.linalg.solve_triangular(root, left[:, kept].mT, upper=False).mT
        stop = rank + new.shape[1]
        factor[:, rank:stop], pivots[rank:stop] = new, chosen[kept]
        residual = (residual - new.square().sum(1)).clamp_(min=0.0)
        residual[chosen] = 0.0  # pivots, or columns that depend on them
        weights = torch.where(residual > floor, residual, 0.0)
        rank, n_evaluated = stop, n_evaluated + chosen.shape[0]
    return PivotedCholesky(pivots[:rank], factor[:, :rank], residual)


def _choose(weights: Tensor, count: int, generator: torch.Generator | None) -> Tensor:
    """Return at most `count` indices of positive weights: the largest, or drawn."""
    count = min(count, int(torch.count_nonzero(weights)))
    if generator is None:
        return weights.topk(count).indices
    # Drawn on the generator's device, so that every device gets the same pivots.
    drawn = torch.multinomial(weights.to(generator.device), count, generator=generator)
    return drawn.to(weights.device)


def _independent(square: Tensor, floor: Tensor) -> tuple[Tensor, Tensor]:
    """Return indices of independent rows of a matrix (b, b), and their factor (k, k).

    Only the lower triangle of the factor is defined.
    """
    size = square.shape[0]
    factor, residual = torch.zeros_like(square), square.diagonal().clone()
    kept: list[int] = []
    for rank in range(size):
        pivot = int((residual - floor).argmax())
        if not float(residual[pivot]) > float(floor[pivot]):
            break
        column = square[:, pivot] - factor[:, :rank] @ factor[pivot, :rank]
        factor[:, rank] = column / residual[pivot].sqrt()
        residual -= factor[:, rank].square()
        kept.append(pivot)
        residual[kept] = -torch.inf
    indices = torch.tensor(kept, dtype=torch.int64, device=square.device)
    return indices, factor[indices, : len(kept)]
