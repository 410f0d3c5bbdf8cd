"""Products of thin matrices, and problems with as many unknowns as columns."""

from typing import cast

import torch
from torch import Tensor

__all__ = [
    "column_factor",
    "product_change",
    "psd_factor",
    "pseudo_inverse_map",
    "ridge_solve",
    "spread_rows",
]


def product_change(
    left: Tensor, right: Tensor, old_left: Tensor, old_right: Tensor
) -> tuple[float, float]:
    """Return squared norms of U V^T - U' V'^T and of U' V'^T, without forming them."""
    rows = torch.linalg.qr(torch.cat([left, old_left], dim=1)).R
    cols = torch.linalg.qr(torch.cat([right, old_right], dim=1)).R
    r = left.shape[1]
    old = rows[:, r:] @ cols[:, r:].mT
    change = rows[:, :r] @ cols[:, :r].mT - old
    return float(change.square().sum()), float(old.square().sum())


def psd_factor(left: Tensor, right: Tensor, rank: int) -> Tensor:
    """Return F (n, r) with F F^T nearest to the symmetric part of U V^T of a rank."""
    basis, mixed = torch.linalg.qr(torch.cat([left, right], dim=1))
    r = left.shape[1]
    small = mixed[:, :r] @ mixed[:, r:].mT
    values, turn = torch.linalg.eigh((small + small.mT) / 2)
    roots = values[-rank:].flip(0).clamp(min=0.0).sqrt()
    return cast(Tensor, (basis @ turn[:, -rank:].flip(1)) * roots)


def column_factor(columns: Tensor, indices: Tensor, rank: int, cut: float) -> Tensor:
    """Return F (n, r), with F F^T the matrix that some columns (n, m) tell.

    F = C Q L^-1/2, with the r <= `rank` largest eigenvalues L of the rows of C with
    these numbers (m,), their symmetric part, those above `cut` times the largest and
    above the size of the least, if that is negative; where none is left, one column
    of zeros.
    """
    own = columns[indices]
    values, turn = torch.linalg.eigh((own + own.mT) / 2)
    # A covariance matrix has no eigenvalue below zero: that tells the size of errors of
    # the columns, which must not be divided by an eigenvalue that is one itself.
    kept = values > torch.maximum(cut * values[-1], -values[0])
    kept[:-rank] = False
    if not kept.any():
        return torch.zeros_like(columns[:, :1])
    return cast(Tensor, columns @ (turn[:, kept] * values[kept].rsqrt()))


def pseudo_inverse_map(rows: Tensor, rtol: float, ridge: float = 0.0) -> Tensor:
    """Return A (A^T A + ridge I)^+ (m, r) of rows A (m, r).

    Eigenvalues of A^T A up to `rtol` of the largest count as zero.
    """
    values, vectors = torch.linalg.eigh(rows.mT @ rows)
    kept = values > rtol * values.max()
    inverse = torch.where(kept, values + ridge, 1.0).reciprocal() * kept
    return cast(Tensor, rows @ ((vectors * inverse) @ vectors.mT))


def ridge_solve(gram: Tensor, rhs: Tensor, ridge: float, own: Tensor) -> Tensor:
    """Solve (G + v_i v_i^T + ridge I) x_i = b_i.

    Parameters
    ----------
    gram : Tensor of shape (..., r, r)
        G, positive semi-definite.
    rhs : Tensor of shape (..., n, r)
        Right-hand sides b.
    ridge : float
        What is added to the diagonal; at least the rounding errors of G.
    own : Tensor of shape (..., n, r)
        What each system has beyond the others: v.

    Returns
    -------
    rows : Tensor of shape (..., n, r)
        Solutions x.
    """
    shifted = gram.clone()
    diagonal = shifted.diagonal(dim1=-2, dim2=-1)
    rounding = gram.shape[-1] * torch.finfo(gram.dtype).eps * diagonal.amax(-1)
    diagonal += rounding.clamp(min=ridge)[..., None]
    factor = torch.linalg.cholesky(shifted)
    both = torch.cholesky_solve(torch.cat([rhs, own], dim=-2).mT, factor).mT
    rows, turned = both[..., : rhs.shape[-2], :], both[..., rhs.shape[-2] :, :]
    share = (own * rows).sum(-1) / (1.0 + (own * turned).sum(-1))
    return rows - share[..., None] * turned


def spread_rows(rows: Tensor, n_rows: int) -> Tensor:
    """Return the numbers (k,) of rows (n, r) that are long and far from each other.

    Each is the longest once what it shares with those before is taken away; when
    nothing is left the choice begins again among the others.
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
    return torch.tensor(chosen, device=rows.device)
