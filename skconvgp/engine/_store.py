"""Where finished blocks land."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

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

    Where the matrix is on the host, numpy copies, with one thread: torch would split
    copies of larger blocks among its own, which then spin for a while and take the
    cores from what computes blocks.

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
        if self.out.device.type == "cpu":
            self._write_to(self.out.numpy(), block, values.cpu().numpy())
        else:
            self._write_to(self.out, block, values)

    def _write_to(self, out: Any, block: Block, values: Any) -> None:
        out[block.rows, block.cols] = values
        if self.is_symmetric and not block.is_diagonal:
            out[block.cols, block.rows] = values.swapaxes(0, 1)


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
