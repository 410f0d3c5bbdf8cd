"""Which device computes: when `device="auto"` takes a GPU, and when the CPU."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TypeVar

import torch

from skconvgp._resident import resident
from skconvgp.engine._devices import drop_cached_memory, on_device
from skconvgp.engine._threads import survive_forks
from skconvgp.exceptions import TileMemoryError

__all__ = ["Placement", "Size", "choose_placement", "compute_at", "gibibytes"]

Result = TypeVar("Result")

CPU = torch.device("cpu")
# Bytes for tiles, tables and columns of the inverse, and for CUDA and its libraries.
GPU_ROOM = 2**30


@dataclass(frozen=True)
class Placement:
    """The device of a computation, and why it was chosen."""

    device: torch.device
    reason: str = ""  # why "auto" does not use the GPU of the machine; else empty
    # Whether "auto" took a GPU, so that the CPU may replace it.
    is_optional: bool = False


@dataclass(frozen=True)
class Size:
    """How many numbers a fit holds at once, beside its tiles."""

    held: int  # on the host, if everything is computed on the CPU
    on_gpu: int  # on the GPU, if one is used
    beside_gpu: int  # on the host, if a GPU is used


def choose_placement(needed: int, free: int | None) -> Placement:
    """Return where "auto" computes: on a GPU with enough free memory, or on the CPU.

    `needed` bytes must lie on the device at once. `free` bytes are free on the GPU;
    None says that there is no GPU.
    """
    if free is None:
        return Placement(CPU)
    if free < needed + GPU_ROOM:
        return Placement(
            CPU,
            f"{gibibytes(needed)} and {gibibytes(GPU_ROOM)} for tiles are needed there "
            f"and {gibibytes(free)} are free",
        )
    return Placement(torch.device("cuda"), is_optional=True)


def compute_at(placement: Placement, compute: Callable[[Placement], Result]) -> Result:
    """Return ``compute(placement)``; compute on the CPU if an optional GPU has no room.

    The GPU had enough free memory when it was chosen, but other programs use it, too.
    """
    survive_forks()
    is_cpu = placement.device.type == CPU.type
    try:
        with on_device(placement.device), nullcontext() if is_cpu else resident():
            return compute(placement)
    except TileMemoryError:
        if not placement.is_optional:
            raise
    drop_cached_memory(placement.device)
    return compute(Placement(CPU, "it ran out of memory"))


def gibibytes(n_bytes: int) -> str:
    """Return a number of bytes as text."""
    return f"{n_bytes / 2**30:.1f} GiB"
