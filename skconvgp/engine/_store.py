"""Stores that take finished blocks: a matrix in memory, or a product with columns."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from skconvgp.engine._plan import Block

__all__ = ["ProductStore", "Store", "TensorStore"]


class Store(Protocol):
    """Takes the blocks of a matrix as they are finished."""

    def write(self, block: Block, values: Tensor) -> None:
        """Take a finished block."""
        ...


@dataclass(frozen=True)
class TensorStore:
    """A matrix in memory; each block is written once, with its mirror image.

    On the host numpy copies the blocks, in one thread. torch would split the copy of a
    larger block among its threads, which spin for a while afterwards and take the cores
    from the workers that compute blocks.
    """

    out: Tensor  # the matrix (n1, n2) or (n1, n2, q)
    is_symmetric: bool  # whether blocks above the diagonal are mirrored

    def write(self, block: Block, values: Tensor) -> None:
        """Write a finished block and, above the diagonal, its mirror image."""
        if self.out.device.type == "cpu":
            self._write_to(self.out.numpy(), block, values.cpu().numpy())
        else:
            self._write_to(self.out, block, values)

    def _write_to(self, out: Any, block: Block, values: Any) -> None:
        out[block.rows, block.cols] = values
        if self.is_symmetric and not block.is_diagonal:
            out[block.cols, block.rows] = values.swapaxes(0, 1)


class ProductStore:
    """The product of a symmetric matrix with columns; blocks are used and dropped.

    Contributions are added in the order of the blocks, because the rounding of a sum
    depends on its order. A block that arrives early waits for those before it. `blocks`
    yields the blocks of one triangle, in order. The product of the matrix with
    `columns` (n, k) is added to `out` (n, k), which is given as zeros.
    """

    def __init__(self, columns: Tensor, out: Tensor, blocks: Iterable[Block]) -> None:
        self._columns, self._out = columns, out
        self._missing = [_corner(block) for block in reversed(list(blocks))]
        self._waiting: dict[tuple[int, int], tuple[Block, Tensor]] = {}

    def write(self, block: Block, values: Tensor) -> None:
        """Add the contribution of a block, then of the blocks that waited for it."""
        self._waiting[_corner(block)] = block, values
        while self._missing and self._missing[-1] in self._waiting:
            self._add(*self._waiting.pop(self._missing.pop()))

    def _add(self, block: Block, values: Tensor) -> None:
        values = values.to(self._out)
        self._out[block.rows].addmm_(values, self._columns[block.cols])
        if not block.is_diagonal:
            self._out[block.cols].addmm_(values.mT, self._columns[block.rows])


def _corner(block: Block) -> tuple[int, int]:
    return block.rows.start, block.cols.start
