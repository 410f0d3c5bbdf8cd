"""Cuts a matrix of pairs into blocks and tiles that fit a memory budget.

There are two levels. A block is a rectangle of pairs whose per-image tables are held
together; it is the unit of work, of progress and of storage. The tiles of a block are
so small that the maps of their pairs stay in cache. This module only computes indices.
"""

import math
from dataclasses import dataclass

from skconvgp._protocols import TileCosts
from skconvgp.exceptions import TileMemoryError

__all__ = [
    "Block",
    "PullbackCosts",
    "TilePlan",
    "for_each",
    "plan_pullback",
    "plan_tiles",
    "slices",
]

# Bytes of the maps of all pairs of a tile. Measured with torch on 28x28 maps, one and
# two threads: with half of this or less, the cost of calling torch slows it down; with
# four times as much it is as fast, but spends a third of the time on memory pages that
# the system hands out anew.
TILE_BYTES = 8 * 2**20
# A GPU has no cache that could hold the maps, and a call of torch costs as much there
# as a few MiB of maps: in larger tiles calls do not count. Not measured on a GPU yet.
GPU_TILE_BYTES = 2**28
# Bytes of the maps of all layers, of all tiles of a block: they are computed in a tenth
# of a second to a few seconds.
BLOCK_BYTES = 2**33
BLOCK_MAPS = 2**22  # of a block, those of all layers
# A GPU is some hundred times as fast as a core, and needs many pairs at a time.
GPU_BLOCK_MAPS = 2**28
GPU_LEAST_BLOCK = 128
BLOCK_SHARE = 8
MAX_BLOCK = 2048
# Bytes of the maps of all layers and pairs, which take some hundredths of a second.
SMALL_BYTES = 2**24
BLOCKS_A_WORKER = 16  # so many that the last block, computed alone, wastes little time
LANES = 16  # of the longest vectors; each lane computes one image of the columns
MANY_LANES = 8 * LANES  # in smaller tiles, idle lanes cost less than a smaller side
PASSING = 4  # tables of both sides of a block, and as much again made from them
QUEUED = 2  # blocks held for each worker: one in work, one waiting
# Bytes of the maps of all layers for all pairs of a tile. Measured with torch on 28x28
# maps, 7 layers, one thread: a quarter of this, and four times as much, are slower by
# a third or more.
PULLBACK_BYTES = 32 * 2**20
GPU_PULLBACK_BYTES = 2**29
PULLBACK_SIDE = 256  # calls and tables then cost little
PULLBACK_BLOCKS = 256  # for any number of workers, so that sums have one order
STREAM_SHARE = 2  # half of the budget is for the tiles
STREAM_COPIES = 3  # the covariances, their transpose, and their half solutions


@dataclass(frozen=True)
class PullbackCosts:
    """Bytes that the backward pass through a kernel needs."""

    pair_bytes: int  # graph and maps of one pair of a tile
    image_bytes: int  # graph of one image of a tile
    result_bytes: int  # one image of a block and the derivative by it
    weight_bytes: int  # weight of one pair of a block
    worker_bytes: int = 0  # workspace of each worker, for a tile of any size
    # How often the maps of a pair are computed one after another: for each layer, for
    # each derivative in forward mode, for each displacement in front of a pool.
    n_passes: int = 1


@dataclass(frozen=True)
class Block:
    """A rectangle of pairs of images."""

    rows: slice
    cols: slice
    is_diagonal: bool  # whether both sides are the same images: one triangle is enough

    def tiles(self, size: int) -> list["Block"]:
        """Return the tiles, indexed from the corner; none lies below the diagonal."""
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
    """How a matrix of pairs is cut into blocks and tiles."""

    n_rows: int
    n_cols: int
    # Whether rows and columns are the same images; one triangle is then computed.
    is_symmetric: bool
    block: int  # largest side of a block
    tile: int  # largest side of a tile within a block
    # Whether the tables of all images fit in the budget, and are computed once.
    keeps_tables: bool
    # The largest side of a block that memory allows. `block` is smaller if several
    # workers share the blocks.
    largest: int = 0

    def n_bytes(self, costs: TileCosts, n_workers: int) -> int:
        """Return the bytes of tables, tiles and blocks that are held at once."""
        n_images = self.n_rows if self.is_symmetric else self.n_rows + self.n_cols
        tables = n_images * costs.image_bytes if self.keeps_tables else 0
        own = 0 if self.keeps_tables else PASSING * self.block * costs.image_bytes
        own += self.tile**2 * costs.pair_bytes + costs.worker_bytes
        n_blocks = QUEUED if n_workers > 1 else 1  # one worker has none waiting
        own += n_blocks * self.block**2 * costs.value_bytes
        return tables + n_workers * own

    def blocks(self) -> list[Block]:
        """Return the blocks, row by row; those below the diagonal are left out.

        Those on the diagonal come last: they are the smallest, and take the most time
        for each distinct pair, by which the time of the others is not to be judged.
        """
        whole = Block(slice(0, self.n_rows), slice(0, self.n_cols), self.is_symmetric)
        return sorted(whole.tiles(self.block), key=lambda block: block.is_diagonal)

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
    """Cut a matrix of pairs so that its tiles stay within the memory budget.

    `is_symmetric` says that rows and columns are the same images. The budget is for
    tables, maps, workspaces and blocks, beside the images and the matrix; `n_workers`
    blocks in work at the same time share it. A GPU is slow if tiles are small. Raises a
    `TileMemoryError` if not even a single pair fits for every worker.
    """
    n_images = n_rows if is_symmetric else n_rows + n_cols
    all_tables = n_images * costs.image_bytes
    needed = costs.pair_bytes + QUEUED * costs.value_bytes + costs.worker_bytes
    # Beside the tables, each worker must be able to compute a tile of one pair.
    beside_pairs = memory_budget - n_workers * needed
    keeps_tables = all_tables <= min(memory_budget // 2, beside_pairs)
    share = (memory_budget - keeps_tables * all_tables) // n_workers
    image_bytes = 0 if keeps_tables else PASSING * costs.image_bytes
    needed += image_bytes
    if share < needed:
        raise _too_little(needed, share, n_workers)
    share -= costs.worker_bytes
    # Calls of torch for a few pairs take as long as for many. Beside a tile there are
    # results, which are small, and tables of a block, if not all are kept.
    is_tight = keeps_tables and not on_gpu
    for_tile = share - share // BLOCK_SHARE if is_tight else share // 2
    tile_bytes = min(for_tile, GPU_TILE_BYTES if on_gpu else TILE_BYTES)
    tile = max(1, _in_vectors(math.isqrt(tile_bytes // costs.pair_bytes)))
    beside_tile = share - tile**2 * costs.pair_bytes
    block = _largest_side(beside_tile, QUEUED * costs.value_bytes, image_bytes)
    at_once = BLOCK_BYTES // costs.pair_bytes
    if on_gpu:  # of whole tiles, since smaller ones take a GPU as long
        in_time = math.isqrt(min(at_once, GPU_BLOCK_MAPS) // costs.n_passes)
        in_time = max(in_time, min(tile, GPU_LEAST_BLOCK))
    else:
        in_time = _in_time(min(at_once, BLOCK_MAPS), costs.n_passes)
        in_time = max(in_time, min(tile, LANES))  # smaller ones waste calls of torch
        if not keeps_tables:  # tables of an image take as long as some pairs
            in_time *= 2
    block = min(block, in_time, MAX_BLOCK)
    block = (block // tile * tile or block) if on_gpu else _in_vectors(block)
    block = min(block, max(n_rows, n_cols))
    block = largest = max(1, block)
    n_pairs = n_rows * n_cols // (2 if is_symmetric else 1)
    n_bytes = n_pairs * costs.n_passes * costs.pair_bytes
    # Each worker gets a few blocks, but of a matrix that is not worth other threads.
    if n_workers > 1 and n_bytes > SMALL_BYTES:
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
    """Cut a matrix of pairs for the backward pass through the kernel.

    Unless the budget is small, the cuts do not depend on the number of workers. The
    sums then agree to the last bit for any number of workers.

    No tables are kept. The other settings and the error are as in `plan_tiles`; the
    budget is for bytes beside the images, the weights and the result.
    """
    share = memory_budget // n_workers
    # A block holds images and derivatives of both sides, weights and their transpose.
    block_image, block_pair = 2 * QUEUED * costs.result_bytes, 2 * costs.weight_bytes
    block_pair *= QUEUED
    needed = costs.pair_bytes + 2 * costs.image_bytes + block_image + block_pair
    needed += costs.worker_bytes
    if share < needed:
        raise _too_little(needed, share, n_workers)
    share -= costs.worker_bytes
    n_pairs = n_rows * n_cols // (2 if is_symmetric else 1)
    fair = math.isqrt(n_pairs // PULLBACK_BLOCKS)
    for_tile = min(share - block_image - block_pair, max(share // 2, needed))
    tile_bytes = GPU_PULLBACK_BYTES if on_gpu else PULLBACK_BYTES
    tile = min(
        _largest_side(for_tile, costs.pair_bytes, 2 * costs.image_bytes),
        max(1, math.isqrt(tile_bytes // costs.pair_bytes)),
        max(fair, PULLBACK_SIDE),
    )
    held = costs.pair_bytes * tile**2 + 2 * costs.image_bytes * tile
    block = _largest_side(share - held, block_pair, block_image)
    fair = max(fair // tile, 1) * tile
    block = max(1, min(block, fair, MAX_BLOCK, max(n_rows, n_cols)))
    if not on_gpu:  # progress is told after a block, and Ctrl-C waits for one
        block = min(block, max(_in_time(BLOCK_MAPS, costs.n_passes), LANES))
    tile = -(-block // -(-block // tile))  # as many tiles, now nearly of one size
    return TilePlan(n_rows, n_cols, is_symmetric, block, tile, keeps_tables=False)


def _too_little(needed: int, share: int, n_workers: int) -> TileMemoryError:
    fewer = "use fewer threads or a smaller `n_jobs`, or " if n_workers > 1 else "or "
    return TileMemoryError(
        f"A single pair of images needs {needed} bytes"
        f"{for_each(n_workers, 'blocks in work')} and `memory_budget` allows "
        f"{max(share, 0)}: raise `memory_budget`, {fewer}use smaller images."
    )


def for_each(n: int, shares: str) -> str:
    """Return the words of an error for memory that several shares need at once."""
    return f" for each of {n} {shares}" if n > 1 else ""


def _in_vectors(side: int) -> int:
    """Round a large side down, so that it leaves no lanes idle."""
    return side // LANES * LANES if side > MANY_LANES else side


def _in_time(n_maps: int, n_passes: int) -> int:
    """Return the side of a block of about so many maps, which leaves no lanes idle."""
    side = math.isqrt(n_maps // n_passes)
    return -(-side // LANES) * LANES if side > LANES else side


def _largest_side(available: int, per_pair: int, per_image: int) -> int:
    """Return the largest b with ``per_pair b^2 + per_image b <= available``."""
    root = math.isqrt(per_image**2 + 4 * per_pair * available)
    return (root - per_image) // (2 * per_pair)


def stream_rows(n_cols: int, value_bytes: int, memory_budget: int) -> int:
    """Return how many rows of a wide matrix to hold at a time while predicting."""
    available = memory_budget // (STREAM_SHARE * STREAM_COPIES)
    return max(1, min(MAX_BLOCK, available // (n_cols * value_bytes)))
