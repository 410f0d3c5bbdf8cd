"""Two models on the same draws: the mean of their differences, and its error."""

import math
import statistics
from typing import NamedTuple

from benchmarks.report import Figures, select

Place = tuple[str, int]  # a set, and a number of training images


class Paired(NamedTuple):
    """What a score of one model is above that of another, over the draws of both."""

    mean: float
    standard_error: float  # NaN of a single draw
    n_draws: int

    @property
    def is_clear(self) -> bool:
        """Whether the mean is more than two standard errors from 0."""
        return abs(self.mean) > 2.0 * self.standard_error


def paired(
    rows: list[Figures], one: str, other: str, score: str
) -> dict[Place, Paired]:
    """Return the differences of a score, one less the other, by set and size.

    A draw counts if both models were judged on the same test images of it: if one has
    predicted the first ones only, then both on these.
    """
    found: dict[Place, list[float]] = {}
    for row in select(rows, model=one):
        place = {name: row[name] for name in ("data", "n_train", "draw")}
        for beside in select(rows, model=other, **place):
            n = min(row["n_test"], beside["n_test"])
            own, peer = _on(row, n), _on(beside, n)
            if score in own and score in peer:
                values = found.setdefault((row["data"], row["n_train"]), [])
                values.append(own[score] - peer[score])
    return {place: _paired(values) for place, values in found.items()}


def _on(row: Figures, n: int) -> Figures:
    """Return the scores on the first n test images, none if they are not known."""
    if row["n_test"] == n:
        return row
    first: Figures = row.get("first", {})
    return first if first.get("n_test") == n else {}


def _paired(values: list[float]) -> Paired:
    error = math.nan
    if len(values) > 1:
        error = statistics.stdev(values) / math.sqrt(len(values))
    return Paired(statistics.fmean(values), error, len(values))


def lost(rows: list[Figures], ours: str, others: list[str], n_train: int) -> list[str]:
    """Return the sets in which another model has clearly fewer errors."""
    names = set()
    for other in others:
        for (data, n), difference in paired(rows, ours, other, "error").items():
            if n == n_train and difference.is_clear and difference.mean > 0.0:
                names.add(data)
    return sorted(names)
