"""Files of a cache, which are read only if they are whole and under the right name.

The file of a tile begins with a line that names the format, the file itself and the
dtype and shape of the values. A digest of this line and of the values follows, then the
values as they lie in memory. Reading it executes nothing and makes nothing but numbers.
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
# Opening a pipe would otherwise wait for a writer; Windows has no such pipes.
AT_ONCE = getattr(os, "O_NONBLOCK", 0)


def digest(*parts: Any) -> bytes:
    """Return a digest of bytes, arrays and other objects with the buffer protocol."""
    hasher = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        hasher.update(part)
    return hasher.digest()


def write_tile(path: Path, values: Tensor) -> None:
    """Write the values of a tile to a file, as a whole or not at all."""
    array = np.ascontiguousarray(values.to("cpu").numpy())
    head = _head(path, array)
    _write(path, head, digest(head, array), array)


def write_text(path: Path, text: str) -> None:
    """Write a text to a file, as a whole or not at all."""
    _write(path, text.encode())


def holds_text(path: Path, text: str) -> bool:
    """Say whether a file can be read and holds exactly this text."""
    content = text.encode()
    try:
        with _opened(path) as (file, size):
            return size == len(content) and file.read(size) == content
    except OSError:
        return False


def read_tile(path: Path, shape: tuple[int, ...]) -> Tensor | None:
    """Return the values of a tile; None if the file is missing, wrong or damaged."""
    try:
        with _opened(path) as (file, size):
            return _read(file, size, path, shape)
    except OSError:
        return None


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tuple[BufferedReader, int]]:
    """Open a file and return its size, too; pipes, devices and folders are errors."""

    def at_once(name: str, flags: int) -> int:
        return os.open(name, flags | AT_ONCE)

    with open(path, "rb", opener=at_once) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{str(path)!r} is not a regular file")
        yield file, status.st_size


def _read(
    file: BufferedReader, size: int, path: Path, shape: tuple[int, ...]
) -> Tensor | None:
    """Return the values of an opened tile; None unless line, size and digest agree."""
    for dtype in DTYPES:
        array = np.empty(shape, dtype)
        head = _head(path, array)
        if size != len(head) + DIGEST_BYTES + array.nbytes:
            continue
        if file.read(len(head)) != head:
            return None
        expected = file.read(DIGEST_BYTES)
        file.readinto(array.data.cast("B"))
        return torch.from_numpy(array) if digest(head, array) == expected else None
    return None


def _head(path: Path, array: NDArray[Any]) -> bytes:
    """Return the first line of a tile; ``dtype.str`` includes the byte order."""
    name = f"{path.parent.name}/{path.name}"
    shape = " ".join(map(str, array.shape))
    return f"{FORMAT}: {name} {array.dtype.str} {shape}\n".encode()


def _write(path: Path, *parts: Any) -> None:
    """Write a temporary file in the same folder, and rename it."""
    part = path.with_suffix(f".{uuid.uuid4().hex}")
    try:
        with part.open("xb") as file:
            file.writelines(parts)
        os.replace(part, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            part.unlink()
        # On Windows a file that another process has open cannot be replaced. That
        # process reads or writes the same values, so that nothing is lost.
        if not (isinstance(error, PermissionError) and path.exists()):
            raise
