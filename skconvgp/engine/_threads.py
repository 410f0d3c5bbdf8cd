"""Threads of torch: how many the workers use, and how they survive a fork."""

import os
from functools import cache
from threading import Thread

import torch

__all__ = ["limit_this_thread", "survive_forks"]


def limit_this_thread(n_threads: int) -> int:
    """Set how many threads torch uses in the calling thread; return the old number.

    `torch.set_num_threads` sets the number for the calling thread, and the default for
    threads that use torch for the first time later. The default must not change. It is
    set back from a second thread, because a call in this one sets both.
    """
    before = torch.get_num_threads()
    if before != n_threads:
        torch.set_num_threads(n_threads)
        other = Thread(target=torch.set_num_threads, args=(before,))
        other.start()
        other.join()
    return before


@cache
def survive_forks() -> None:
    """Let children of later forks compute, each with one thread of torch.

    A child does not inherit the threads that torch computes with, and would wait for
    them for ever. With one thread there is nothing to wait for. A child that is forked
    before the first computation starts its own threads and needs no help.
    """
    if hasattr(os, "register_at_fork"):  # Windows has no fork
        os.register_at_fork(after_in_child=_use_one_thread)


def _use_one_thread() -> None:
    torch.set_num_threads(1)
