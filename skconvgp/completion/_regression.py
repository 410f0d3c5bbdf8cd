"""Regression of the observed entries of each row on the columns of a thin matrix."""

import math
from collections.abc import Callable

from torch import Tensor

from skconvgp.completion._masked import EIGENVALUE_CUT, Fit, Limits
from skconvgp.completion._observed import Observed
from skconvgp.linalg import (
    Anderson,
    column_factor,
    product_change,
    psd_factor,
    ridge_solve,
)

__all__ = ["alternate", "solve_rows", "sweep_rows"]

GROWTH = 1.1  # of the objective, beyond which an accelerated round is undone


def alternate(
    update: Callable[[Tensor, Tensor], Tensor],
    right: Tensor,
    limits: Limits,
    known: Observed,
    ridge: float,
    landmarks: Tensor | None = None,
) -> Fit:
    """Update U and V in turn from U = V, and tie them at the end.

    Rounds are accelerated. If the acceleration has raised the objective, the iteration
    continues from the previous round.

    Parameters
    ----------
    update : callable
        Returns a better U (n, r) for V and U.
    right : Tensor of shape (n, r)
        V.
    limits : Limits
        Rounds end when U V^T changes less.
    known : Observed
        Observed entries P(K) of the objective |P(K - U V^T)|^2 + ridge (|U|^2 + |V|^2).
    ridge : float
        Its factor.
    landmarks : Tensor of shape (m,) or None
        Samples to whose columns all observed entries belong, if there are any.

    Returns
    -------
    fit : Fit
        F F^T is nearest to the symmetric part of U V^T. With landmarks it follows from
        their columns of U V^T, because the other columns of the product were never
        fitted.
    """
    left, last, n_iter, converged = right, (right, right), 0, False
    acceleration, least = Anderson(), math.inf
    while n_iter < limits.max_iter and not converged:
        left = update(right, left)
        made = update(left, right)
        n_iter += 1
        loss = known.minus(left, made).square_sum() + ridge * (
            float(left.square().sum()) + float(made.square().sum())
        )
        if loss > GROWTH * least:
            (left, right), acceleration, least = last, Anderson(), math.inf
            continue
        change, size = product_change(left, made, *last)
        converged = change <= limits.rtol**2 * size
        last, least = (left, made), loss
        right = acceleration.next(right, made)
    rank = right.shape[1]
    if landmarks is None:
        return Fit(psd_factor(*last, rank), n_iter, converged)
    columns = last[0] @ last[1][landmarks].mT
    factor = column_factor(columns, landmarks, rank, EIGENVALUE_CUT)
    return Fit(factor, n_iter, converged)


def solve_rows(known: Observed, columns: Tensor, ridge: float) -> Tensor:
    """Return x_i (n, r) that minimise |P_i(k_i - V x_i)|^2 + ridge |x_i|^2.

    Parameters
    ----------
    known : Observed
        The observed entries k_i of each row.
    columns : Tensor of shape (n, r)
        V.
    ridge : float
        Its factor.

    Returns
    -------
    rows : Tensor of shape (n, r)
        Solutions x_i.
    """
    rows = known.variances[:, None] * columns
    for block in known.blocks:
        seen, own = block.of_cols(columns), columns[block.rows]
        rhs = rows[block.rows] + block.values @ seen
        rows[block.rows] = ridge_solve(
            seen.mT @ seen, rhs, ridge, own * known.alone[block.rows, None]
        )
    return rows


def sweep_rows(known: Observed, columns: Tensor, rows: Tensor, ridge: float) -> Tensor:
    """Return x_i (n, r) with one coordinate after the other at its best value."""
    rows, rhs = rows.clone(), known @ columns
    for block in known.blocks:
        seen, right, x = block.of_cols(columns), rhs[block.rows], rows[block.rows]
        own = columns[block.rows] * known.alone[block.rows, None]
        gram = seen.mT @ seen
        for s in range(rows.shape[1]):
            # Meinel 2020, eqs. 3.11 and 3.13 as corrected in
            # docs/maths.rst, "Completion from entries"
            of_row = gram[:, s, None] + own[..., s, None] * own
            slope = right[..., s] - (of_row * x).sum(-1) - ridge * x[..., s]
            x[..., s] += slope / (of_row[..., s] + ridge)
        rows[block.rows] = x
    return rows
