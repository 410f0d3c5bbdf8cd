"""Regression of the observed entries of each row on the columns of a thin matrix."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from skconvgp.completion._masked import row_slices
from skconvgp.completion._patterns import Entries
from skconvgp.linalg import ridge_solve

__all__ = ["RowRegression"]


@dataclass(frozen=True)
class RowRegression:
    """Least squares problems of all rows: |P_i(k_i - V x_i)|^2 + ridge |x_i|^2.

    Parameters
    ----------
    entries : Entries
        The observed entries k_i of each row.
    masks : Tensor of shape (g, n)
        Masks of rows, each but once.
    which : Tensor of shape (n,)
        Which of them each row has.
    """

    entries: Entries
    masks: Tensor
    which: Tensor

    @classmethod
    def of(cls, entries: Entries) -> Self:
        """Look for rows with equal masks: they share their normal equations."""
        return cls(entries, *torch.unique(entries.mask, dim=0, return_inverse=True))

    def solve(self, columns: Tensor, ridge: float) -> Tensor:
        """Return the solutions x_i (n, r) for V (n, r)."""
        rhs = self._rhs(columns)
        return ridge_solve(self._grams(columns), self.which, rhs, ridge)

    def sweep(self, columns: Tensor, rows: Tensor, ridge: float) -> Tensor:
        """Return x_i (n, r) with one coordinate after the other at its best value."""
        grams, rhs, rows = self._grams(columns), self._rhs(columns), rows.clone()
        for s in range(rows.shape[1]):
            # Meinel 2020, eqs. 3.11 and 3.13 as corrected in maths.md 15
            of_row = grams[:, s].index_select(0, self.which)
            slope = rhs[:, s] - (of_row * rows).sum(1) - ridge * rows[:, s]
            rows[:, s] += slope / (of_row[:, s] + ridge)
        return rows

    def _grams(self, columns: Tensor) -> Tensor:
        """Return P_i V^T V (g, r, r) over the entries of each mask."""
        rank = columns.shape[1]
        one, two = torch.triu_indices(rank, rank, device=columns.device)
        products = columns[:, one] * columns[:, two]
        grams = columns.new_empty(len(self.masks), rank, rank)
        for part in row_slices(len(self.masks)):
            halves = self.masks[part].to(columns.dtype) @ products
            grams[part, one, two] = halves
            grams[part, two, one] = halves
        return grams

    def _rhs(self, columns: Tensor) -> Tensor:
        """Return V^T P_i k_i (n, r)."""
        rhs = torch.empty_like(columns)
        for part in row_slices(len(columns)):
            mask = self.entries.mask[part]
            rhs[part] = self.entries.values[part].masked_fill(~mask, 0.0) @ columns
        return rhs
