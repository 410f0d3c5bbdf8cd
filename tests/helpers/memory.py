"""Peak memory of one call, measured in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

STATUS = Path("/proc/self/status")

# The peak is read as VmHWM: unlike ru_maxrss it does not begin at the size of the
# process that started this one.
SCRIPT = """
import ctypes, gc, re

def kilobytes(name):
    status = open("/proc/self/status").read()
    return int(re.search(name + r":\\s+(\\d+)", status)[1])

def peak(call):
    gc.collect()
    try:  # what was freed goes back to the system, and its peak is forgotten
        ctypes.CDLL(None).malloc_trim(0)
    except AttributeError:
        pass
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        pass
    before = kilobytes("VmRSS")
    exec(call, globals())
    return (kilobytes("VmHWM") - before) * 1024

{setup}
print(*[peak(call) for call in {calls}])
"""

needs_peak = pytest.mark.skipif(
    not STATUS.exists() or "VmHWM" not in STATUS.read_text(),
    reason="the system does not tell the peak resident size of a process",
)


# With this the C library keeps nothing that was freed: small budgets are then not
# blurred by holes in its heap.
FREE_AT_ONCE = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}


def peak_memory(setup, call, *, is_exact=True, is_second=False, timeout=1800):
    """Return the peak resident size during `call` above the level before, bytes.

    Both arguments are source code; `setup` should call everything once on a little
    data, so that libraries are loaded. Without `is_exact`, what the allocator keeps
    counts too, as it does for users. With `is_second` the same call is made once
    before: the buffers of the BLAS library, some megabytes that differ from processor
    to processor and stay with it, are then there, and matrices alone are counted.
    """
    if is_second:
        setup = f"{setup}\n{call}"
    return peaks(setup, [call], is_exact=is_exact, timeout=timeout)[0]


def peaks(setup, calls, *, is_exact=True, timeout=1800):
    """Return the peak of each of several calls, one after the other in one process."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(setup=setup, calls=calls)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=os.environ | (FREE_AT_ONCE if is_exact else {}),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [int(size) for size in done.stdout.splitlines()[-1].split()]
