"""Kernel and data to tiles, tiles to their place in the Gram matrix."""

from skconvgp.engine._devices import free_memory, full_precision, require_memory
from skconvgp.engine._evaluate import KernelOracle, MatrixOracle
from skconvgp.engine._plan import (
    Block,
    TileCosts,
    TilePlan,
    plan_tiles,
    slices,
    stream_rows,
)

__all__ = [
    "Block",
    "KernelOracle",
    "MatrixOracle",
    "TileCosts",
    "TilePlan",
    "free_memory",
    "full_precision",
    "plan_tiles",
    "require_memory",
    "slices",
    "stream_rows",
]
