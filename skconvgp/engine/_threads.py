"""Children of forks compute with one thread of torch."""

import os
from functools import cache

from skconvgp._threads import forbid_threads

__all__ = ["survive_forks"]


@cache
def survive_forks() -> None:
    """Let children of later forks compute, each with one thread of torch.

    A child does not inherit the threads that torch computes with, and would wait for
    them for ever. With one thread there is nothing to wait for. A child that is forked
    before the first computation starts its own threads and needs no help.
    """
    if hasattr(os, "register_at_fork"):  # Windows has no fork
        os.register_at_fork(after_in_child=forbid_threads)
