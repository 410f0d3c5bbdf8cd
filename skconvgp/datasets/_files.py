"""Arrays in a folder of the user, and the parts of a set."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

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


def find_parts(subset: object) -> tuple[str, ...]:
    """Return the names of the parts, "train", "test" or both, that a subset is."""
    if not isinstance(subset, str) or subset not in PARTS:
        known = ", ".join(map(repr, PARTS))
        raise ValueError(f"`subset` must be one of {known}, got {subset!r}.")
    return PARTS[subset]


def find_file(
    name: str, data_home: str | os.PathLike[str] | None, otherwise: str = ""
) -> Path | None:
    """Return where a file of a set is; None if no folder is named.

    Parameters
    ----------
    name : str
        The file, in a folder of data sets.
    data_home : path or None
        That folder; None is the one that the environment variable names.
    otherwise : str, default=""
        What else the user can do if the folder has no such file, for the error.
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
    """Return some arrays of an ``.npz`` file by their names."""
    with np.load(path) as arrays:
        missing = ", ".join(repr(name) for name in names if name not in arrays)
        if missing:
            expected = ", ".join(map(repr, names))
            found = ", ".join(map(repr, arrays.files)) or "none"
            raise ValueError(
                f"{str(path)!r} has no array {missing}. Expected are {expected}; the "
                f"file holds {found}."
            )
        return {name: arrays[name] for name in names}


def require_pairs(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raise ValueError unless there is one target a sample.

    Parameters
    ----------
    path : Path
        The file, for the error.
    arrays : mapping of str to ndarray
        Samples, then targets, by their names in the file.
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
    """Return a bunch, or samples and targets alone."""
    if as_pair:
        return data, target
    return Bunch(data=data, target=target, DESCR=description)
