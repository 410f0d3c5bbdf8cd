"""The line of a call on stderr, and the estimated seconds of its stages."""

from __future__ import annotations

import shutil
import sys
import time

import torch

from skconvgp._ambient import Call
from skconvgp.estimators.compute._rates import HOST, speed_of_products
from skconvgp.processes import FLOPS, Stage

# Seconds between two lines: on a terminal, and elsewhere at first. There they become
# rarer, so that a log of hours is short.
ON_TERMINAL, INTERVAL = 0.2, 2.0
RARER = 0.05  # of the seconds since the call began
MOST = 0.99  # share that is shown before the end


class Timetable:
    """Estimated seconds of the stages of a call.

    A stage takes as long as its unit has taken in the call so far. Before that, a
    product of matrices tells the speed of algebra, and other stages count nothing.
    """

    def __init__(self) -> None:
        self.plan: list[Stage] = []  # stages to come
        self.stage: Stage | None = None  # the stage that has begun
        self.counted: float | None = None  # seconds left of it, if it tells its speed
        self._since = 0.0  # when it began
        self._has_parts = False
        # By unit, amounts and seconds of stages that have ended.
        self._taken: dict[str, tuple[float, float]] = {}

    def begin(self, name: str, now: float, *, has_parts: bool = False) -> None:
        """Begin a stage; those that were planned before it will not come.

        If it has parts, what they count is less than the stage.
        """
        self._has_parts = has_parts
        names = [stage.name for stage in self.plan]
        self.stage, self._since, self.counted = Stage(name), now, None
        if name in names:
            self.stage = self.plan[names.index(name)]
            del self.plan[: names.index(name) + 1]

    def end(self, now: float) -> None:
        """End the stage, whose time tells that of others of its unit."""
        if self.stage is not None and self.stage.amount:
            amount, seconds = self._taken.get(self.stage.unit, (0.0, 0.0))
            amount, seconds = amount + self.stage.amount, seconds + now - self._since
            self._taken[self.stage.unit] = amount, seconds
        self.stage = self.counted = None

    def left(self, now: float) -> float:
        """Return the seconds that are left of the stage."""
        if self.stage is None:
            return 0.0
        if self.counted is not None and not self._has_parts:
            return self.counted
        estimated = self._seconds(self.stage, *self._speed(self.stage.unit))
        return max(estimated + self._since - now, self.counted or 0.0)

    def to_come(self, now: float) -> float:
        """Return the seconds of the stages to come."""
        total = 0.0
        for stage in self.plan:
            amount, seconds = self._speed(stage.unit)
            one = self.stage
            if one is not None and one.unit == stage.unit and self.counted is not None:
                amount += one.amount
                seconds += now - self._since + self.counted
            total += self._seconds(stage, amount, seconds)
        return total

    def _speed(self, unit: str) -> tuple[float, float]:
        """Return an amount of a unit and the seconds it takes; zeros if unknown."""
        if unit == FLOPS and unit not in self._taken:
            self._taken[unit] = speed_of_products(torch.float64, HOST)
        return self._taken.get(unit, (0.0, 0.0))

    def _seconds(self, stage: Stage, amount: float, seconds: float) -> float:
        return stage.amount * seconds / amount if amount else 0.0


class Bar:
    """The line of a call, which tells callbacks of stages, too.

    Its share is that of the estimated seconds, and never goes back.
    """

    def __init__(self, call: Call, verbose: int) -> None:
        self._call, self._is_shown = call, verbose > 0
        self._begun = self._written = time.perf_counter()
        self._times = Timetable()
        self._share = 0.0
        self._part: str | None = None  # of a stage that has parts; None: it has none
        # Seconds that pairs would have taken that were read from files: those of the
        # stage, and those of stages before.
        self._saved, self._saved_before = 0.0, 0.0
        self._note = ""  # about what was read
        self._has_begun = False

    @property
    def _stage(self) -> str:
        return "" if self._times.stage is None else self._times.stage.name

    def expect(self, stages: tuple[Stage, ...]) -> None:
        """Tell of all stages to come; what a part of a stage expects does not count."""
        if self._part is not None:
            return
        self._times.plan = list(stages)
        if self._call.tasks is not None:
            self._call.tasks.begin(len(stages))

    def enter(
        self, name: str, *, is_whole: bool = False, is_counted: bool = False
    ) -> bool:
        """Begin a stage, and end the one before; or begin a part of a stage.

        A stage that is whole has parts. One that is counted shows itself. Return
        whether it is a part.
        """
        is_part = self._part is not None
        if is_part:
            self._part, self._times.counted = name, None
        elif not (is_counted and name == self._stage):  # which goes on
            self.leave()
            self._times.begin(name, time.perf_counter(), has_parts=is_whole)
            self._has_begun = True
            self._part = "" if is_whole else None
            if self._call.tasks is not None:
                self._call.tasks.enter(name)
        if not is_counted:
            self._show("")
        return is_part

    def leave(self) -> None:
        """End a stage."""
        if self._times.stage is not None and self._call.tasks is not None:
            self._call.tasks.leave()
        self._times.end(time.perf_counter())
        self._saved_before += self._saved
        self._part, self._saved = None, 0.0

    def read(self, share: float) -> None:
        """Tell of a share of the pairs that was read from files."""
        self._note = f", {share:.0%} of pairs read from cache_dir"

    def count(self, share: float, left: float, saved: float, detail: str) -> None:
        """Tell how much of a stage is done, and the seconds that are left for it.

        Of what is done, `saved` seconds are those of pairs that were read. The detail
        is what was counted.
        """
        self._times.counted = left
        if self._part is None:
            self._saved = saved
            if self._call.tasks is not None:
                self._call.tasks.count(share)
        self._show(detail)

    def tell(self, text: str) -> None:
        """Write a line that stays."""
        if not self._is_shown:
            return
        self._write(text)
        if sys.stderr.isatty():
            sys.stderr.write("\n")

    def end(self, kind: object, *_: object) -> bool:
        """End the line, with the call or where an error has ended that."""
        is_written = self._has_begun and self._is_shown
        if kind is None:
            self.leave()
            if is_written:
                elapsed = _clock(time.perf_counter() - self._begun)
                self._write(f"100%, {elapsed} elapsed{self._note}")
        if is_written and sys.stderr.isatty():
            sys.stderr.write("\n")
        return False

    def _show(self, detail: str) -> None:
        """Write the line, if the last one is old enough or a long stage begins."""
        if not self._is_shown:
            return
        now, interval = time.perf_counter(), self._interval()
        of_stage = self._times.left(now)
        is_silent = not detail and of_stage > interval
        if now - self._written < interval and not is_silent:
            return
        left, elapsed = of_stage + self._times.to_come(now), now - self._begun
        done = self._saved_before + self._saved + elapsed
        share = min(MOST, done / max(done + left, 1e-9))
        self._written, self._share = now, max(self._share, share)
        stage = ", ".join(filter(None, (self._stage, self._part, detail)))
        self._write(
            f"{int(100 * self._share):3d}%, {_clock(elapsed)} elapsed, "
            f"about {_clock(left)} left{self._note}: {stage}"
        )

    def _write(self, text: str) -> None:
        line = f"{self._call.name}: {text}"
        if sys.stderr.isatty():
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write(f"\r\x1b[2K{line[:width]}")
        else:
            sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

    def _interval(self) -> float:
        """Return the seconds that lie between two lines."""
        if sys.stderr.isatty():
            return ON_TERMINAL
        return max(INTERVAL, RARER * (self._written - self._begun))


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
