"""Memory of a device, and arithmetic in full precision on it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TypeVar

import torch
from torch import Tensor

from skconvgp._config import ComputeConfig
from skconvgp._protocols import PullbackBackend, TileBackend, TileCosts
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
    "measure_tiles",
    "on_device",
    "require_memory",
    "use_gpu",
    "wait_for",
]

# Words of the errors of a device without memory: torch's own, on Linux and Windows,
# those of the C++ run time, and those of libraries that find no room for their
# workspace (cuBLAS then only says that it is not initialised). After most other errors
# a GPU cannot be used any more, so that no other error is caught.
MOST_BYTES = 10**24  # that a message tells
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
        # Memory that torch keeps for reuse is free for us, too.
        kept = torch.cuda.memory_reserved(device)
        used = torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + kept - used
    return free_host_memory()


def gpu_memory() -> int | None:
    """Return the bytes that can be allocated on the GPU now; None if there is none.

    It is 0 if another program uses the GPU exclusively, so that it cannot be opened.
    """
    if not torch.cuda.is_available():
        return None
    try:
        return free_memory(torch.device("cuda"))
    except RuntimeError:
        return 0


def measure_tiles(
    backend: TileBackend | PullbackBackend, images: Tensor, config: ComputeConfig
) -> TileCosts:
    """Return the bytes that a backend needs for an image like these and for a pair."""
    image = images[:1].to(config.device, config.dtype)
    with torch.no_grad(), on_device(config.device):
        return backend.measure(image)


def count_gpus() -> int:
    """Return the number of GPUs."""
    return torch.cuda.device_count()


def use_gpu(index: int) -> None:
    """Make "cuda" mean this GPU in the calling thread from now on."""
    torch.cuda.set_device(index)
    # The driver needs a context in each thread. `set_device` makes none if the GPU is
    # the current one already; waiting for it does.
    torch.cuda.synchronize(index)


def finish_on_gpu() -> None:
    """Wait until the GPU has done all work that this thread has queued."""
    torch.cuda.current_stream().synchronize()


def wait_for(device: torch.device) -> None:
    """Wait until a device has done all work; calls only put work in a GPU's queue."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def drop_cached_memory(device: torch.device) -> None:
    """Give back the memory of a GPU that torch keeps for reuse."""
    if device.type == "cuda":
        torch.cuda.empty_cache()


def require_memory(needed: int, device: torch.device, user: str, remedy: str) -> None:
    """Raise a TileMemoryError unless `needed` bytes are free on the device.

    The message says that the `user` of the memory needs them, and names the remedy.
    """
    allowed = free_memory(device)
    if needed > allowed:
        raise TileMemoryError(
            f"{user} needs {_bytes_as_text(needed)} and {_bytes_as_text(allowed)} are "
            f"free on device {str(device)!r}: {remedy}"
        )


def _bytes_as_text(number: int) -> str:
    """Return a number of bytes, in GiB as well; settings may ask for any number."""
    if number > MOST_BYTES:
        return f"more than {MOST_BYTES} bytes"
    return f"{number} bytes ({number / 2**30:.1f} GiB)"


class _Tf32Switch:
    """Switches TF32 off in products of matrices while any thread needs it off.

    torch has one such setting for the whole process. The users are therefore counted
    under a lock, and the last one restores the old setting.
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
        """Return the name of torch's setting, and the value that switches TF32 off."""
        if hasattr(torch.backends.cuda.matmul, "fp32_precision"):  # since torch 2.9
            return "fp32_precision", "ieee"
        return "allow_tf32", False


_TF32 = _Tf32Switch()


@contextmanager
def full_precision(device: torch.device) -> Iterator[None]:
    """Switch off TF32 on a GPU, which keeps only 10 bits of the mantissa.

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
    """Compute in full precision; raise a TileMemoryError when memory runs out."""
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
            "help: lower `memory_budget`, close other programs that use the device, "
            f"use fewer samples, {remedy}. The error was: {error}"
        ) from error


class TileSide:
    """The largest side of tiles for which a device has had room.

    Planned tiles may not fit. The budget bounds only the bytes that are counted, while
    other programs use a GPU or the host as well, and the memory of a GPU fragments.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._limit: int | None = None

    def shrink_to_fit(self, compute: Callable[[int], Result], side: int) -> Result:
        """Return ``compute(side)``, with the side halved until memory suffices.

        Later calls begin with the side that fitted.
        """
        side = side if self._limit is None else min(side, self._limit)
        while True:
            try:
                return compute(side)
            except (RuntimeError, MemoryError) as error:
                if side == 1 or not is_out_of_memory(error):
                    raise
            # Only here, outside of `except`, is the error gone. It refers to the frames
            # that failed, and these to their tensors, which can be freed now.
            drop_cached_memory(self._device)
            side = self._limit = side // 2


def is_out_of_memory(error: Exception) -> bool:
    """Say whether an error means that a device or the host has no memory left.

    A TileMemoryError does not count: its message names a remedy already.
    """
    if isinstance(error, TileMemoryError):
        return False
    if isinstance(error, torch.cuda.OutOfMemoryError | MemoryError):
        return True
    return any(sign in str(error) for sign in NO_MEMORY)
