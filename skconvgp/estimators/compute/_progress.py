"""How far a call is: its line, and warnings of fits that take long."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from skconvgp._ambient import current_call
from skconvgp._typing import OnStep
from skconvgp.estimators._warn import warn_caller
from skconvgp.estimators.compute._bar import Bar
from skconvgp.processes import PAIRS, Stage

STEPS, EPOCHS = "steps", "epochs"  # what searches and trainings count
FLOW_STEPS = "flow steps"  # of samples that move, which are taken to the last one
SEARCH = "search"  # a stage
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


def progress_of(verbose: int, n_workers: int = 1) -> CallProgress:
    """Return the progress of the call that is made now.

    Its line is that of the outermost call that shows one. A method that calls others of
    the same object is the call. `n_workers` blocks are in work at the same time.
    """
    call = inner = current_call()
    while call is not None and call.progress is None and call.tasks is None:
        call = call.outer
    if call is None and verbose:
        call = inner
        while call and call.outer and call.outer.owner is call.owner is not None:
            call = call.outer
    if call is not None and call.progress is None:
        call.progress = Bar(call, verbose)
        call.push(call.progress.end)
    return CallProgress(None if call is None else call.progress, n_workers)


@dataclass(frozen=True)
class CallProgress:
    """Progress of a call, as a computation tells it."""

    bar: Bar | None  # None shows nothing
    n_workers: int = 1

    def __call__(
        self,
        name: str,
        n_position_pairs: int = 1,
        *,
        unit: str = PAIRS,
        is_part: bool = False,
        is_fit: bool = False,
    ) -> OnStep:
        """Return the callback of a stage; parameters are those of `ShowProgress`."""
        remedy = FEWER_PAIRS[is_part] if unit == PAIRS else FEWER_STEPS.get(unit, "")
        given = self.bar, name, unit, n_position_pairs, self.n_workers
        return Count(*given, remedy, is_judged=is_fit).report

    def expect(self, *stages: Stage) -> None:
        """Tell of all stages to come."""
        if self.bar is not None:
            self.bar.expect(tuple(stage for stage in stages if stage.is_told))

    def enter(self, name: str) -> None:
        """Begin a stage that counts nothing."""
        if self.bar is not None:
            self.bar.enter(name)

    def tell(self, text: str) -> None:
        """Write a line that stays."""
        if self.bar is not None:
            self.bar.tell(text)

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        """Begin a stage, of which all stages inside of the context are parts."""
        bar = self.bar
        is_part = bar is None or bar.enter(name, is_whole=True)
        yield
        if bar is not None and not is_part:
            bar.leave()


class Count:
    """Counts the work of a stage, and warns if a fit will take long.

    The warning is given even if nothing is shown. The first of `n_workers` blocks that
    are in work at the same time is no measure of their speed. `n_position_pairs` is the
    number of pairs of positions whose covariances a pair of samples needs.
    """

    def __init__(
        self,
        bar: Bar | None,
        name: str,
        unit: str = PAIRS,
        n_position_pairs: int = 1,
        n_workers: int = 1,
        remedy: str = "",
        *,
        is_judged: bool = False,
    ) -> None:
        self._bar, self._name, self._unit, self._remedy = bar, name, unit, remedy
        self._each = f" of {n_position_pairs} pairs of positions"
        self._each = self._each if n_position_pairs > 1 else ""
        self._n_awaited = n_workers  # reports until the speed is known
        self._created = time.perf_counter()
        self._first = sys.maxsize, 0.0  # the report that is counted from
        self._is_judged = not is_judged
        self._n_passes = 0

    def report(self, done: int, total: int) -> None:
        """Report `done` of `total`; the first report of a computation begins it."""
        now = time.perf_counter()
        if done <= self._first[0]:
            # What came before, tables of the images, is no time of pairs.
            self._first = done, now
            self._n_passes += 1
            if self._bar is not None:
                self._bar.enter(self._name, is_counted=True)
                if done and self._unit == PAIRS:
                    self._bar.read(done / total)
        else:
            self._n_awaited -= 1
            self._judge(done, total, now)
        if self._bar is not None and done:
            self._tell(self._bar, done, total, now)

    def _tell(self, bar: Bar, done: int, total: int, now: float) -> None:
        """Show how much is done, once the speed is known."""
        first, are_pairs = self._first[0], self._unit == PAIRS
        is_known = done > first and self._n_awaited <= 0
        if are_pairs and not is_known and done < total:
            return
        rate, read = self._rate(done, now), first if are_pairs else 0
        again = f"pass {self._n_passes}, " if self._n_passes > 1 else ""
        bar.count(
            done / total,
            (total - done) / rate,
            read / rate,
            f"{again}{done} of {total} {self._unit}, {rate:.3g}/s{self._each}",
        )

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
            read = self._first[0] if self._unit == PAIRS else 0
            remedy = f" {self._remedy}" if self._remedy else ""
            warn_caller(
                f"`fit` {will} {seconds / 60.0:.0f} minutes for the {total - read} "
                f"{what}, at the speed of the first ones: {rate:.3g} a second.{remedy}",
                UserWarning,
            )

    def _rate(self, done: int, now: float) -> float:
        """Return the speed since the first report, or the start if that was all."""
        before, start = self._first
        if done == before:
            before, start = 0, self._created
        return (done - before) / max(now - start, 1e-9)
