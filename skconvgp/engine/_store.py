"""Where finished blocks land."""

from dataclasses import dataclass

from torch import Tensor

from skconvgp.engine._plan import Block

__all__ = ["TensorStore"]


@dataclass(frozen=True)
class TensorStore:
    """A matrix in memory; blocks are written once, with their mirror image.

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
        self.out[block.rows, block.cols] = values
        if self.is_symmetric and not block.is_diagonal:
            self.out[block.cols, block.rows] = values.transpose(0, 1)
