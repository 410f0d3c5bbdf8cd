"""From a memory budget to ragged tiles: pure index arithmetic.

Tiles have two levels. A block is a square of pairs whose per-image tables are held
together; it is the unit of work, of progress and of storage. Inside it, tiles are so
small that the maps of their pairs stay in cache.
"""

import math
from dataclasses import dataclass

from skconvgp._protocols import TileCosts
from skconvgp.exceptions import TileMemoryError

__all__ = [
    "Block",
    "PullbackCosts",
    "TilePlan",
    "plan_pullback",
    "plan_tiles",
    "slices",
]

# What all pairs of a tile hold. Measured with torch on 28x28 maps, one and two
# threads: half of this and less is slower by torch's cost of a call; four times as much
# is as fast, but a third of its time goes into pages that the system hands out anew.
TILE_BYTES = 8 * 2**20
# A GPU has no cache for maps to stay in, and a call of torch there costs as much as
# some MiB of maps: in larger tiles calls do not count. Not measured on a card yet.
GPU_TILE_BYTES = 2**28
BLOCK_BYTES = 2**30  # ... of a block, one after the other: a tenth to a few seconds
MAX_BLOCK = 2048
BLOCKS_A_WORKER = 16  # the last block, alone in work, wastes little
LANES = 16  # of the longest vectors: an image of the columns each
MANY_LANES = 8 * LANES  # few idle lanes cost less than a smaller side
PASSING = 4  # tables of both sides of a block, and as much again made from them
QUEUED = 2  # blocks held for each worker: one in work, one waiting
# All layers of all pairs of a tile. Measured with torch on 28x28 maps, 7 layers, one
# thread: a quarter and four times as much are slower by a third and more.
PULLBACK_BYTES = 32 * 2**20
GPU_PULLBACK_BYTES = 2**29
PULLBACK_SIDE = 128  # tables cost little then; and there are tiles for all workers
PULLBACK_BLOCKS = 256  # whatever the number of workers: sums then have one order


@dataclass(frozen=True)
class PullbackCosts:
    """Bytes that a pass back through a kernel needs.

    Parameters
    ----------
    pair_bytes : int
        Graph and maps of one pair of a tile.
    image_bytes : int
        Graph of one image of a tile.
    result_bytes : int
        One image of a block, with the derivative by it.
    weight_bytes : int
        Weight of one pair of a block.
    worker_bytes : int
        Workspace of each worker, however small its tile is.
    """

    pair_bytes: int
    image_bytes: int
    result_bytes: int
    weight_bytes: int
    worker_bytes: int = 0


@dataclass(frozen=True)
class Block:
    """A rectangle of pairs.

    Parameters
    ----------
    rows, cols : slice
        Images of each side.
    is_diagonal : bool
        Whether both sides are the same images, so that one triangle is enough.
    """

    rows: slice
    cols: slice
    is_diagonal: bool

    def tiles(self, size: int) -> list["Block"]:
        """Return the tiles, counted from the corner; none below the diagonal."""
        n_rows = self.rows.stop - self.rows.start
        n_cols = self.cols.stop - self.cols.start
        return [
            Block(rows, cols, self.is_diagonal and rows.start == cols.start)
            for rows in slices(n_rows, size)
            for cols in slices(n_cols, size)
            if not (self.is_diagonal and cols.start < rows.start)
        ]

    @property
    def n_pairs(self) -> int:
        """Distinct pairs."""
        n_rows: int = self.rows.stop - self.rows.start
        n_cols: int = self.cols.stop - self.cols.start
        return n_rows * (n_rows + 1) // 2 if self.is_diagonal else n_rows * n_cols


@dataclass(frozen=True)
class TilePlan:
    """How a matrix of pairs is cut.

    Parameters
    ----------
    n_rows, n_cols : int
        Size of the matrix.
    is_symmetric : bool
        Whether rows and columns are the same images; one triangle is then computed.
    block : int
        Largest side of a block.
    tile : int
        Largest side of a tile within a block.
    keeps_tables : bool
        Whether the tables of all images fit in the budget, and are computed once.
    largest : int
        The largest side of a block that memory allows, and more than `block` where
        several workers are to have blocks.
    """

    n_rows: int
    n_cols: int
    is_symmetric: bool
    block: int
    tile: int
    keeps_tables: bool
    largest: int = 0

    def blocks(self) -> list[Block]:
        """Return the blocks, row by row; those below the diagonal are left out."""
        whole = Block(slice(0, self.n_rows), slice(0, self.n_cols), self.is_symmetric)
        return whole.tiles(self.block)

    @property
    def n_pairs(self) -> int:
        """Distinct pairs to compute."""
        rows, cols = slice(0, self.n_rows), slice(0, self.n_cols)
        return Block(rows, cols, self.is_symmetric).n_pairs


def slices(n: int, size: int) -> list[slice]:
    """Cut range(n) into slices of `size`, the last one ragged."""
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def plan_tiles(
    n_rows: int,
    n_cols: int,
    *,
    is_symmetric: bool,
    costs: TileCosts,
    memory_budget: int,
    n_workers: int = 1,
    on_gpu: bool = False,
) -> TilePlan:
    """Cut a matrix of pairs so that no more than the budget is held.

    Parameters
    ----------
    n_rows, n_cols : int
        Size of the matrix.
    is_symmetric : bool
        Whether rows and columns are the same images.
    costs : TileCosts
        What the kernel needs.
    memory_budget : int
        Bytes for tables, maps, workspaces and blocks, beside the images and the
        matrix.
    n_workers : int
        Blocks in work at the same time; they share the budget.
    on_gpu : bool
        Whether a GPU computes them, which is slow where tiles are small.

    Returns
    -------
    plan : TilePlan
        The cuts.

    Raises
    ------
    TileMemoryError
        If not even a single pair fits for every worker.
    """
    n_images = n_rows if is_symmetric else n_rows + n_cols
    all_tables = n_images * costs.image_bytes
    needed = costs.pair_bytes + QUEUED * costs.value_bytes + costs.worker_bytes
    room = memory_budget - n_workers * needed
    keeps_tables = all_tables <= min(memory_budget // 2, room)
    share = (memory_budget - keeps_tables * all_tables) // n_workers
    image_bytes = 0 if keeps_tables else PASSING * costs.image_bytes
    needed += image_bytes
    if share < needed:
        raise _too_little(needed, share, n_workers)
    share -= costs.worker_bytes
    tile_bytes = min(share // 2, GPU_TILE_BYTES if on_gpu else TILE_BYTES)
    tile = max(1, _in_vectors(math.isqrt(tile_bytes // costs.pair_bytes)))
    rest = share - tile**2 * costs.pair_bytes
    block = _largest_side(rest, QUEUED * costs.value_bytes, image_bytes)
    work = math.isqrt(BLOCK_BYTES // costs.pair_bytes)
    block = min(_in_vectors(min(block, work, MAX_BLOCK)), max(n_rows, n_cols))
    block = largest = max(1, block)
    if n_workers > 1:  # a few blocks for each, however small the matrix
        n_pairs = n_rows * n_cols // (2 if is_symmetric else 1)
        fair = math.isqrt(n_pairs // (BLOCKS_A_WORKER * n_workers))
        block = min(block, max(1, -(-fair // LANES)) * LANES)
    tile = min(tile, block)
    return TilePlan(n_rows, n_cols, is_symmetric, block, tile, keeps_tables, largest)


def plan_pullback(
    n_rows: int,
    n_cols: int,
    *,
    is_symmetric: bool,
    costs: PullbackCosts,
    memory_budget: int,
    n_workers: int = 1,
    on_gpu: bool = False,
) -> TilePlan:
    """Cut a matrix of pairs for a pass back through the kernel.

    Unless the budget is small, the cuts do not depend on the number of workers: the
    sums then have the same last bit for any number.

    Parameters
    ----------
    n_rows, n_cols : int
        Size of the matrix.
    is_symmetric : bool
        Whether rows and columns are the same images.
    costs : PullbackCosts
        What the kernel needs.
    memory_budget : int
        Bytes beside the images, the weights and the result.
    n_workers : int
        Blocks in work at the same time; they share the budget.
    on_gpu : bool
        Whether a GPU computes them, which is slow where tiles are small.

    Returns
    -------
    plan : TilePlan
        The cuts; no tables are kept.

    Raises
    ------
    TileMemoryError
        If not even a single pair fits for every worker.
    """
    share = memory_budget // n_workers
    # Of a block: images and derivatives of both sides, weights and their transpose.
    block_image, block_pair = 2 * QUEUED * costs.result_bytes, 2 * costs.weight_bytes
    block_pair *= QUEUED
    needed = costs.pair_bytes + 2 * costs.image_bytes + block_image + block_pair
    needed += costs.worker_bytes
    if share < needed:
        raise _too_little(needed, share, n_workers)
    share -= costs.worker_bytes
    n_pairs = n_rows * n_cols // (2 if is_symmetric else 1)
    fair = math.isqrt(n_pairs // PULLBACK_BLOCKS)
    room = min(share - block_image - block_pair, max(share // 2, needed))
    most = GPU_PULLBACK_BYTES if on_gpu else PULLBACK_BYTES
    tile = min(
        _largest_side(room, costs.pair_bytes, 2 * costs.image_bytes),
        max(1, math.isqrt(most // costs.pair_bytes)),
        max(fair, PULLBACK_SIDE),
    )
    held = costs.pair_bytes * tile**2 + 2 * costs.image_bytes * tile
    block = _largest_side(share - held, block_pair, block_image)
    fair = max(fair // tile, 1) * tile
    block = max(1, min(block, fair, MAX_BLOCK, max(n_rows, n_cols)))
    tile = -(-block // -(-block // tile))  # tiles of one size, but for the last
    return TilePlan(n_rows, n_cols, is_symmetric, block, tile, keeps_tables=False)


def _too_little(needed: int, share: int, n_workers: int) -> TileMemoryError:
    return TileMemoryError(
        f"A single pair of images needs {needed} bytes for each of {n_workers} "
        f"blocks in work and `memory_budget` allows {max(share, 0)}: raise "
        "`memory_budget`, use fewer threads or a smaller `n_jobs`, or use smaller "
        "images."
    )


def _in_vectors(side: int) -> int:
    """Round a side down, so that it leaves no lanes idle."""
    return side // LANES * LANES if side > MANY_LANES else side


def _largest_side(available: int, per_pair: int, per_image: int) -> int:
    """Return the largest b with ``per_pair b^2 + per_image b <= available``."""
    root = math.isqrt(per_image**2 + 4 * per_pair * available)
    return (root - per_image) // (2 * per_pair)


def stream_rows(n_cols: int, value_bytes: int, memory_budget: int) -> int:
    """Return how many rows of a wide matrix to hold at a time while predicting."""
    available = memory_budget // (STREAM_SHARE * STREAM_COPIES)
    return max(1, min(MAX_BLOCK, available // (n_cols * value_bytes)))


STREAM_SHARE = 2  # half of the budget is for the tiles
STREAM_COPIES = 3  # covariances, their transpose, the half-solved ones
