"""Threads of torch: how many a piece of work has, and what a fork leaves of them."""

import os
from functools import cache
from threading import Thread

import torch

__all__ = ["limit_this_thread", "survive_forks"]


def limit_this_thread(n_threads: int) -> int:
    """Give the calling thread so many threads of torch; return how many it had.

    The setting of torch is that of the calling thread and of every thread which first
    uses torch later. Those keep what they begin with, and are to begin with what there
    was before: another thread says so, as a setting is always the caller's as well.
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
    """From now on let children of a fork compute, each with one thread of torch.

    The threads that torch computes with are not there in a child, which waits for them
    for ever. With one thread there is nothing to wait for. Before the first computation
    there are no such threads, and children need no help.
    """
    if hasattr(os, "register_at_fork"):  # Windows has no fork
        os.register_at_fork(after_in_child=_use_one_thread)


def _use_one_thread() -> None:
    torch.set_num_threads(1)
