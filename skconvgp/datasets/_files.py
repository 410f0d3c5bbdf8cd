"""Reads data sets from a folder of the user, and checks their arrays."""

import os
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

__all__ = [
    "DATA_VARIABLE",
    "as_answer",
    "find_file",
    "find_parts",
    "read_arrays",
    "require_pairs",
]

DATA_VARIABLE = "SKCONVGP_DATA"
PARTS = {"train": ("train",), "test": ("test",), "all": ("train", "test")}
# What reading an archive of arrays raises if bytes are missing or changed.
DAMAGES = (BadZipFile, EOFError, RuntimeError, ValueError, zlib.error)


def find_parts(subset: object) -> tuple[str, ...]:
    """Return the parts of a subset: "train", "test" or both."""
    if not isinstance(subset, str) or subset not in PARTS:
        known = ", ".join(map(repr, PARTS))
        raise ValueError(f"`subset` must be one of {known}, got {subset!r}.")
    return PARTS[subset]


def find_file(
    name: str, data_home: str | os.PathLike[str] | None, otherwise: str = ""
) -> Path | None:
    """Return the path of a file of a data set; None if no folder is named.

    If `data_home` is None, the environment variable names the folder. `otherwise` is
    further advice for the error if the folder has no such file.
    """
    folder = data_home if data_home is not None else os.environ.get(DATA_VARIABLE)
    if folder is None:
        return None
    path = Path(folder) / name
    if not path.is_file():
        raise FileNotFoundError(
            f"No file {str(path)!r}: `data_home`, or the environment variable "
            f"{DATA_VARIABLE}, must name a folder with {name}{otherwise}."
        )
    return path


def read_arrays(path: Path, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Return the named arrays of an ``.npz`` file."""
    try:
        found, present = _read_archive(path, names)
    except DAMAGES as error:
        raise ValueError(
            f"{str(path)!r} is empty, damaged or no archive of arrays "
            f"({type(error).__name__}: {error}): download the file, or write it by "
            "np.savez, once more."
        ) from error
    missing = ", ".join(repr(name) for name in names if name not in found)
    if missing:
        expected = ", ".join(map(repr, names))
        listed = ", ".join(map(repr, present)) or "none"
        raise ValueError(
            f"{str(path)!r} has no array {missing}. Expected are {expected}; the "
            f"file holds {listed}."
        )
    return found


def _read_archive(
    path: Path, names: Sequence[str]
) -> tuple[dict[str, NDArray[Any]], list[str]]:
    """Return the named arrays that a file has, and the names of all."""
    with path.open("rb") as file:  # np.load leaves a damaged file open
        loaded = np.load(file)
        if not hasattr(loaded, "files"):
            raise ValueError("it holds a single array without a name")
        with loaded:
            found = {name: loaded[name] for name in names if name in loaded}
            return found, loaded.files


def require_pairs(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raise a ValueError unless there is one target for each sample.

    The arrays are samples, then targets, by their names in the file, whose path is for
    the error.
    """
    (x_name, x), (y_name, y) = arrays.items()
    if y.shape != x.shape[:1]:
        raise ValueError(
            f"{str(path)!r}: {y_name!r} must be of shape (n,), one for each of the n "
            f"samples of {x_name!r}; got {y.shape} and {x.shape}."
        )


def as_answer(
    data: NDArray[Any], target: NDArray[Any], description: str, as_pair: bool
) -> Any:
    """Return a bunch, or samples and targets as a pair."""
    if as_pair:
        return data, target
    return Bunch(data=data, target=target, DESCR=description)
