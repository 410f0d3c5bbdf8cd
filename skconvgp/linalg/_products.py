"""Products of thin matrices, and small systems with one unknown for each column."""

from typing import cast

import torch
from torch import Tensor

__all__ = [
    "column_factor",
    "product_change",
    "psd_factor",
    "pseudo_inverse_map",
    "ridge_solve",
    "row_factor",
    "spread_rows",
]


def product_change(
    left: Tensor, right: Tensor, old_left: Tensor, old_right: Tensor
) -> tuple[float, float]:
    """Return squared norms of U V^T - U' V'^T and of U' V'^T, without forming them."""
    # Norms do not change if orthonormal bases of the rows and columns are left out.
    rows = torch.linalg.qr(torch.cat([left, old_left], dim=1)).R
    cols = torch.linalg.qr(torch.cat([right, old_right], dim=1)).R
    r = left.shape[1]
    old = rows[:, r:] @ cols[:, r:].mT
    change = rows[:, :r] @ cols[:, :r].mT - old
    return float(change.square().sum()), float(old.square().sum())


def psd_factor(left: Tensor, right: Tensor, rank: int) -> Tensor:
    """Return F (n, rank) with F F^T nearest to the symmetric part of U V^T."""
    # The symmetric part acts in the span of both factors: a problem of size 2 r.
    basis, upper = torch.linalg.qr(torch.cat([left, right], dim=1))
    r = left.shape[1]
    projected = upper[:, :r] @ upper[:, r:].mT
    values, rotation = torch.linalg.eigh((projected + projected.mT) / 2)
    roots = values[-rank:].flip(0).clamp(min=0.0).sqrt()
    return cast(Tensor, (basis @ rotation[:, -rank:].flip(1)) * roots)


def column_factor(columns: Tensor, indices: Tensor, rank: int, cut: float) -> Tensor:
    """Return F (n, r) of the Nystrom approximation F F^T from columns C (n, m).

    F = C Q L^-1/2, with eigenvalues L and eigenvectors Q of the symmetric part of the
    rows of C at `indices` (m,). At most `rank` of the largest eigenvalues are used:
    those above `cut` times the largest, and above the size of the smallest if it is
    negative. If there are none, F is one column of zeros.
    """
    square = columns[indices]
    values, rotation = torch.linalg.eigh((square + square.mT) / 2)
    # A covariance matrix has no negative eigenvalue, so that the size of one measures
    # the errors of the columns. An eigenvalue no larger than that is an error itself,
    # and dividing by it would blow the errors up.
    kept = values > torch.maximum(cut * values[-1], -values[0])
    kept[:-rank] = False
    if not kept.any():
        return torch.zeros_like(columns[:, :1])
    return cast(Tensor, columns @ (rotation[:, kept] * values[kept].rsqrt()))


def pseudo_inverse_map(rows: Tensor, rtol: float, ridge: float = 0.0) -> Tensor:
    """Return A (A^T A + ridge I)^+ (m, r) for a matrix A (m, r).

    Eigenvalues of A^T A up to `rtol` of the largest count as zero.
    """
    values, vectors = torch.linalg.eigh(rows.mT @ rows)
    kept = values > rtol * values.max()
    inverse = torch.where(kept, values + ridge, 1.0).reciprocal() * kept
    return cast(Tensor, rows @ ((vectors * inverse) @ vectors.mT))


def ridge_solve(gram: Tensor, rhs: Tensor, ridge: float, updates: Tensor) -> Tensor:
    """Solve (G + v_i v_i^T + ridge I) x_i = b_i; return the x (..., n, r).

    G (..., r, r) is positive semi-definite, the ridge at least its rounding errors. The
    b are `rhs` (..., n, r), and the v of the rank-one updates `updates` (..., n, r).
    """
    shifted = gram.clone()
    diagonal = shifted.diagonal(dim1=-2, dim2=-1)
    rounding = gram.shape[-1] * torch.finfo(gram.dtype).eps * diagonal.amax(-1)
    diagonal += rounding.clamp(min=ridge)[..., None]
    factor = torch.linalg.cholesky(shifted)
    both = torch.cholesky_solve(torch.cat([rhs, updates], dim=-2).mT, factor).mT
    rows, solved = both[..., : rhs.shape[-2], :], both[..., rhs.shape[-2] :, :]
    # The update by the formula of Sherman and Morrison.
    share = (updates * rows).sum(-1) / (1.0 + (updates * solved).sum(-1))
    return rows - share[..., None] * solved


def row_factor(rows: Tensor) -> Tensor:
    """Return L (n, min(n, r)), lower triangular, with L L^T = F F^T for rows F (n, r).

    The error is that of rounding in F, not in its squares, whatever the rank.
    """
    return cast(Tensor, torch.linalg.qr(rows.mT, mode="r").R.mT)


def spread_rows(rows: Tensor, n_rows: int) -> Tensor:
    """Return the indices (k,) of rows (n, r) that are long and far from each other.

    Each row is the longest after its projection on the rows chosen before is removed.
    When nothing is left of any row, the choice begins again among the others.
    """
    chosen: list[int] = []
    taken = torch.zeros(rows.shape[0], dtype=torch.bool, device=rows.device)
    floor = torch.finfo(rows.dtype).eps * float(rows.square().sum(1).max())
    left, is_fresh = rows.clone(), True
    while len(chosen) < n_rows:
        lengths = left.square().sum(1).masked_fill_(taken, -1.0)
        best = int(lengths.argmax())
        if float(lengths[best]) <= floor and not is_fresh:
            left, is_fresh = rows.clone(), True
            continue
        chosen.append(best)
        taken[best] = True
        direction = left[best] / lengths[best].sqrt().clamp(min=1e-300)
        left -= (left @ direction)[:, None] * direction
        is_fresh = False
    return torch.tensor(chosen, device=rows.device, dtype=torch.int64)
