"""Where finished blocks land."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from skconvgp.engine._plan import Block

__all__ = ["ProductStore", "Store", "TensorStore"]


class Store(Protocol):
    """What takes the blocks of a matrix."""

    def write(self, block: Block, values: Tensor) -> None:
        """Take a finished block."""
        ...


@dataclass(frozen=True)
class TensorStore:
    """A matrix in memory; blocks are written once, with their mirror image.

    Copies are made by one thread: torch would split those of larger blocks, and its
    helpers then spin for a while and take the cores from what computes blocks.

    Parameters
    ----------
    out : Tensor of shape (n1, n2) or (n1, n2, q)
        The matrix.
    is_symmetric : bool
        Whether blocks above the diagonal are mirrored.
    """

    out: Tensor
    is_symmetric: bool

    def write(self, block: Block, values: Tensor) -> None:
        """Put a finished block in its place."""
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            self.out[block.rows, block.cols] = values
            if self.is_symmetric and not block.is_diagonal:
                self.out[block.cols, block.rows] = values.transpose(0, 1)
        finally:
            torch.set_num_threads(before)


class ProductStore:
    """The product of a symmetric matrix with columns: blocks are used, not kept.

    Blocks are added up in one order, as sums of floats depend on it; those that come
    early wait.

    Parameters
    ----------
    columns : Tensor of shape (n, k)
        What the matrix is multiplied by.
    out : Tensor of shape (n, k)
        Zeros, to which the product is added.
    blocks : iterable of Block
        The blocks of one triangle, in order.
    """

    def __init__(self, columns: Tensor, out: Tensor, blocks: Iterable[Block]) -> None:
        self._columns, self._out = columns, out
        self._following = [_corner(block) for block in reversed(list(blocks))]
        self._waiting: dict[tuple[int, int], tuple[Block, Tensor]] = {}

    def write(self, block: Block, values: Tensor) -> None:
        """Add what a block contributes, and those that waited for it."""
        self._waiting[_corner(block)] = block, values
        while self._following and self._following[-1] in self._waiting:
            self._add(*self._waiting.pop(self._following.pop()))

    def _add(self, block: Block, values: Tensor) -> None:
        values = values.to(self._out)
        self._out[block.rows].addmm_(values, self._columns[block.cols])
        if not block.is_diagonal:
            self._out[block.cols].addmm_(values.mT, self._columns[block.rows])


def _corner(block: Block) -> tuple[int, int]:
    return block.rows.start, block.cols.start
