"""Observed entries as dense blocks, and matrices made from them and a thin factor."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self, TypeAlias

import torch
from torch import Tensor

from skconvgp.completion._patterns import Entries

__all__ = ["Block", "Filled", "Observed"]

# Groups that are worked on at once, and how many columns they have together unless it
# is one group: a call on numbers as few costs as much as the work itself.
MOST_GROUPS = 64
MOST_COLS = 4096

Group: TypeAlias = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Block:
    """Groups of as many samples; those of one are compared with the same samples.

    Parameters
    ----------
    rows : Tensor of shape (b, p)
        The samples of each group.
    cols : Tensor of shape (b, q)
        Those that they are compared with; any, where there are no more.
    is_col : Tensor of shape (b, q, 1)
        1.0 where there is one, else 0.0.
    values : Tensor of shape (b, p, q)
        The entries; zero where there is none.
    """

    rows: Tensor
    cols: Tensor
    is_col: Tensor
    values: Tensor

    @classmethod
    def of(cls, values: Tensor, groups: list[Group]) -> Self:
        """Gather entries of a matrix (n, n)."""
        rows = torch.stack([own for own, _ in groups])
        shape = len(groups), max(len(seen) for _, seen in groups)
        cols = rows.new_zeros(shape)
        is_col = values.new_zeros(*shape, 1)
        for number, (_, seen) in enumerate(groups):
            cols[number, : len(seen)] = seen
            is_col[number, : len(seen)] = 1.0
        entries = values[rows[:, :, None], cols[:, None, :]].mul_(is_col.mT)
        return cls(rows, cols, is_col, entries)

    def of_cols(self, columns: Tensor) -> Tensor:
        """Return rows (b, q, r) of a matrix (n, r); zeros where there is none."""
        return columns[self.cols].mul_(self.is_col)


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
        groups, variances = [], entries.values.diagonal().clone()
        alone = torch.full_like(variances, has_lone, dtype=torch.bool)
        for rows, cols, has_diagonal in entries.groups():
            groups.append((rows, cols))
            alone[rows] = has_lone and not has_diagonal
        blocks = [Block.of(entries.values, some) for some in _alike(groups)]
        return cls(tuple(blocks), alone, variances * alone)

    def __matmul__(self, columns: Tensor) -> Tensor:
        """Return the product with a matrix (n, r)."""
        product = self.variances[:, None] * columns
        for block in self.blocks:
            product[block.rows] += block.values @ block.of_cols(columns)
        return product

    def minus(self, left: Tensor, right: Tensor) -> Self:
        """Return P(K - U V^T) for U and V (n, r)."""
        blocks = [
            replace(
                block,
                values=torch.baddbmm(
                    block.values,
                    left[block.rows],
                    block.of_cols(right).mT,
                    alpha=-1.0,
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
            places = block.rows[:, :, None], block.cols[:, None, :]
            whole.index_put_(places, block.values, accumulate=True)
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


def _alike(groups: list[Group]) -> Iterator[list[Group]]:
    """Yield groups of as many samples, and of about as many columns, together."""
    some: list[Group] = []
    for group in sorted(groups, key=lambda one: (len(one[0]), len(one[1]))):
        most = min(MOST_GROUPS, MOST_COLS // len(group[1]))
        if some and (len(some[0][0]) != len(group[0]) or len(some) >= most):
            yield some
            some = []
        some.append(group)
    if some:
        yield some
