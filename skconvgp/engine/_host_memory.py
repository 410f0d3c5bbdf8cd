"""Free memory of the host, bounded by the system, containers and process limits."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["free_host_memory"]

MEMINFO = Path("/proc/meminfo")
SIZES = Path("/proc/self/statm")  # of this process, in pages
GROUPS = Path("/proc/self/cgroup")  # control groups of this process
CGROUP = Path("/sys/fs/cgroup")
NO_LIMIT = 2**60  # bytes; version 1 of control groups tells about 2^63 without a limit
UNKNOWN_MEMORY = 4 * 2**30  # assumed if the system reports no number
# Limits of a process, and the field of `SIZES` that each of them limits.
PROCESS_LIMITS = {"RLIMIT_AS": 0, "RLIMIT_DATA": 5}


@dataclass(frozen=True)
class GroupFiles:
    """Names of the files of a control group of Linux."""

    limit: str  # file with the largest number of bytes
    used: str  # file with the present number of bytes
    # Entry of ``memory.stat`` with the bytes of the file cache, which the system drops
    # when memory is needed.
    droppable: str


VERSION_1 = GroupFiles(
    "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
)
VERSION_2 = GroupFiles("memory.max", "memory.current", "inactive_file")


def free_host_memory() -> int:
    """Return the bytes that this process can allocate now."""
    limits = [*_available(), *_left_by_groups(), *_left_to_process()]
    return max(0, min(limits)) if limits else UNKNOWN_MEMORY


def _available() -> Iterator[int]:
    """Yield the bytes that the system calls available."""
    kibibytes = _number(_text(MEMINFO), "MemAvailable:")
    if kibibytes is not None:
        yield kibibytes * 1024
        return
    names = getattr(os, "sysconf_names", {})
    if "SC_AVPHYS_PAGES" in names and "SC_PAGE_SIZE" in names:
        yield os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _left_by_groups() -> Iterator[int]:
    """Yield the bytes that each control group of the process may still take.

    Groups are nested, and the limit of an outer group binds the inner ones. A container
    may see its own group as the root, although ``/proc`` names the path that the group
    has outside; parts of that path then do not exist and are passed over.
    """
    for line in (_text(GROUPS) or "0::/").splitlines():
        _, kinds, path = line.split(":", 2)
        if kinds and "memory" not in kinds.split(","):
            continue
        root, files = (CGROUP / "memory", VERSION_1) if kinds else (CGROUP, VERSION_2)
        names = [name for name in path.split("/") if name]
        names = [] if ".." in names else names  # a group outside of the root
        for depth in range(len(names) + 1):
            yield from _left_by_group(root.joinpath(*names[:depth]), files)


def _left_by_group(folder: Path, files: GroupFiles) -> Iterator[int]:
    limit = _text(folder / files.limit).strip()
    if limit in ("", "max") or int(limit) >= NO_LIMIT:
        return
    used = _text(folder / files.used)
    if used:
        droppable = _number(_text(folder / "memory.stat"), files.droppable)
        yield int(limit) - int(used) + (droppable or 0)


def _left_to_process() -> Iterator[int]:
    """Yield the bytes that limits of the process leave, such as ``ulimit -v``."""
    try:
        import resource
    except ImportError:  # on Windows
        return
    sizes = _text(SIZES).split()
    for name, field in PROCESS_LIMITS.items():
        limit, _ = resource.getrlimit(getattr(resource, name))
        if sizes and limit != resource.RLIM_INFINITY:
            yield limit - int(sizes[field]) * resource.getpagesize()


def _number(text: str, name: str) -> int | None:
    """Return the number in the line that begins with a name; None if there is none."""
    for line in text.splitlines():
        words = line.split()
        if words and words[0] == name:
            return int(words[1])
    return None


def _text(path: Path) -> str:
    """Return the text of a file; empty if it cannot be read."""
    try:
        with path.open("rb", buffering=0) as file:  # small files, read often
            return file.read().decode()
    except OSError:
        return ""
