"""Finished blocks on disk, so that a run that was killed continues from them."""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

from torch import Tensor

from skconvgp.engine._files import (
    digest,
    holds_text,
    read_tile,
    write_text,
    write_tile,
)
from skconvgp.engine._plan import LANES, Block, TilePlan
from skconvgp.engine._store import Store

__all__ = ["TileCache", "cut_for_cache", "is_worth_files", "name_of"]

SIDE = 512  # of the block in a file: 2 MiB in float64, a fraction of a second of work
FILES = (
    128  # about so many for a matrix that has fewer pairs than blocks of `SIDE` need
)
# Pairs, times the passes of each, of a matrix whose blocks are kept in files.
FEWEST_PAIRS = 2**19
SUFFIX = ".tile"
ABOUT = "about.json"


OnFailure = Callable[[Path, OSError], None]


def _raise(_path: Path, error: OSError) -> None:
    raise error


class TileCache:
    """A folder with the finished blocks of one kernel on one set of samples.

    A block is there as a whole or not at all: it is written to a temporary file, which
    is then renamed. A file is read only if its digest is right; the digest covers the
    values, their shape and the name of the file. Several processes may use a folder at
    the same time. A process that dies while it writes leaves a temporary file that
    nobody reads.

    `on_failure` is called with the path of the first file that cannot be written and
    with the error. No file is written after that, but existing files are still read. It
    is also called if there is a folder in place of a file; other files are then still
    written. By default both errors are raised. The folder of the cache exists.
    """

    def __init__(self, folder: Path, on_failure: OnFailure = _raise) -> None:
        self.folder = folder
        self.n_pairs_read = 0
        self._on_failure = on_failure
        self._is_written = True

    def describe(self, text: str) -> None:
        """Write a description beside the tiles unless it is there already."""
        path = self.folder / ABOUT
        if not holds_text(path, text):
            self._write(path, partial(write_text, path, text))

    def fill(
        self,
        matrix: str,
        blocks: Iterable[Block],
        store: Store,
        value_shape: tuple[int, ...] = (),
    ) -> list[Block]:
        """Store the blocks of a matrix that are on disk; return the others.

        Others have no file, or a damaged one. `matrix` is the name of the matrix, and
        `value_shape` the shape of the value of a pair.
        """
        left = []
        for block in blocks:
            shape = (_length(block.rows), _length(block.cols), *value_shape)
            values = read_tile(self._path(matrix, block), shape)
            if values is None:
                left.append(block)
            else:
                store.write(block, values)
                self.n_pairs_read += block.n_pairs
        return left

    def keep(self, matrix: str, block: Block, values: Tensor) -> None:
        """Write a finished block to its file."""
        path = self._path(matrix, block)
        self._write(path, partial(write_tile, path, values))

    def _write(self, path: Path, write: Callable[[], None]) -> None:
        if not self._is_written:
            return
        try:
            write()
        except (
            IsADirectoryError
        ) as error:  # of this name only: other files can be written
            self._on_failure(path, error)
        except OSError as error:
            self._is_written = False
            self._on_failure(path, error)

    def _path(self, matrix: str, block: Block) -> Path:
        rows, cols = block.rows, block.cols
        extent = f"{rows.start}-{rows.stop}-{cols.start}-{cols.stop}"
        return self.folder / f"{matrix}-{extent}{SUFFIX}"


def is_worth_files(plan: TilePlan, n_passes: int) -> bool:
    """Say whether a matrix takes so long that its blocks should be kept in files."""
    is_thin = min(plan.n_rows, plan.n_cols) < LANES
    return plan.n_pairs * n_passes >= FEWEST_PAIRS and not is_thin


def cut_for_cache(plan: TilePlan) -> TilePlan:
    """Return the plan with a side of blocks that depends on the matrix alone.

    A later run then looks for the same files, even if it has another number of workers,
    or less memory in which these blocks still fit.
    """

    def area(side: int) -> int:
        return min(side, plan.n_rows) * min(side, plan.n_cols)

    side = max(LANES, math.isqrt(plan.n_pairs // FILES) // LANES * LANES)
    side = min(side, SIDE)
    while plan.n_pairs > 2 * FILES * area(side) and area(2 * side) <= SIDE**2:
        side *= 2  # the matrix is thinner than a block, so that files hold fewer pairs
    largest = max(plan.largest, plan.block)
    while side > largest > LANES:
        side = max(LANES, side // 2 // LANES * LANES)
    side = min(side, max(1, largest))
    return replace(plan, block=side, tile=min(plan.tile, side))


def name_of(rows: Tensor, cols: Tensor) -> str:
    """Return the name of the matrix of covariances between samples at these indices."""
    text = repr((rows.tolist(), cols.tolist())).encode()
    return f"part-{digest(text).hex()}"


def _length(part: slice) -> int:
    return int(part.stop - part.start)
