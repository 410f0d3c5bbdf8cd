"""A progress line on stderr."""

import sys
import time

from skconvgp.estimators._warn import warn_caller

PAIRS, STEPS = "pairs", "steps"  # what most computations count, and searches
FLOW_STEPS = "flow steps"  # of samples that move, which are taken to the last one
INTERVAL = 0.5  # seconds between two lines
MEASURED = 2.0  # seconds after which the speed of the first pairs is that of the others
LONG = 600.0  # seconds of a fit that its caller should know of
# What needs fewer pairs, if all pairs are computed or if only a part of them is.
FEWER_PAIRS = {
    False: "NystromCompletedGP needs the pairs with a few landmarks only; `cache_dir` "
    "keeps what is done if you interrupt.",
    True: "Fewer landmarks, or a smaller share of entries, take less; with a number as "
    "`random_state`, `cache_dir` keeps columns of landmarks if you interrupt.",
}
# What makes steps fewer, or each of them cheaper.
FEWER_STEPS = {
    STEPS: "Learn `kernel_` on a part of the samples, and fit it to all with "
    "optimizer=None.",
    FLOW_STEPS: "A smaller `n_steps` or `batch_size`, or fewer samples, take less.",
}


class ProgressLine:
    """Writes the finished share, the speed and the time left of a computation.

    A repeated computation, such as a product in each step of a solver, is timed again
    each time. The end of a short computation is written the first time only. `label` is
    the name of the computation. If `verbose` is 0, nothing is written. `unit` is that
    of the counts; empty if the speed tells nothing.
    """

    def __init__(self, label: str, verbose: int, unit: str = PAIRS) -> None:
        self._label, self._unit = label, unit
        self._verbose = verbose
        self._start = self._last = time.perf_counter()
        self._end: float | None = None  # time of the previous computation
        self._is_shown = True  # whether this computation has, or should have, a line

    def __call__(self, done: int, total: int) -> None:
        """Report `done` of `total`, at most twice a second; the start has no line."""
        if self._verbose < 1 or not done:
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
        rate = self._rate(done, now)
        left = (total - done) / rate
        speed = f" {rate:.3g} {self._unit}/s," if self._unit else ""
        line = (
            f"{self._label}: {done / total:4.0%},{speed} "
            f"{_clock(now - self._start)} elapsed, {_clock(left)} left"
        )
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[2K{line}" + ("\n" if is_last else ""))
        else:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()

    def _rate(self, done: int, now: float) -> float:
        """Return pairs a second, since the start."""
        return done / max(now - self._start, 1e-9)


class FitLine(ProgressLine):
    """Progress of a fit, whose first line estimates the time of the fit.

    The warning of a long fit is given even if nothing is written. `n_position_pairs` is
    the number of pairs of positions whose covariances a pair of samples needs.
    `n_workers` blocks are in work at the same time: the first one is no measure of
    their speed. Only the cost of the unit "pairs" has a line. `is_part` says that only
    a part of all pairs is computed.
    """

    def __init__(
        self,
        label: str,
        verbose: int,
        n_position_pairs: int = 1,
        n_workers: int = 1,
        *,
        unit: str = PAIRS,
        is_part: bool = False,
    ) -> None:
        super().__init__(label, verbose, unit)
        self._n_position_pairs = n_position_pairs
        self._n_awaited = n_workers  # reports until the speed is known
        self._remedy = FEWER_PAIRS[is_part] if unit == PAIRS else FEWER_STEPS.get(unit)
        self._first = sys.maxsize, 0.0  # the report that is counted from
        self._is_said, self._is_judged = unit != PAIRS, False

    def report(self, done: int, total: int) -> None:
        """Report `done` of `total`; estimate the time of all, and warn once."""
        now = time.perf_counter()
        if done <= self._first[0]:
            # What came before, tables of the images, is no time of pairs.
            self._first = done, now
        else:
            self._n_awaited -= 1
            if not self._is_said and (self._n_awaited <= 0 or done >= total):
                self._is_said = True
                self._say_cost(total, self._rate(done, now))
            self._judge(done, total, now)
        if self._is_said or done >= total:
            self(done, total)

    def _say_cost(self, total: int, rate: float) -> None:
        """Write the time of all pairs, at the speed of the first blocks."""
        if self._verbose < 1:
            return
        cost = f"{total} pairs of samples"
        if self._n_position_pairs > 1:
            cost += f", {self._n_position_pairs} pairs of positions each"
        sys.stderr.write(f"{self._label}: {cost}, about {_clock(total / rate)}\n")

    def _judge(self, done: int, total: int, now: float) -> None:
        """Warn if the fit will take long."""
        is_known = self._n_awaited <= 0 and now - self._first[1] >= MEASURED
        if self._is_judged or not is_known:
            return
        self._is_judged = True
        rate = self._rate(done, now)
        seconds = (total - done) / rate
        if seconds > LONG:
            is_search = self._unit == STEPS  # which may need less
            will = "may take up to" if is_search else "will take some"
            what = "pairs of its samples" if self._unit == PAIRS else self._unit
            remedy = f" {self._remedy}" if self._remedy else ""
            warn_caller(
                f"`fit` {will} {seconds / 60.0:.0f} minutes for the {total} {what}, "
                f"at the speed of the first ones: {rate:.3g} a second.{remedy}",
                UserWarning,
            )

    def _rate(self, done: int, now: float) -> float:
        """Return pairs a second, since the first report, or the start if it is all."""
        before, start = self._first
        if done == before:
            return super()._rate(done, now)
        return (done - before) / max(now - start, 1e-9)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
