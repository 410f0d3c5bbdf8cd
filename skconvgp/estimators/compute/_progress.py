"""A progress line on stderr."""

import sys
import time

from skconvgp.estimators._warn import warn_caller

__all__ = ["FitLine", "ProgressLine"]

INTERVAL = 0.5  # seconds between two lines
MEASURED = 2.0  # seconds after which the speed of the first pairs is that of the others
LONG = 600.0  # seconds of a fit that its caller should know of


class ProgressLine:
    """Writes the finished share, the speed and the time left of a computation.

    A repeated computation, such as a product in each step of a solver, is timed again
    each time. The end of a short computation is written the first time only.

    Parameters
    ----------
    label : str
        Name of the computation.
    verbose : int
        0 writes nothing.
    unit : str, default="pairs"
        Unit of the counts.
    """

    def __init__(self, label: str, verbose: int, unit: str = "pairs") -> None:
        self._label, self._unit = label, unit
        self._verbose = verbose
        self._start = self._last = time.perf_counter()
        self._end: float | None = None  # time of the previous computation
        self._is_shown = True  # whether this computation has, or should have, a line

    def __call__(self, done: int, total: int) -> None:
        """Report `done` of `total`, at most twice a second."""
        if self._verbose < 1:
            return
        now = time.perf_counter()
        if self._end is not None:
            self._start, self._end, self._is_shown = self._end, None, False
        is_last = done >= total
        if is_last:
            self._end = now
        if now - self._last < INTERVAL and not (is_last and self._is_shown):
            return
        self._last, self._is_shown = now, True
        total = max(total, 1)
        rate = max(done, 1) / max(now - self._start, 1e-9)
        left = (total - done) / rate
        line = (
            f"{self._label}: {done / total:4.0%}, {rate:.3g} {self._unit}/s, "
            f"{_clock(now - self._start)} elapsed, {_clock(left)} left"
        )
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[2K{line}" + ("\n" if is_last else ""))
        else:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()


class FitLine(ProgressLine):
    """Progress of a fit, which also warns if it will take long.

    Parameters
    ----------
    label : str
        Name of the computation.
    verbose : int
        0 writes nothing; the warning is given nevertheless.
    """

    def __init__(self, label: str, verbose: int) -> None:
        super().__init__(label, verbose)
        self._first: tuple[int, float] | None = None  # the report that is counted from
        self._is_judged = False

    def report(self, done: int, total: int) -> None:
        """Report `done` of `total`, and warn once."""
        self(done, total)
        if self._is_judged:
            return
        now = time.perf_counter()
        if self._first is None or done < self._first[0]:
            # What came before, tables of the images, is no time of pairs.
            self._first = done, now
            return
        before, start = self._first
        elapsed = now - start
        if elapsed < MEASURED or done == before:
            return
        self._is_judged = True
        rate = (done - before) / elapsed
        seconds = (total - done) / rate
        if seconds > LONG:
            warn_caller(
                f"`fit` will take some {seconds / 60.0:.0f} minutes for the "
                f"{total} pairs of its samples, at the {rate:.3g} pairs a second of "
                "the first ones. NystromCompletedGP needs the pairs with a few "
                "landmarks only; `cache_dir` keeps what is done if you interrupt.",
                UserWarning,
            )


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
