"""Observed entries as dense blocks, and matrices made from them and a thin factor."""

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from skconvgp.completion._patterns import Entries

__all__ = ["Block", "Filled", "Observed"]


@dataclass(frozen=True)
class Block:
    """Samples that are compared with the same samples.

    Parameters
    ----------
    rows : Tensor of shape (p,)
        The samples.
    cols : Tensor of shape (q,)
        Those that they are compared with.
    values : Tensor of shape (p, q)
        The entries.
    """

    rows: Tensor
    cols: Tensor
    values: Tensor


@dataclass(frozen=True)
class Observed:
    """A symmetric matrix (n, n) that is zero where entries are not observed.

    Parameters
    ----------
    blocks : tuple of Block
        One for each group of samples; each sample is a row of just one.
    alone : Tensor of shape (n,)
        Whether the prior variance of a sample is no entry of its block.
    variances : Tensor of shape (n,)
        Prior variances that are alone, otherwise zero.
    """

    blocks: tuple[Block, ...]
    alone: Tensor
    variances: Tensor

    @classmethod
    def of(cls, entries: Entries, *, has_lone: bool = True) -> Self:
        """Gather the entries that are observed now, lone prior variances or not."""
        blocks, variances = [], entries.values.diagonal().clone()
        alone = torch.full_like(variances, has_lone, dtype=torch.bool)
        for rows, cols, has_diagonal in entries.groups():
            blocks.append(Block(rows, cols, entries.values[rows[:, None], cols]))
            alone[rows] = has_lone and not has_diagonal
        return cls(tuple(blocks), alone, variances * alone)

    def __matmul__(self, columns: Tensor) -> Tensor:
        """Return the product with a matrix (n, r)."""
        product = self.variances[:, None] * columns
        for block in self.blocks:
            product[block.rows] += block.values @ columns[block.cols]
        return product

    def minus(self, left: Tensor, right: Tensor) -> Self:
        """Return P(K - U V^T) for U and V (n, r)."""
        blocks = [
            replace(
                block,
                values=torch.addmm(
                    block.values, left[block.rows], right[block.cols].mT, alpha=-1.0
                ),
            )
            for block in self.blocks
        ]
        variances = self.variances - (left * right).sum(1) * self.alone
        return replace(self, blocks=tuple(blocks), variances=variances)

    def square_sum(self) -> float:
        """Return the squared norm."""
        parts = [self.variances, *(block.values.flatten() for block in self.blocks)]
        return sum(float(torch.dot(part, part)) for part in parts)

    def dense(self) -> Tensor:
        """Return the whole matrix (n, n)."""
        whole = self.variances.diag()
        for block in self.blocks:
            whole[block.rows[:, None], block.cols] += block.values
        return whole


@dataclass(frozen=True)
class Filled:
    """A symmetric U V^T (n, n) with the observed entries put in.

    Parameters
    ----------
    misfit : Observed
        P(K - U V^T).
    left, right : Tensor of shape (n, r)
        U and V.
    """

    misfit: Observed
    left: Tensor
    right: Tensor

    @classmethod
    def of(cls, known: Observed, left: Tensor, right: Tensor) -> Self:
        """Put observed entries into U V^T."""
        return cls(known.minus(left, right), left, right)

    def __matmul__(self, columns: Tensor) -> Tensor:
        """Return the product with a matrix (n, r)."""
        return self.misfit @ columns + self.left @ (self.right.mT @ columns)

    def dense(self) -> Tensor:
        """Return the whole matrix (n, n)."""
        return self.misfit.dense() + self.left @ self.right.mT
