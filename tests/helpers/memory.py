"""Peak memory of one call, measured in a process of its own."""

import multiprocessing
import os
import time
import traceback
from unittest import mock

import pytest

from tests.helpers.resident import FREE_AT_ONCE, STATUS, peak_of

needs_peak = pytest.mark.skipif(
    not STATUS.exists() or "VmHWM" not in STATUS.read_text(),
    reason="the system does not tell the peak resident size of a process",
)

# What takes seconds to import is imported once, by the process that others fork from;
# it computes nothing.
IMPORTED = ["tests.helpers.memory", "skconvgp", "tests.helpers.oracles"]
# Source code that such processes run first.
PRELUDE = ""
# Processor time of such forks, which are no children of this process.
FORKS_SECONDS = []


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
    # A program of its own starts with an allocator of its own; a fork has its parent's.
    context = multiprocessing.get_context("forkserver" if is_exact else "spawn")
    receiver, sender = context.Pipe(duplex=False)
    with mock.patch.dict(os.environ, FREE_AT_ONCE if is_exact else {}):
        if is_exact:
            context.set_forkserver_preload(IMPORTED)
        whole = PRELUDE + setup
        process = context.Process(target=_measure, args=(whole, calls, sender))
        process.start()
    sender.close()
    try:
        found = receiver.recv() if receiver.poll(timeout) else "it does not end"
    except EOFError:
        found = "it died"
    process.kill()
    process.join()
    assert isinstance(found, tuple), found
    found, seconds = found
    if is_exact:
        FORKS_SECONDS.append(seconds)
    return found


def _measure(setup, calls, sender):
    """Send the peaks of calls, or what went wrong."""
    names = {"__name__": "__main__"}
    try:
        exec(setup, names)
        found = [peak_of(lambda call=call: exec(call, names)) for call in calls]
        sender.send((found, time.process_time()))
    except BaseException:
        sender.send(traceback.format_exc())
