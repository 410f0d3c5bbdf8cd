"""Memory of the device, and arithmetic without shortcuts."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TypeVar

import torch

from skconvgp.engine._host_memory import free_host_memory
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

# What errors say where a device has no memory left: torch's own, on Linux and Windows,
# those of the run time, and those of libraries that find no room for their work space,
# one of which says no more than that it could not begin. After most other errors a GPU
# cannot be used any more, so none is caught.
NO_MEMORY = (
    "out of memory",
    "can't allocate memory",
    "not enough memory",
    "Cannot allocate memory",
    "std::bad_alloc",
    "_ALLOC_FAILED",
    "CUBLAS_STATUS_NOT_INITIALIZED",
)
Result = TypeVar("Result")


def free_memory(device: torch.device) -> int:
    """Return the bytes that can be allocated on a device now."""
    if device.type == "cuda":
        # What torch keeps for later counts too.
        kept = torch.cuda.memory_reserved(device)
        used = torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + kept - used
    return free_host_memory()


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
    """Switch off TF32 on a GPU: it keeps 10 bits of the mantissa.

    See docs/maths.rst, "Precision".
    """
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
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        remedy = (
            "or raise the limits of the process and its container"
            if device.type == "cpu"
            else "or use device='cpu'"
        )
        raise TileMemoryError(
            f"Device {str(device)!r} has run out of memory, and smaller tiles do not "
            "help: lower `memory_budget`, close what else uses the device, use fewer "
            f"samples, {remedy}. What failed says: {error}"
        ) from error


class TileSide:
    """The largest side of tiles for which a device has had room.

    A budget bounds what is counted. Other programs may use a GPU too, and its memory
    falls to pieces; on the host others take what was free. So tiles that were planned
    may not fit.

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
            except (RuntimeError, MemoryError) as error:
                if side == 1 or not is_out_of_memory(error):
                    raise
            # The error held the frames that failed, and they their tensors: now both
            # are gone.
            drop_cached_memory(self._device)
            side = self._limit = side // 2


def is_out_of_memory(error: Exception) -> bool:
    """Say whether an error tells that a device, or the host, has no memory left.

    A plan that does not fit is not one: it says what to do.
    """
    if isinstance(error, TileMemoryError):
        return False
    if isinstance(error, torch.cuda.OutOfMemoryError | MemoryError):
        return True
    return any(sign in str(error) for sign in NO_MEMORY)
