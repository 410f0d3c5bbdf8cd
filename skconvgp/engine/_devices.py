"""Memory of the device, and arithmetic without shortcuts."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from skconvgp.exceptions import TileMemoryError

__all__ = ["free_memory", "full_precision", "require_memory"]

MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")


def free_memory(device: torch.device) -> int:
    """Return the bytes that can be allocated on a device now."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    limits = [_available_memory(), _cgroup_memory()]
    known = [limit for limit in limits if limit is not None]
    return min(known) if known else UNKNOWN_MEMORY


UNKNOWN_MEMORY = 4 * 2**30  # assumed where the system does not tell


def require_memory(needed: int, device: torch.device, what: str, remedy: str) -> None:
    """Raise a TileMemoryError unless `needed` bytes are free on the device."""
    allowed = free_memory(device)
    if needed > allowed:
        raise TileMemoryError(
            f"{what} needs {needed} bytes ({needed / 2**30:.1f} GiB) and {allowed} "
            f"bytes ({allowed / 2**30:.1f} GiB) are free on device {str(device)!r}: "
            f"{remedy}"
        )


@contextmanager
def full_precision(device: torch.device) -> Iterator[None]:
    """Switch off TF32 on a GPU: it keeps 10 bits of the mantissa (maths.md 3).

    The switch is one for the whole process; on a GPU one thread computes tiles.
    """
    if device.type == "cpu":
        yield
        return
    matmul = torch.backends.cuda.matmul
    is_new = hasattr(matmul, "fp32_precision")  # torch 2.9 and later
    name = "fp32_precision" if is_new else "allow_tf32"
    before = getattr(matmul, name)
    setattr(matmul, name, "ieee" if is_new else False)
    try:
        yield
    finally:
        setattr(matmul, name, before)


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
