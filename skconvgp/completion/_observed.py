"""Observed entries as dense blocks, and their sums with low-rank matrices."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self, TypeAlias

import torch
from torch import Tensor

from skconvgp.completion._patterns import Entries

__all__ = ["Block", "Filled", "Observed"]

# Largest number of groups in a block, and largest number of their columns together (a
# single group may have more). Small groups share a block, because the overhead of a
# call for each would exceed its work.
MOST_GROUPS = 64
MOST_COLS = 4096

Group: TypeAlias = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Block:
    """Groups of equal size; samples of a group are compared with the same samples."""

    rows: Tensor  # samples (b, p) of each group
    # Samples (b, q) that a group is compared with; padding has an arbitrary index.
    cols: Tensor
    is_col: Tensor  # (b, q, 1), 1.0 for a sample, 0.0 for padding
    values: Tensor  # entries (b, p, q); zero for padding

    @classmethod
    def of(cls, values: Tensor, groups: list[Group]) -> Self:
        """Gather entries of a matrix (n, n)."""
        rows = torch.stack([rows for rows, _ in groups])
        shape = len(groups), max(len(compared) for _, compared in groups)
        cols = rows.new_zeros(shape)
        is_col = values.new_zeros(*shape, 1)
        for index, (_, compared) in enumerate(groups):
            cols[index, : len(compared)] = compared
            is_col[index, : len(compared)] = 1.0
        entries = values[rows[:, :, None], cols[:, None, :]].mul_(is_col.mT)
        return cls(rows, cols, is_col, entries)

    def of_cols(self, columns: Tensor) -> Tensor:
        """Return rows (b, q, r) of a matrix (n, r); zeros for padding."""
        return columns[self.cols].mul_(self.is_col)


@dataclass(frozen=True)
class Observed:
    """A symmetric matrix (n, n) that is zero where entries are not observed."""

    # Blocks of groups of samples; each sample is a row of exactly one.
    blocks: tuple[Block, ...]
    # Whether (n,) the block of a sample lacks its prior variance, so that it is kept
    # separately.
    lone_diag: Tensor
    # Prior variances (n,) that are kept separately, and zero for other samples.
    variances: Tensor

    @classmethod
    def of(cls, entries: Entries, *, has_lone_diag: bool = True) -> Self:
        """Gather observed entries, with or without prior variances outside blocks."""
        groups, variances = [], entries.values.diagonal().clone()
        lone_diag = torch.full_like(variances, has_lone_diag, dtype=torch.bool)
        for rows, cols, has_diagonal in entries.groups():
            groups.append((rows, cols))
            lone_diag[rows] = has_lone_diag and not has_diagonal
        blocks = [Block.of(entries.values, batch) for batch in _batches(groups)]
        return cls(tuple(blocks), lone_diag, variances * lone_diag)

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
        variances = self.variances - (left * right).sum(1) * self.lone_diag
        return replace(self, blocks=tuple(blocks), variances=variances)

    def square_sum(self) -> float:
        """Return the squared norm."""
        parts = [self.variances, *(block.values.flatten() for block in self.blocks)]
        return sum(float(torch.dot(part, part)) for part in parts)

    def dense(self) -> Tensor:
        """Return the whole matrix (n, n)."""
        whole = self.variances.diag()
        for block in self.blocks:
            indices = block.rows[:, :, None], block.cols[:, None, :]
            # Padding adds zeros; a plain assignment would overwrite entries with them.
            whole.index_put_(indices, block.values, accumulate=True)
        return whole


@dataclass(frozen=True)
class Filled:
    """A symmetric U V^T (n, n) whose observed entries are replaced by entries of K."""

    misfit: Observed  # P(K - U V^T)
    left: Tensor  # U (n, r)
    right: Tensor  # V (n, r)

    @classmethod
    def of(cls, observed: Observed, left: Tensor, right: Tensor) -> Self:
        """Return U V^T with the observed entries of K."""
        return cls(observed.minus(left, right), left, right)

    def __matmul__(self, columns: Tensor) -> Tensor:
        """Return the product with a matrix (n, r)."""
        return self.misfit @ columns + self.left @ (self.right.mT @ columns)

    def dense(self) -> Tensor:
        """Return the whole matrix (n, n)."""
        return self.misfit.dense() + self.left @ self.right.mT


def _batches(groups: list[Group]) -> Iterator[list[Group]]:
    """Yield lists of groups of equal size with similar numbers of columns."""
    batch: list[Group] = []
    for group in sorted(groups, key=lambda one: (len(one[0]), len(one[1]))):
        most = min(MOST_GROUPS, MOST_COLS // len(group[1]))
        if batch and (len(batch[0][0]) != len(group[0]) or len(batch) >= most):
            yield batch
            batch = []
        batch.append(group)
    if batch:
        yield batch
