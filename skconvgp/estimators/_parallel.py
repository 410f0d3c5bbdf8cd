"""The joblib runner: blocks as jobs, without oversubscription."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import joblib
import torch
from sklearn.utils.parallel import Parallel, delayed

from skconvgp._protocols import TileRunner, run_serially

__all__ = ["make_runner"]

Result = TypeVar("Result")


def make_runner(n_jobs: int | None) -> tuple[TileRunner, int]:
    """Return a runner of blocks and how many it has in work at the same time.

    Parameters
    ----------
    n_jobs : int or None
        As in scikit-learn. One job uses all threads of torch; k jobs share the cores.
    """
    n_workers = int(joblib.effective_n_jobs(n_jobs))
    if n_workers == 1:
        return run_serially, 1
    n_threads = max(1, joblib.cpu_count() // n_workers)

    def run(jobs: Iterable[Callable[[], Result]]) -> Iterator[Result]:
        calls = (delayed(_limited)(job, n_threads) for job in jobs)
        parallel = Parallel(
            n_jobs=n_jobs, prefer="threads", return_as="generator_unordered"
        )
        yield from parallel(calls)

    return run, n_workers


def _limited(job: Callable[[], Any], n_threads: int) -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(n_threads)
    try:
        return job()
    finally:
        torch.set_num_threads(before)
