"""Runners of blocks: threads of this process, or joblib's workers."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from typing import Any, TypeVar

import joblib
import torch
from joblib import Parallel, delayed
from joblib.parallel import get_active_backend
from numpy.typing import NDArray

from skconvgp._protocols import TileRunner, run_serially
from skconvgp._threads import allowed_threads, limit_this_thread, run_small
from skconvgp.engine import count_gpus, finish_on_gpu, use_gpu
from skconvgp.estimators.compute._parcels import Parcels, open_parcel

Result = TypeVar("Result")


def make_runner(n_jobs: int | None, device: torch.device) -> tuple[TileRunner, int]:
    """Return a runner of blocks, and the number of blocks that it runs at a time.

    One job (also None, unless joblib is configured otherwise) runs blocks on as many
    threads as are allowed, each with one thread of torch: threads that never wait for
    each other stay fast on a busy machine. More jobs run through joblib, and each gets
    an equal share of the cores for torch's threads; a backend without threads of its
    own computes a block in one thread. If jobs are threads, there are at most as many
    as cores; processes and clusters get the number that was asked for.

    A GPU computes one block after the other. "cuda" without a number uses as many GPUs
    as there are jobs, each with a thread of this process.
    """
    n_workers = _count_workers(n_jobs)
    n_threads = allowed_threads()
    if device.type != "cpu":
        n_gpus = 1 if device.index is not None else min(n_workers, count_gpus())
        if n_gpus <= 1:
            return run_serially, 1
        n_inner = max(1, n_threads // n_gpus)
        return _ThreadRunner(n_gpus, n_inner, use_gpu, finish_on_gpu), n_gpus
    if n_workers == n_threads == 1:
        return run_serially, 1
    if n_workers == 1:
        return _ThreadRunner(n_threads), n_threads
    n_threads = max(1, joblib.cpu_count() // n_workers)
    return _JoblibRunner(n_workers, n_threads), n_workers


def _count_workers(n_jobs: int | None) -> int:
    n_workers = int(joblib.effective_n_jobs(n_jobs))
    return min(n_workers, int(joblib.cpu_count())) if _has_threads() else n_workers


def _has_threads() -> bool:
    """Return whether joblib's workers are threads of this process."""
    backend, _ = get_active_backend(prefer="threads")
    return bool(getattr(backend, "supports_sharedmem", False))


class _ThreadRunner:
    """Runs jobs on threads of this process.

    `n_threads` jobs are in work at the same time, each with `n_inner` threads of torch.
    On the CPU the first jobs run in the calling thread: small work is done by then.
    `begin` is called by each thread at its start, with its number. `finish` is called
    by the thread after each job, whose result is complete only then.
    """

    def __init__(
        self,
        n_threads: int,
        n_inner: int = 1,
        begin: Callable[[int], None] | None = None,
        finish: Callable[[], None] | None = None,
    ) -> None:
        self._n_threads = n_threads
        self._n_inner = n_inner
        self._begin_at = begin or _begin_anywhere
        self._finish = finish or _finish_at_once

    def __call__(self, jobs: Iterable[Callable[[], Result]]) -> Iterator[Result]:
        """Yield the results of the jobs as they come."""
        queue = iter(jobs)
        if self._begin_at is _begin_anywhere:
            yield from run_small(queue)
        first = list(islice(queue, 2 * self._n_threads))
        if not first:
            return
        numbers = iter(range(self._n_threads))
        pool = ThreadPoolExecutor(
            self._n_threads, initializer=lambda: self._begin(next(numbers))
        )
        try:
            pending = {pool.submit(self._run, job) for job in first}
            while pending:
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                for job in islice(queue, len(done)):
                    pending.add(pool.submit(self._run, job))
                yield from map(Future.result, done)
        finally:
            pool.shutdown(cancel_futures=True)

    def _begin(self, number: int) -> None:
        limit_this_thread(self._n_inner)
        self._begin_at(number)

    def _run(self, job: Callable[[], Result]) -> Result:
        result = job()
        self._finish()
        return result


def _begin_anywhere(number: int) -> None:
    """Do nothing: threads on the CPU need no device."""


def _finish_at_once() -> None:
    """Do nothing: on the CPU, work is done when a call returns."""


class _JoblibRunner:
    """Runs jobs through joblib, on the backend that the user has chosen.

    Not through scikit-learn's `Parallel`: its jobs reset the filters of warnings, which
    all threads of a process share.
    """

    def __init__(self, n_workers: int, n_threads: int) -> None:
        self._n_workers = n_workers
        self._n_threads = n_threads

    def __call__(self, jobs: Iterable[Callable[[], Result]]) -> Iterator[Result]:
        """Yield the results of the jobs as they come."""
        calls = self._calls(jobs)
        settings = {"n_jobs": self._n_workers, "prefer": "threads"}
        try:
            parallel = Parallel(return_as="generator_unordered", **settings)
        except ValueError:  # joblib 1.3, or a backend that gives lists only (ray)
            parallel = Parallel(**settings)
            while results := parallel(list(islice(calls, 2 * self._n_workers))):
                yield from results
        else:
            yield from parallel(calls)

    def _calls(self, jobs: Iterable[Callable[[], Any]]) -> Iterator[Any]:
        if _has_threads():
            return (delayed(_limited)(job, self._n_threads) for job in jobs)
        parcels = Parcels()
        packed = map(parcels.pack, jobs)
        call = delayed(_unpacked)
        return (call(job, self._n_threads, *arrays) for job, arrays in packed)


def _unpacked(packed: bytes, n_threads: int, *arrays: NDArray[Any]) -> Any:
    """Run a job that was packed."""
    return _limited(open_parcel(packed, arrays), n_threads)


def _limited(job: Callable[[], Any], n_threads: int) -> Any:
    """Run a job with a number of threads of torch."""
    restore = limit_this_thread(n_threads)
    try:
        return job()
    finally:
        restore()
