"""Memory of the device, and arithmetic without shortcuts."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TypeVar

import torch

from skconvgp.exceptions import TileMemoryError

__all__ = [
    "TileSide",
    "count_gpus",
    "drop_cached_memory",
    "finish_on_gpu",
    "free_memory",
    "full_precision",
    "gpu_memory",
    "on_device",
    "require_memory",
    "use_gpu",
    "wait_for",
]

MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")

# What errors say where a device has no memory left: torch's own, those of the run time,
# and those of libraries that find no room for their work space, one of which says no
# more than that it could not begin. After most other errors a GPU cannot be used any
# more, so none is caught.
NO_MEMORY = ("out of memory", "_ALLOC_FAILED", "CUBLAS_STATUS_NOT_INITIALIZED")
Result = TypeVar("Result")


def free_memory(device: torch.device) -> int:
    """Return the bytes that can be allocated on a device now."""
    if device.type == "cuda":
        # What torch keeps for later counts too.
        kept = torch.cuda.memory_reserved(device)
        used = torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + kept - used
    limits = [_available_memory(), _cgroup_memory()]
    known = [limit for limit in limits if limit is not None]
    return min(known) if known else UNKNOWN_MEMORY


UNKNOWN_MEMORY = 4 * 2**30  # assumed where the system does not tell


def gpu_memory() -> int | None:
    """Return the bytes that can be allocated on the GPU now; None if there is none.

    A GPU that another program has to itself cannot be opened: nothing is free there.
    """
    if not torch.cuda.is_available():
        return None
    try:
        return free_memory(torch.device("cuda"))
    except RuntimeError:
        return 0


def count_gpus() -> int:
    """Return the number of GPUs."""
    return torch.cuda.device_count()


def use_gpu(index: int) -> None:
    """Let "cuda" be this GPU for all that the thread does from here on."""
    torch.cuda.set_device(index)
    # The driver needs a context in each thread, and torch makes none for the GPU that
    # is the current one anyway.
    torch.cuda.synchronize(index)


def finish_on_gpu() -> None:
    """Wait until the GPU has done what this thread has given it."""
    torch.cuda.current_stream().synchronize()


def wait_for(device: torch.device) -> None:
    """Wait until a device has done what it was given: a GPU only puts it in a queue."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def drop_cached_memory(device: torch.device) -> None:
    """Give back what torch keeps of a GPU's memory for later."""
    if device.type == "cuda":
        torch.cuda.empty_cache()


def require_memory(needed: int, device: torch.device, what: str, remedy: str) -> None:
    """Raise a TileMemoryError unless `needed` bytes are free on the device."""
    allowed = free_memory(device)
    if needed > allowed:
        raise TileMemoryError(
            f"{what} needs {needed} bytes ({needed / 2**30:.1f} GiB) and {allowed} "
            f"bytes ({allowed / 2**30:.1f} GiB) are free on device {str(device)!r}: "
            f"{remedy}"
        )


class _Tf32Switch:
    """TF32 in products of matrices: off while any thread needs that, then as it was.

    The switch is one for the whole process.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._n_users = 0
        self._before: object = None

    def turn_off(self) -> None:
        with self._lock:
            if self._n_users == 0:
                name, off = self._setting()
                self._before = getattr(torch.backends.cuda.matmul, name)
                setattr(torch.backends.cuda.matmul, name, off)
            self._n_users += 1

    def restore(self) -> None:
        with self._lock:
            self._n_users -= 1
            if self._n_users == 0:
                name, _ = self._setting()
                setattr(torch.backends.cuda.matmul, name, self._before)

    def _setting(self) -> tuple[str, object]:
        """Return the name of torch's setting, and what switches TF32 off."""
        if hasattr(torch.backends.cuda.matmul, "fp32_precision"):  # since torch 2.9
            return "fp32_precision", "ieee"
        return "allow_tf32", False


_TF32 = _Tf32Switch()


@contextmanager
def full_precision(device: torch.device) -> Iterator[None]:
    """Switch off TF32 on a GPU: it keeps 10 bits of the mantissa (maths.md 3)."""
    if device.type == "cpu":
        yield
        return
    _TF32.turn_off()
    try:
        yield
    finally:
        _TF32.restore()


@contextmanager
def on_device(device: torch.device) -> Iterator[None]:
    """Compute in full precision; where memory runs out, raise a TileMemoryError."""
    try:
        with full_precision(device):
            yield
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        raise TileMemoryError(
            f"Device {str(device)!r} has run out of memory, and smaller tiles do not "
            "help: lower `memory_budget`, close what else uses the device, use fewer "
            f"samples, or use device='cpu'. torch says: {error}"
        ) from error


class TileSide:
    """The largest side of tiles for which a device has had room.

    A budget bounds what is counted. Other programs may use a GPU too, and its memory
    falls to pieces: there alone, tiles that were planned may not fit.

    Parameters
    ----------
    device : torch.device
        The device.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._limit: int | None = None

    def shrink_to_fit(self, compute: Callable[[int], Result], side: int) -> Result:
        """Return ``compute(side)``, or where that does not fit, of half the side.

        The side is halved until there is room, and later calls begin there.

        Parameters
        ----------
        compute : callable
            Computes with tiles of a side.
        side : int
            The side planned.

        Returns
        -------
        result : object
            What `compute` returns.
        """
        side = side if self._limit is None else min(side, self._limit)
        while True:
            try:
                return compute(side)
            except RuntimeError as error:
                if side == 1 or not is_out_of_memory(error):
                    raise
            # The error held the frames that failed, and they their tensors: now both
            # are gone.
            drop_cached_memory(self._device)
            side = self._limit = side // 2


def is_out_of_memory(error: RuntimeError) -> bool:
    """Say whether an error tells that a device has no memory left."""
    if isinstance(error, torch.cuda.OutOfMemoryError):
        return True
    return any(sign in str(error) for sign in NO_MEMORY)


def _available_memory() -> int | None:
    if MEMINFO.exists():
        for line in MEMINFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    names = getattr(os, "sysconf_names", {})
    if "SC_AVPHYS_PAGES" in names and "SC_PAGE_SIZE" in names:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def _cgroup_memory() -> int | None:
    """Return what a container may still take, where it is limited."""
    limit, used = CGROUP / "memory.max", CGROUP / "memory.current"
    if not (limit.exists() and used.exists()):
        return None
    text = limit.read_text().strip()
    if text == "max":
        return None
    taken = int(used.read_text()) - _droppable_memory()
    return max(0, int(text) - taken)


def _droppable_memory() -> int:
    """Return the part of a container's memory that only caches files."""
    stat = CGROUP / "memory.stat"
    if stat.exists():
        for line in stat.read_text().splitlines():
            if line.startswith("inactive_file "):
                return int(line.split()[1])
    return 0
