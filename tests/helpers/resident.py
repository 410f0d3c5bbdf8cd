"""Peak of the resident size of this process during a call."""

import contextlib
import ctypes
import gc
import re
from pathlib import Path

STATUS = Path("/proc/self/status")
# With this the C library keeps nothing that was freed: small budgets are then not
# blurred by holes in its heap.
FREE_AT_ONCE = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}


def peak_of(call):
    """Return the peak resident size during a call above the level before, bytes."""
    gc.collect()
    # What was freed goes back to the system, where it can, and its peak is forgotten.
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    # The peak is read as VmHWM: unlike ru_maxrss it does not begin at the size of the
    # process that started this one.
    before = _kilobytes("VmRSS")
    call()
    return (_kilobytes("VmHWM") - before) * 1024


def _kilobytes(name):
    return int(re.search(rf"{name}:\s+(\d+)", STATUS.read_text())[1])
