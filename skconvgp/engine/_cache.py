"""Finished blocks on disk: a run that was killed goes on where it stopped."""

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

SIDE = 512  # of a file: 2 MiB in float64, and a fraction of a second of work
FILES = 128  # of a smaller matrix, or a little more
FEWEST_PAIRS = 2**16  # of a matrix that is worth files
SUFFIX = ".tile"
ABOUT = "about.json"


OnFailure = Callable[[Path, OSError], None]


def _raise(_path: Path, error: OSError) -> None:
    raise error


class TileCache:
    """A folder with the finished blocks of one kernel on one set of samples.

    A block is there as a whole or not at all: it is written beside its place and then
    moved there, and what was read must have the digest that was written, of its place
    and its shape too. Several processes may use a folder at the same time. One that
    dies while it writes leaves a file behind that nobody reads.

    Parameters
    ----------
    folder : Path
        The folder, which exists.
    on_failure : callable
        Told the first file that cannot be written, and why; no more are written then,
        and those that are there are still read. A folder in the place of a file is
        told too, but others are written. By default both are errors.
    """

    def __init__(self, folder: Path, on_failure: OnFailure = _raise) -> None:
        self.folder = folder
        self.n_pairs_read = 0
        self._on_failure = on_failure
        self._is_written = True

    def describe(self, text: str) -> None:
        """Say in a file beside the tiles what they are of, unless it stands there."""
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
        """Store the blocks of a matrix that are kept; return those that are not.

        Parameters
        ----------
        matrix : str
            Name of the matrix.
        blocks : iterable of Block
            Its blocks.
        store : Store
            Takes those that are kept.
        value_shape : tuple of int
            Shape of the value of a pair.

        Returns
        -------
        left : list of Block
            Those that are not kept, or not as they were written.
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
        """Keep a finished block."""
        path = self._path(matrix, block)
        self._write(path, partial(write_tile, path, values))

    def _write(self, path: Path, write: Callable[[], None]) -> None:
        if not self._is_written:
            return
        try:
            write()
        except IsADirectoryError as error:  # in this place alone
            self._on_failure(path, error)
        except OSError as error:
            self._is_written = False
            self._on_failure(path, error)

    def _path(self, matrix: str, block: Block) -> Path:
        rows, cols = block.rows, block.cols
        place = f"{rows.start}-{rows.stop}-{cols.start}-{cols.stop}"
        return self.folder / f"{matrix}-{place}{SUFFIX}"


def is_worth_files(plan: TilePlan) -> bool:
    """Say whether a matrix takes so long that its blocks are to be kept."""
    is_thin = min(plan.n_rows, plan.n_cols) < LANES
    return plan.n_pairs >= FEWEST_PAIRS and not is_thin


def cut_for_cache(plan: TilePlan) -> TilePlan:
    """Return the plan with blocks of a side that follows from the matrix alone.

    Another number of workers so finds the same blocks, and so does less memory as long
    as they are not too large for it.
    """

    def area(side: int) -> int:
        return min(side, plan.n_rows) * min(side, plan.n_cols)

    side = max(LANES, math.isqrt(plan.n_pairs // FILES) // LANES * LANES)
    side = min(side, SIDE)
    while plan.n_pairs > 2 * FILES * area(side) and area(2 * side) <= SIDE**2:
        side *= 2  # a side is shorter than that
    largest = max(plan.largest, plan.block)
    while side > largest > LANES:
        side = max(LANES, side // 2 // LANES * LANES)
    side = min(side, max(1, largest))
    return replace(plan, block=side, tile=min(plan.tile, side))


def name_of(rows: Tensor, cols: Tensor) -> str:
    """Return a name of the covariances of samples by number."""
    numbers = repr((rows.tolist(), cols.tolist())).encode()
    return f"part-{digest(numbers).hex()}"


def _length(part: slice) -> int:
    return int(part.stop - part.start)
