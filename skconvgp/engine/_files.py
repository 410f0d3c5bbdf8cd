"""Files of a cache: there as a whole, in their place, or not read.

A tile is a line that says what it is, where it belongs and which numbers follow, a
digest of that and of the numbers, and the numbers as they lie in memory. Nothing in it
is executed, or made into anything but numbers.
"""

import contextlib
import hashlib
import os
import stat
import uuid
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["digest", "holds_text", "read_tile", "write_text", "write_tile"]

FORMAT = "skconvgp tile 1"
DIGEST_BYTES = 16
DTYPES = (np.float32, np.float64)
# A pipe would else wait for somebody to write; on Windows there are none.
AT_ONCE = getattr(os, "O_NONBLOCK", 0)


def digest(*parts: Any) -> bytes:
    """Return a digest of bytes, or of what lies in memory like them."""
    own = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        own.update(part)
    return own.digest()


def write_tile(path: Path, values: Tensor) -> None:
    """Write the numbers of a tile to their place, as a whole or not at all."""
    numbers = np.ascontiguousarray(values.to("cpu").numpy())
    head = _head(path, numbers)
    _write(path, head, digest(head, numbers), numbers)


def write_text(path: Path, text: str) -> None:
    """Write a text to its place, as a whole or not at all."""
    _write(path, text.encode())


def holds_text(path: Path, text: str) -> bool:
    """Say whether a file can be read and is this text."""
    content = text.encode()
    try:
        with _opened(path) as (file, size):
            return size == len(content) and file.read(size) == content
    except OSError:
        return False


def read_tile(path: Path, shape: tuple[int, ...]) -> Tensor | None:
    """Return the numbers of a tile; None unless the file holds what was written there.

    Parameters
    ----------
    path : Path
        The place.
    shape : tuple of int
        Shape of the numbers that belong there.
    """
    try:
        with _opened(path) as (file, size):
            return _read(file, size, path, shape)
    except OSError:
        return None


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tuple[BufferedReader, int]]:
    """Open a file, and say how long it is; pipes, devices and folders are errors."""

    def at_once(name: str, flags: int) -> int:
        return os.open(name, flags | AT_ONCE)

    with open(path, "rb", opener=at_once) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{str(path)!r} is no file")
        yield file, status.st_size


def _read(
    file: BufferedReader, size: int, path: Path, shape: tuple[int, ...]
) -> Tensor | None:
    """Return the numbers if they are of one of the kinds that may lie there."""
    for dtype in DTYPES:
        numbers = np.empty(shape, dtype)
        head = _head(path, numbers)
        if size != len(head) + DIGEST_BYTES + numbers.nbytes:
            continue
        if file.read(len(head)) != head:
            return None
        written = file.read(DIGEST_BYTES)
        file.readinto(numbers.data.cast("B"))
        return torch.from_numpy(numbers) if digest(head, numbers) == written else None
    return None


def _head(path: Path, numbers: NDArray[Any]) -> bytes:
    """Return the line in front of a tile; the kind of its numbers says their order."""
    place = f"{path.parent.name}/{path.name}"
    shape = " ".join(map(str, numbers.shape))
    return f"{FORMAT}: {place} {numbers.dtype.str} {shape}\n".encode()


def _write(path: Path, *parts: Any) -> None:
    """Write a file beside its place, and move it there."""
    part = path.with_suffix(f".{uuid.uuid4().hex}")
    try:
        with part.open("xb") as file:
            file.writelines(parts)
        os.replace(part, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            part.unlink()
        # On Windows a file that another process reads or writes is not replaced.
        if not (isinstance(error, PermissionError) and path.exists()):
            raise
