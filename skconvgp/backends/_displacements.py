"""Displacements for which a GPU runs the layers in front of averages over positions.

`warp/displaced.hpp` says how it runs them; the compiled extension works the same out in
`native/module.cpp`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from skconvgp.backends._opcodes import (
    LANES,
    AxisColumn,
    Column,
    Kind,
)
from skconvgp.backends._program import Program

__all__ = ["Passes", "has_pools_apart", "lists_of", "passes_of", "weights_of"]

# Operations between which maps have to be kept as a whole.
ENDS = (Kind.AVERAGE, Kind.POOL)
KEEPING = (Kind.CONV, Kind.STORE, Kind.ADD, Kind.END)
AXES = (Column.ROWS, Column.COLS)


@dataclass(frozen=True)
class Passes:
    """Operations that are run once for each of some displacements."""

    begin: int  # index of the first operation
    end: int  # one behind the last operation, which is an AVERAGE or a POOL
    # Displacements of the last map, ascending. Those of columns are modulo the width if
    # rows are seamed.
    rows: tuple[int, ...] = ()
    cols: tuple[int, ...] = ()
    # Whether lanes without a partner at a displacement hold another one.
    is_seamed: bool = False
    is_streamed: bool = False  # whether no map is kept between the operations
    # For each displacement behind a POOL, from the smallest that is possible on: its
    # number among those of rows (`across`: of columns) of the next operations, or -1.
    down: tuple[int, ...] = ()
    across: tuple[int, ...] = ()

    @property
    def numbers(self) -> tuple[int, ...]:
        """Return all numbers that the kernel reads."""
        return self.rows + self.cols + self.down + self.across


def has_pools_apart(program: Program) -> bool:
    """Return whether windows of pools are side by side on the map, without padding."""
    for index in np.flatnonzero(program.kinds == Kind.POOL).tolist():
        for start in AXES:
            size, window, before, stride, dilation, outputs = _axis(
                program, index, start
            )
            is_inside = before == 0 and (outputs - 1) * stride + window <= size
            if window > stride or dilation > 1 or not is_inside:
                return False
    return True


@lru_cache(maxsize=256)
def passes_of(program: Program) -> tuple[Passes, ...]:
    """Return the passes for displacements; none if no positions are averaged."""
    ends: list[int] = np.flatnonzero(np.isin(program.kinds, ENDS)).tolist()
    if not ends:
        return ()
    wanted = [_averaged(program, ends[-1], start) for start in AXES]
    behind: Passes | None = None
    passes: list[Passes] = []
    for k in reversed(range(len(ends))):
        begin, end = ends[k - 1] + 1 if k else 0, ends[k] + 1
        now = Passes(
            begin,
            end,
            is_seamed=_is_seamed(program, begin, end),
            is_streamed=not np.isin(program.kinds[begin:end], KEEPING).any(),
        )
        if behind is not None:
            outputs = program.of_axes(AxisColumn.OUTPUTS)[end - 1].tolist()
            now = replace(
                now,
                down=_places(wanted[0], outputs[0], is_seamed=False),
                across=_places(wanted[1], outputs[1], is_seamed=behind.is_seamed),
            )
            wanted = [
                _pooled(program, end - 1, *pair)
                for pair in zip(AXES, wanted, strict=True)
            ]
        width = int(program.of_axes(AxisColumn.SIZE)[end - 1, 1])
        cols = wanted[1]
        if now.is_seamed:
            cols = sorted({d % width for d in cols})
        behind = replace(now, rows=tuple(wanted[0]), cols=tuple(cols))
        passes.insert(0, behind)
        steps = program.of_axes(AxisColumn.STRIDE)[begin].tolist()
        wanted = [
            [step * d for d in found] for step, found in zip(steps, wanted, strict=True)
        ]
    return tuple(passes)


def lists_of(program: Program) -> NDArray[np.int32]:
    """Return the numbers of all passes, one after the other."""
    numbers = [number for item in passes_of(program) for number in item.numbers]
    return np.array(numbers, dtype=np.int32)


def weights_of(program: Program) -> NDArray[np.float32]:
    """Return in how many windows of the AVERAGE each pair of positions is.

    For each displacement from the smallest on and each position, along the rows and
    then along the columns. Counts along both multiply.
    """
    last = int(np.flatnonzero(program.kinds == Kind.AVERAGE)[0])
    counts = [_counts(program, last, start).reshape(-1) for start in AXES]
    return np.concatenate(counts).astype(np.float32)


def _counts(program: Program, index: int, start: int) -> NDArray[np.float64]:
    """Return numbers of windows (2 size - 1, size) with positions p and p + d."""
    size, window, before, stride, dilation, outputs = _axis(program, index, start)
    first = np.arange(outputs)[:, None] * stride - before
    positions = first + np.arange(window) * dilation
    is_inside = (positions >= 0) & (positions < size)
    is_in_window = np.zeros((outputs, size))
    is_in_window[np.nonzero(is_inside)[0], positions[is_inside]] = 1.0
    one, two = np.indices((size, size))
    counts = np.zeros((2 * size - 1, size))
    counts[two - one + size - 1, one] = is_in_window.T @ is_in_window
    return counts


def _averaged(program: Program, index: int, start: int) -> list[int]:
    """Return displacements at which a window has a pair of positions."""
    counts = _counts(program, index, start)
    size = counts.shape[1]
    return [int(place) - size + 1 for place in np.flatnonzero(counts.any(1))]


def _pooled(
    program: Program, index: int, start: int, wanted: Iterable[int]
) -> list[int]:
    """Return displacements in front of a pool that contribute to some behind it."""
    size, window, _, stride, *_ = _axis(program, index, start)
    reach = range(1 - window, window)
    found = {stride * d + shift for d in wanted for shift in reach}
    return sorted(d for d in found if abs(d) < size)


def _places(wanted: list[int], size: int, *, is_seamed: bool) -> tuple[int, ...]:
    """Return the number of each displacement among those that are wanted, or -1."""
    keys = {d: d % size if is_seamed else d for d in wanted}
    order = {key: number for number, key in enumerate(sorted(set(keys.values())))}
    return tuple(order[keys[d]] if d in keys else -1 for d in range(1 - size, size))


def _is_seamed(program: Program, begin: int, end: int) -> bool:
    """Say whether rows have room for two displacements: all maps are as wide."""
    width = int(program.of_axes(AxisColumn.SIZE)[end - 1, 1])
    if width > LANES:
        return False
    for index in range(begin, end):
        size, window, _, stride, _, outputs = _axis(program, index, Column.COLS)
        is_kept = outputs == width or program.kinds[index] in ENDS
        if size != width or program.kinds[index] == Kind.CONV:
            return False
        if not (is_kept if window else stride == 1):
            return False
    return True


def _axis(program: Program, index: int, start: int) -> list[int]:
    """Return size, window, padding before, stride, dilation and outputs of windows."""
    numbers: list[int] = program.codes[index, start : start + len(AxisColumn)].tolist()
    return numbers
