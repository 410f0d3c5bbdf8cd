"""How many threads torch uses in the calling thread: one, but for large operations.

A parallel region of OpenMP waits for the slowest of its threads. On busy cores, a small
operation on two threads takes a hundred times as long as on one.
"""

import ctypes
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import cache, partial
from pathlib import Path
from threading import Lock, Thread, local
from typing import TypeVar

import joblib
import torch
from threadpoolctl import LibController, ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")

# Multiplications of an operation that is worth several threads: a few hundredths of a
# second on one core, far more than busy cores keep a thread waiting.
LARGE = 1e9
SMALL = 0.02  # seconds of blocks that are not worth a second thread
LIBRARIES = {"darwin": "libtorch_cpu.dylib", "linux": "libtorch_cpu.so"}


class _Caller(local):
    """Numbers of threads that the calling thread may use inside of the package."""

    n_threads = 0  # for large operations; 0 outside of the door
    is_child = False  # of a fork, which has no threads of OpenMP


_CALLER = _Caller()


def allowed_threads() -> int:
    """Return the number of threads that work may be shared among.

    That is torch's number at the door of the package, but not more than the cores that
    affinity and the quota of a container leave to the process.
    """
    return _CALLER.n_threads or min(torch.get_num_threads(), _count_cores())


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread in the calling thread, but for `threads_for`."""
    if _CALLER.n_threads:
        yield
        return
    _CALLER.n_threads = allowed_threads()
    restore = limit_this_thread(1)
    try:
        yield
    finally:
        restore()
        _CALLER.n_threads = 0


@contextmanager
def threads_for(operations: float) -> Iterator[None]:
    """Let torch use all allowed threads for an operation, if it is a large one.

    Not while blocks of the engine are in work: they have the cores.
    """
    if operations < LARGE or _CALLER.n_threads <= 1:
        yield
        return
    restore = limit_this_thread(_CALLER.n_threads)
    try:
        yield
    finally:
        restore()


def run_small(jobs: Iterator[Callable[[], Result]]) -> Iterator[Result]:
    """Yield results of jobs in the calling thread, until they are worth other threads.

    The other jobs are left. On busy cores threads take milliseconds to start.
    """
    restore, seconds = limit_this_thread(1), 0.0
    try:
        while seconds < SMALL and (job := next(jobs, None)) is not None:
            start = time.thread_time()
            result = job()
            seconds += time.thread_time() - start
            yield result
    finally:
        restore()


def on_threads(call: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Return results of many items in their order, each computed on one thread."""
    n_threads, is_differentiated = allowed_threads(), torch.is_grad_enabled()
    jobs = (partial(call, item) for item in items)
    if n_threads == 1:
        return [job() for job in jobs]
    found = list(run_small(jobs))

    def run(job: Callable[[], Result]) -> Result:
        with torch.set_grad_enabled(is_differentiated):
            return job()

    left = list(jobs)
    if left:
        pool = ThreadPoolExecutor(
            n_threads, initializer=limit_this_thread, initargs=(1,)
        )
        with pool:
            found += pool.map(run, left)
    return found


class _OpenBLAS:
    """The number of threads of OpenBLAS, which all threads of a process share."""

    def __init__(self) -> None:
        self._lock, self._n_inside = Lock(), 0
        self._before: list[tuple[LibController, int]] = []

    @contextmanager
    def one_thread(self) -> Iterator[None]:
        """Limit it, until the last of the threads that are here at a time leaves."""
        with self._lock:
            if not self._n_inside:
                self._before = [(one, one.get_num_threads()) for one in _openblas()]
                _set_each((one, 1) for one, _ in self._before)
            self._n_inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._n_inside -= 1
                if not self._n_inside:
                    _set_each(self._before)


_OPENBLAS = _OpenBLAS()


def small_on_one_thread() -> AbstractContextManager[None]:
    """Let small operations of scipy use one thread.

    SciPy's OpenBLAS takes two threads for matrices of 20 rows, and the second one waits
    for the next matrix on a core that others need.
    """
    return _OPENBLAS.one_thread()


@cache
def _openblas() -> list[LibController]:
    """Return scipy's libraries; numpy's, which others compute with, only if shared."""
    controller = ThreadpoolController().select(internal_api="openblas")
    every = list(controller.lib_controllers)
    own = [one for one in every if _is_of_scipy(Path(one.filepath))]
    return own or every


def _is_of_scipy(library: Path) -> bool:
    return any(part.startswith("scipy") for part in library.parts)


def _set_each(numbers: Iterable[tuple[LibController, int]]) -> None:
    for library, n_threads in numbers:
        library.set_num_threads(n_threads)


def forbid_threads() -> None:
    """Let torch use one thread from now on, as in a child of a fork."""
    torch.set_num_threads(1)
    _CALLER.is_child = True
    if _CALLER.n_threads:
        _CALLER.n_threads = 1


def limit_this_thread(n_threads: int) -> Callable[[], None]:
    """Set how many threads torch uses in the calling thread; return the undoing call.

    Other threads, also those that start later, keep their numbers. OpenMP and MKL have
    settings of the calling thread, which torch does not offer; its library has them.
    """
    before = torch.get_num_threads()  # torch sets it now, if not before: not later
    if before == n_threads:
        return _nothing
    set_openmp, set_mkl = _local_settings()
    if set_openmp is None:
        _set_by_torch(n_threads, before)
        return lambda: _set_by_torch(before, before)
    mkl_before = set_mkl(n_threads)
    set_openmp(n_threads)

    def restore() -> None:
        if not _CALLER.is_child:
            set_openmp(before)
            set_mkl(mkl_before)

    return restore


def _set_by_torch(n_threads: int, default: int) -> None:
    """Set the number of the calling thread, and `default` for threads to come.

    `torch.set_num_threads` sets both. The default is set back from a second thread.
    """
    torch.set_num_threads(n_threads)
    if n_threads != default:
        other = Thread(target=torch.set_num_threads, args=(default,))
        other.start()
        other.join()


@cache
def _local_settings() -> tuple[Callable[[int], object] | None, Callable[[int], int]]:
    """Return setters of the threads of OpenMP and of MKL in the calling thread.

    MKL's returns the old number. The first is None where torch's library has no OpenMP,
    or hides it, as on Windows.
    """
    folder = Path(torch.__file__).with_name("lib")
    try:
        library = ctypes.CDLL(str(folder / LIBRARIES[sys.platform]))
        set_openmp, count = library.omp_set_num_threads, library.omp_get_max_threads
    except (AttributeError, KeyError, OSError):
        return None, int
    if count() != torch.get_num_threads():  # torch has threads of its own
        return None, int
    return set_openmp, getattr(library, "MKL_Set_Num_Threads_Local", int)


@cache
def _count_cores() -> int:
    return int(joblib.cpu_count())


def _nothing() -> None:
    pass
