"""`cache_dir`: a folder with the finished tiles of one kernel on one set of samples."""

import json
import os
from importlib.metadata import version
from pathlib import Path
from pickle import PicklingError

import joblib
import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from skconvgp.backends import BackendChoice
from skconvgp.engine import TileCache
from skconvgp.estimators._resolve import reject
from skconvgp.estimators._validation import to_numpy
from skconvgp.kernels import Kernel

__all__ = ["find_cache", "resolve_cache_dir"]

ABOUT = "about.json"


def resolve_cache_dir(owner: object, cache_dir: object, kernel: object) -> Path | None:
    """Return the folder of all caches; raise unless it can take those of a kernel."""
    if cache_dir is None or not isinstance(kernel, Kernel):
        return None
    if not isinstance(cache_dir, str | os.PathLike) or not str(cache_dir):
        reject(owner, "cache_dir", "None or the path of a folder", cache_dir)
    folder = Path(cache_dir).expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"`cache_dir` must be a folder that can be written to, got {cache_dir!r}: "
            f"{error}."
        ) from error
    _identity(kernel)
    return folder


def find_cache(
    folder: Path | None,
    choice: BackendChoice,
    dtype: torch.dtype,
    device: torch.device,
    *sides: Tensor,
) -> TileCache | None:
    """Return the cache of a computation; None without a folder.

    Its name follows from all that values depend on, and from the version of the
    package: tiles of something else are never found in it.

    Parameters
    ----------
    folder : Path or None
        The folder of all caches.
    choice : BackendChoice
        The kernel, the shape of the images, and what computes.
    dtype : torch.dtype
        Precision of the tiles.
    device : torch.device
        Where they are computed.
    sides : Tensor of shape (n, c, h, w)
        Images of each side of the matrix, on the host.

    Returns
    -------
    cache : TileCache or None
        The cache.

    Raises
    ------
    ValueError
        If the kernel cannot be pickled, or the folder cannot be written to.
    """
    if folder is None:
        return None
    about = {
        "skconvgp": version("skconvgp"),
        "kernel": repr(choice.kernel),
        "images": [list(side.shape) for side in sides],
        "backend": choice.name,
        "device": device.type,
        "dtype": str(dtype).removeprefix("torch."),
    }
    images = [np.ascontiguousarray(to_numpy(side)) for side in sides]
    own = folder / str(joblib.hash([about, _identity(choice.kernel), images]))
    try:
        own.mkdir(exist_ok=True)
        (own / ABOUT).write_text(json.dumps(about, indent=1) + "\n")
    except OSError as error:
        raise ValueError(
            f"`cache_dir` must be a folder that can be written to, got "
            f"{str(folder)!r}: {error}."
        ) from error
    return TileCache(own)


def _identity(kernel: Kernel) -> str:
    """Return a digest of a kernel and its settings; raise where it has none."""
    try:
        return str(joblib.hash(clone(kernel)))  # without what it remembers of use
    except PicklingError as error:
        raise ValueError(
            f"`cache_dir` needs a kernel that can be pickled, got {kernel!r}: define "
            "its function in a module."
        ) from error
