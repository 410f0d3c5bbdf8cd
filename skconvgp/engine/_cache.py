"""Finished blocks on disk: a run that was killed goes on where it stopped."""

import hashlib
import io
import math
import os
import uuid
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from pickle import UnpicklingError

import torch
from torch import Tensor

from skconvgp.engine._plan import LANES, Block, TilePlan
from skconvgp.engine._store import Store

__all__ = ["TileCache", "cut_for_cache", "name_of"]

SIDE = 512  # of a file: 1 MiB in float32, and a fraction of a second of work
FILES = 64  # of a smaller matrix
FEWEST_PAIRS = 2**16  # of a matrix that is worth files
DIGEST_BYTES = 16
SUFFIX = ".tile"


class TileCache:
    """A folder with the finished blocks of one kernel on one set of samples.

    A block is there as a whole or not at all: it is written beside its place and then
    moved there, and what was read must have the digest that was written. Several
    processes may use a folder at the same time.

    Parameters
    ----------
    folder : Path
        The folder, which exists.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.n_pairs_read = 0

    def fill(self, matrix: str, blocks: Iterable[Block], store: Store) -> list[Block]:
        """Store the blocks of a matrix that are kept; return those that are not."""
        left = []
        for block in blocks:
            values = self._read(self._path(matrix, block))
            if values is None:
                left.append(block)
            else:
                store.write(block, values)
                self.n_pairs_read += block.n_pairs
        return left

    def keep(self, matrix: str, block: Block, values: Tensor) -> None:
        """Keep a finished block.

        Raises
        ------
        OSError
            If it cannot be written: the disk is full, for example.
        """
        buffer = io.BytesIO()
        torch.save(values.to("cpu", copy=True), buffer)
        content = buffer.getvalue()
        path = self._path(matrix, block)
        part = path.with_suffix(f".{uuid.uuid4().hex}")
        try:
            part.write_bytes(_digest(content) + content)
            os.replace(part, path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise

    def _path(self, matrix: str, block: Block) -> Path:
        rows, cols = block.rows, block.cols
        place = f"{rows.start}-{rows.stop}-{cols.start}-{cols.stop}"
        return self.folder / f"{matrix}-{place}{SUFFIX}"

    def _read(self, path: Path) -> Tensor | None:
        """Return the values of a file; None without it, or if it was damaged."""
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        digest, content = content[:DIGEST_BYTES], content[DIGEST_BYTES:]
        if digest != _digest(content):
            return None
        try:
            values: Tensor = torch.load(io.BytesIO(content), weights_only=True)
        except (UnpicklingError, RuntimeError):  # of a torch that wrote otherwise
            return None
        return values


def cut_for_cache(plan: TilePlan) -> TilePlan:
    """Return the plan with blocks of a side that follows from the matrix alone.

    With more workers or less memory the same blocks are found again, unless they are
    too large for that.
    """
    side = math.isqrt(plan.n_pairs // FILES) // LANES * LANES
    side = max(LANES, min(side, SIDE))
    while side > plan.block:
        side = max(1, side // 2)
    return replace(plan, block=side, tile=min(plan.tile, side))


def name_of(rows: Tensor, cols: Tensor) -> str:
    """Return a name of the covariances of samples by number; "" for few of them."""
    if len(rows) * len(cols) < FEWEST_PAIRS:
        return ""
    numbers = repr((rows.tolist(), cols.tolist())).encode()
    return f"part-{_digest(numbers).hex()}"


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES).digest()
