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

GROWTH = 1.1  # an accelerated round that raises the objective by more is undone


def alternate(
    update: Callable[[Tensor, Tensor], Tensor],
    right: Tensor,
    limits: Limits,
    observed: Observed,
    ridge: float,
    landmarks: Tensor | None = None,
) -> Fit:
    """Update U and V in turn from U = V, and return a symmetric product at the end.

    `update` returns a better U (n, r), given V and U; V begins as `right` (n, r). The
    objective is |P(K - U V^T)|^2 + ridge (|U|^2 + |V|^2), with the observed entries
    P(K). Rounds are accelerated. If an accelerated round raises the objective, the
    iteration continues from the round before. The tolerance is that of the relative
    change of U V^T.

    The result F F^T is nearest to the symmetric part of U V^T. If there are samples to
    whose columns all observed entries belong, `landmarks` (m,), it is made from their
    columns of U V^T only, because the other columns were never fitted.
    """
    left, last, n_iter, converged = right, (right, right), 0, False
    acceleration, least = Anderson(), math.inf
    while n_iter < limits.max_iter and not converged:
        left = update(right, left)
        new = update(left, right)
        n_iter += 1
        loss = observed.minus(left, new).square_sum() + ridge * (
            float(left.square().sum()) + float(new.square().sum())
        )
        if loss > GROWTH * least:
            (left, right), acceleration, least = last, Anderson(), math.inf
            continue
        change, size = product_change(left, new, *last)
        converged = change <= limits.rtol * limits.rtol * size
        last, least = (left, new), loss
        right = acceleration.next(right, new)
    rank = right.shape[1]
    if landmarks is None:
        return Fit(psd_factor(*last, rank), n_iter, converged)
    columns = last[0] @ last[1][landmarks].mT
    factor = column_factor(columns, landmarks, rank, EIGENVALUE_CUT)
    return Fit(factor, n_iter, converged)


def solve_rows(observed: Observed, columns: Tensor, ridge: float) -> Tensor:
    """Return x_i (n, r) that minimise |P_i(k_i - V x_i)|^2 + ridge |x_i|^2.

    The k_i are the observed entries of each row, and V is `columns` (n, r).
    """
    rows = observed.variances[:, None] * columns
    for block in observed.blocks:
        compared = block.of_cols(columns)
        updates = columns[block.rows] * observed.lone_diag[block.rows, None]
        rhs = rows[block.rows] + block.values @ compared
        rows[block.rows] = ridge_solve(compared.mT @ compared, rhs, ridge, updates)
    return rows


def sweep_rows(
    observed: Observed, columns: Tensor, rows: Tensor, ridge: float
) -> Tensor:
    """Return x_i (n, r) with one coordinate after the other at its best value."""
    rows, rhs = rows.clone(), observed @ columns
    for block in observed.blocks:
        compared, right, x = block.of_cols(columns), rhs[block.rows], rows[block.rows]
        updates = columns[block.rows] * observed.lone_diag[block.rows, None]
        gram = compared.mT @ compared
        for s in range(rows.shape[1]):
            # Meinel 2020, eqs. 3.11 and 3.13 as corrected in
            # docs/maths.rst, "Completion from entries"
            of_row = gram[:, s, None] + updates[..., s, None] * updates
            slope = right[..., s] - (of_row * x).sum(-1) - ridge * x[..., s]
            x[..., s] += slope / (of_row[..., s] + ridge)
        rows[block.rows] = x
    return rows
