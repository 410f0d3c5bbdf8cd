"""`cache_dir`: a folder with the finished tiles of one kernel on one set of samples."""

import hashlib
import json
import re
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

import joblib
import numpy as np
import torch
from torch import Tensor

from skconvgp.backends import BackendChoice, extension_file
from skconvgp.engine import TileCache, to_numpy
from skconvgp.estimators._warn import warn_caller
from skconvgp.kernels import Kernel
from skconvgp.kernels._keys import NoKeyError, settings_key

PACKAGE = Path(__file__).parents[2]
CODE = {".py", ".cpp", ".hpp", ".so", ".pyd"}
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # in reprs; differs in each run
NOT_WRITTEN = (
    "Tiles are no longer kept in `cache_dir`, as {!r} cannot be written: {}. The "
    "computation goes on; if it is interrupted, the next one starts from the tiles "
    "that are there. To keep the others, make room there or choose another `cache_dir`."
)
OCCUPIED = (
    "A file is not kept in `cache_dir`, because a folder has its name, {!r}: its "
    "tiles are computed each time. Remove that folder."
)
UNKNOWN = (
    "No tiles are kept in `cache_dir`: {!r} uses {}, which may change unnoticed. Kept "
    "are those of this package's kernels, of functions of torch, and of objects with a "
    "method `cache_key()`, which returns other numbers or words when results may "
    "change. Write such a method, or set cache_dir=None."
)


def warn_of_unknown(folder: Path | None, kernel: Kernel) -> None:
    """Warn if there is a folder, but tiles of the kernel cannot be kept there."""
    if folder is None:
        return
    try:
        settings_key(kernel)
    except NoKeyError as error:
        warn_caller(UNKNOWN.format(kernel, error), UserWarning)


def find_cache(
    folder: Path | None,
    choice: BackendChoice,
    dtype: torch.dtype,
    device: torch.device,
    *sides: Tensor,
) -> TileCache | None:
    """Return the cache of a computation; None without a folder or a key.

    `folder` holds all caches. The name of the cache's own folder is a hash of
    everything that the values depend on, including the code of the package, so that
    other tiles are never read. The sides are the images (n, c, h, w) of each side of
    the matrix, on the host. A warning says if the cache cannot be written to.
    """
    if folder is None:
        return None
    try:
        key = settings_key(choice.kernel)
    except NoKeyError:
        return None
    about = {
        **{name: version(name) for name in ("skconvgp", "torch", "numpy")},
        "images": [list(side.shape) for side in sides],
        "backend": choice.name,
        "instruction_set": choice.instruction_set,
        "device": device.type,
        "dtype": str(dtype).removeprefix("torch."),
    }
    images = [np.ascontiguousarray(to_numpy(side)) for side in sides]
    parts = [about, _code_of_package(), repr(key), images]
    subfolder = folder / str(joblib.hash(parts))
    try:
        subfolder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _warn_of_failure(subfolder, error)
        return None
    description = about | {"kernel": ADDRESS.sub("", repr(choice.kernel))}
    cache = TileCache(subfolder, _warn_of_failure)
    cache.describe(json.dumps(description, indent=1) + "\n")
    return cache


def _warn_of_failure(path: Path, error: OSError) -> None:
    if isinstance(error, IsADirectoryError):
        warn_caller(OCCUPIED.format(str(path)), UserWarning)
        return
    warn_caller(NOT_WRITTEN.format(str(path), error.strerror or error), UserWarning)


@lru_cache(maxsize=1)
def _code_of_package() -> str:
    """Return a digest of the code: a checkout may change without a new version.

    The extension that is loaded may lie elsewhere, or be older than its sources.
    """
    digest = hashlib.blake2b(digest_size=16)
    for path in [*sorted(PACKAGE.rglob("*")), extension_file()]:
        if path is not None and path.suffix in CODE:
            digest.update(path.read_bytes())
    return digest.hexdigest()
