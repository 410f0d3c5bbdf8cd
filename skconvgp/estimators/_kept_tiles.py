"""`cache_dir`: a folder with the finished tiles of one kernel on one set of samples."""

import hashlib
import inspect
import json
import os
from collections.abc import Iterator
from functools import lru_cache, partial
from importlib.metadata import version
from pathlib import Path
from pickle import PicklingError
from typing import Any

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

PACKAGE = Path(__file__).parents[1]
CODE = {".py", ".cpp", ".hpp", ".so", ".pyd"}
# Libraries whose functions are what their names and versions say.
TRUSTED = {"builtins", "math", "numpy", "scipy", "skconvgp", "torch"}
UNKNOWN = (
    "`cache_dir` needs a kernel that can be pickled, made of functions and classes "
    "whose source can be read; {!r} is not: {}. Define them in a module, or use "
    "cache_dir=None."
)


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
        raise _no_folder(cache_dir, error) from error
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

    Its name follows from what values depend on, the code of the package included:
    tiles of something else are not looked at.

    Parameters
    ----------
    folder : Path or None
        The folder of all caches.
    choice : BackendChoice
        The kernel, and what computes.
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
        If the kernel cannot be told from others, or the folder cannot be written to.
    """
    if folder is None:
        return None
    about = {
        "skconvgp": version("skconvgp"),
        "images": [list(side.shape) for side in sides],
        "backend": choice.name,
        "instruction_set": choice.instruction_set,
        "device": device.type,
        "dtype": str(dtype).removeprefix("torch."),
    }
    images = [np.ascontiguousarray(to_numpy(side)) for side in sides]
    parts = [about, _code_of_package(), _identity(choice.kernel), images]
    own = folder / str(joblib.hash(parts))
    try:
        own.mkdir(exist_ok=True)
        told = about | {"kernel": repr(choice.kernel)}
        cache = TileCache(own)
        cache.describe(json.dumps(told, indent=1) + "\n")
    except OSError as error:
        raise _no_folder(str(folder), error) from error
    return cache


def _no_folder(given: object, error: OSError) -> ValueError:
    return ValueError(
        f"`cache_dir` must be a folder that can be written to, got {given!r}: {error}."
    )


def _identity(kernel: Kernel) -> list[str]:
    """Return digests of a kernel, its settings and the code of what is not ours.

    Raises
    ------
    ValueError
        If it has no digest, or code that is not to be seen.
    """
    try:
        # Without what it remembers of use; and twice, as not all objects have one.
        name, again = (str(joblib.hash(clone(kernel))) for _ in range(2))
        sources = sorted({_source(each) for each in _foreign(kernel)})
    except (AttributeError, OSError, PicklingError, TypeError) as error:
        raise ValueError(UNKNOWN.format(kernel, error)) from error
    if name != again:
        raise ValueError(UNKNOWN.format(kernel, "its digest is another each time"))
    return [name, *sources]


def _foreign(kernel: Kernel) -> Iterator[Any]:
    """Yield the functions and classes of a kernel that are of no known library."""
    for value in (kernel, *kernel.get_params(deep=True).values()):
        inner = value
        while isinstance(inner, partial):
            inner = inner.func
        code = inner if inspect.isroutine(inner) else type(inner)
        if (code.__module__ or "builtins").split(".")[0] not in TRUSTED:
            yield code


def _source(code: Any) -> str:
    """Return the source of a function or a class, as it is now."""
    return f"{code.__module__}.{code.__qualname__}\n{inspect.getsource(code)}"


@lru_cache(maxsize=1)
def _code_of_package() -> str:
    """Return a digest of the package: a checkout may change and keep its version."""
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(PACKAGE.rglob("*")):
        if path.suffix in CODE:
            digest.update(path.read_bytes())
    return digest.hexdigest()
