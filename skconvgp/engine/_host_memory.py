"""Memory of the host: what the system, containers and limits of the process leave."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["free_host_memory"]

MEMINFO = Path("/proc/meminfo")
SIZES = Path("/proc/self/statm")  # of this process, in pages
GROUPS = Path("/proc/self/cgroup")  # that this process is in
CGROUP = Path("/sys/fs/cgroup")
UNKNOWN_MEMORY = 4 * 2**30  # assumed where the system does not tell
# Limits of a process, and which of its sizes they limit.
PROCESS_LIMITS = {"RLIMIT_AS": 0, "RLIMIT_DATA": 5}


@dataclass(frozen=True)
class GroupFiles:
    """Where a group of processes has its limit.

    Parameters
    ----------
    limit, used : str
        Files with bytes.
    droppable : str
        Line of the statistics with the bytes that only cache files.
    """

    limit: str
    used: str
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
    """Yield what the system calls available."""
    found = _number(_text(MEMINFO), "MemAvailable:")
    if found is not None:
        yield found * 1024
        return
    names = getattr(os, "sysconf_names", {})
    if "SC_AVPHYS_PAGES" in names and "SC_PAGE_SIZE" in names:
        yield os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _left_by_groups() -> Iterator[int]:
    """Yield what each group that the process is in may still take.

    A group has at most what those around it have. A container may see its own group
    as the root, and be told the path that it has outside.
    """
    for line in (_text(GROUPS) or "0::/").splitlines():
        _, kinds, path = line.split(":", 2)
        if kinds and "memory" not in kinds.split(","):
            continue
        root, files = (CGROUP / "memory", VERSION_1) if kinds else (CGROUP, VERSION_2)
        names = [name for name in path.split("/") if name]
        names = [] if ".." in names else names
        for depth in range(len(names) + 1):
            yield from _left_by_group(root.joinpath(*names[:depth]), files)


def _left_by_group(folder: Path, files: GroupFiles) -> Iterator[int]:
    limit, used = _text(folder / files.limit), _text(folder / files.used)
    if used and limit and limit.strip() != "max":
        droppable = _number(_text(folder / "memory.stat"), files.droppable)
        yield int(limit) - int(used) + (droppable or 0)


def _left_to_process() -> Iterator[int]:
    """Yield what limits of the process leave, such as those of ``ulimit -v``."""
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
    """Return the number behind a name at the start of a line."""
    for line in text.splitlines():
        words = line.split()
        if words and words[0] == name:
            return int(words[1])
    return None


def _text(path: Path) -> str:
    """Return the text of a file; empty where there is none."""
    try:
        return path.read_text()
    except OSError:
        return ""
