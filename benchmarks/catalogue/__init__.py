"""What the sources report, and how ours is measured: entries in files beside this one.

An entry is a table or a figure with numbers of a source. It has commands of questions,
`small` and `source`, which measure ours, and names of rows in a file of results. Each
figure of an entry says which rows and which of their values are ours, and has the
number that is reported, or the rows of another method that it is said to be better
`than`. The verdict follows from these numbers alone. A figure with neither answers a
question that the source leaves open.
"""

import shlex
import statistics
import subprocess
import sys
import time
import tomllib
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.report import FOLDER, RESULTS, Figures, read, select, write

SCALES = ("small", "source")
BEATEN, REPEATED, WORSE = "beaten", "repeated", "worse"
ANSWERED = "answered"  # there is no other number
NO_DATA, NO_ROWS = "no data", "not measured"
VERDICTS = (BEATEN, REPEATED, WORSE, ANSWERED, NO_ROWS, NO_DATA)
# Rows of the scale "small", and which commands are done.
KEPT = FOLDER.parent / "build" / "catalogue"


@dataclass(frozen=True)
class Compared:
    """A reported figure beside ours."""

    what: str
    # Of another method of ours, if a claim compares the two; None of an open question.
    reported: float | None
    ours: float | None
    seconds: float | None
    verdict: str
    why: str = ""  # of what is worse


@dataclass(frozen=True)
class Entry:
    """A table or a figure of a source."""

    title: str  # of the source
    told: Figures  # as in the file

    @property
    def name(self) -> str:
        """Name by which it is run."""
        return str(self.told["id"])

    def command(self, scale: str) -> list[str]:
        """Return the question and its options."""
        return shlex.split(self.told[scale])

    def figures(self) -> list[Compared]:
        """Return the reported figures beside those of the committed rows."""
        found = []
        for figure in self.told["figures"]:
            told = self.told | figure
            found.append(compare(told, read(RESULTS / f"{told['results']}.json")))
        return found

    def summary(self) -> str:
        """Return how many figures have each verdict."""
        found = Counter(one.verdict for one in self.figures())
        return ", ".join(f"{found[one]} {one}" for one in VERDICTS if found[one])


@cache
def entries() -> dict[str, Entry]:
    """Return all entries by name, source by source."""
    found = {}
    for path in sorted(Path(__file__).parent.glob("*.toml")):
        file = tomllib.loads(path.read_text(encoding="utf-8"))
        for told in file["entries"]:
            found[told["id"]] = Entry(file["title"], told)
    return found


def compare(told: Figures, file: Figures) -> Compared:
    """Return a figure, whose settings are those of its entry and its own."""
    what, reported = told["what"], told.get("reported")
    if "value" not in told:
        return Compared(what, reported, None, None, NO_DATA, told["missing"])
    ours, seconds = measured(told, "where", file), None
    if "than" in told:
        reported = measured(told, "than", file)
    is_open = "reported" not in told and "than" not in told
    if ours is None or (reported is None and not is_open):
        return Compared(what, reported, ours, None, NO_ROWS)
    if "seconds" in told:
        value = {"value": told["seconds"], "times": 1.0, "stat": "mean"}
        seconds = measured(told | value, "where", file)
    verdict = ANSWERED if reported is None else judge(told, ours, reported)
    why = told.get("why", "") if verdict == WORSE else ""
    return Compared(what, reported, ours, seconds, verdict, why)


def judge(told: Figures, ours: float, reported: float) -> str:
    """Return the verdict; what is as near as the entry says is repeated.

    A claim that one method is better than another is repeated or not.
    """
    gain = ours - reported if told.get("better") != "smaller" else reported - ours
    if "than" in told:
        return REPEATED if gain > told["near"] else WORSE
    # Numbers in decimals: their differences are rounded.
    if abs(gain) <= told["near"] + 1e-9:
        return REPEATED
    return BEATEN if gain > 0.0 else WORSE


def measured(told: Figures, where: str, file: Figures) -> float | None:
    """Return a statistic of a value over the rows of a place; None without rows."""
    rows = at(file, told["rows"]) or []
    wanted = told.get("where_rows", {}) | told.get(where, {})
    names = told["value"] if isinstance(told["value"], list) else [told["value"]]
    found = []
    for row in select(rows, **wanted):
        values = [at(row, name) for name in names]
        if None not in values:
            found.append(sum(values) * told.get("times", 1.0))
    statistic = {"mean": statistics.fmean, "min": min, "max": max}
    return statistic[told.get("stat", "mean")](found) if found else None


def at(values: Any, path: str) -> Any:
    """Return what lies at a path of names and places, with dots; None if nothing."""
    for name in path.split("."):
        if isinstance(values, list):
            values = values[int(name)]
        elif values is not None:
            values = values.get(name)
    return values


def show_list() -> None:
    """Print the name, the place and the verdicts of each entry."""
    for name, entry in entries().items():
        print(f"{name:<24}{entry.title}, {entry.told['place']}: {entry.summary()}")


def run(names: list[str], scale: str, *, again: bool = False) -> None:
    """Measure entries, one after the other; those that are done are left out.

    Rows of the scale "source" replace committed ones; others are kept beside the build.
    """
    done = read(KEPT / "done.json")
    KEPT.mkdir(parents=True, exist_ok=True)
    for name in names:
        command = entries()[name].command(scale)
        told = shlex.join(command)
        print(f"\n{name}: python -m benchmarks {told}", flush=True)
        if told in done and not again:
            print(f"is done, in {done[told]:.0f} s")
            continue
        if scale == "small":
            command += ["--output", str(KEPT / f"{command[0]}.json")]
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "benchmarks", *command], check=True)
        done[told] = time.perf_counter() - start
        write(KEPT / "done.json", done)
    for name in names:
        show(entries()[name])


def show(entry: Entry) -> None:
    """Print the figures of an entry, of committed rows."""
    print(f"\n{entry.title}, {entry.told['place']}: {entry.told['what']}")
    print(f"{'':<64}{'reported':>12}{'ours':>12}  verdict")
    for one in entry.figures():
        cells = (number(one.reported), number(one.ours))
        print(f"{one.what:<64}{cells[0]:>12}{cells[1]:>12}  {one.verdict}")


def number(value: float | None) -> str:
    """Return a number as text, to four digits."""
    return "" if value is None else f"{value:.4g}"
