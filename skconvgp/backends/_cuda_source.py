"""CUDA source of a lowered network, in which its sizes are compile-time constants.

Hyperparameters are arguments of the kernel, so that networks that differ in these only
run the same code.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from skconvgp.backends._displacements import Passes, lists_of, passes_of
from skconvgp.backends._opcodes import (
    LANES,
    STAGE_ENDS,
    AxisColumn,
    Column,
    Kind,
)
from skconvgp.backends._program import Program

__all__ = ["KERNEL_NAME", "Layout", "cuda_source", "layout_of"]

KERNEL_NAME = "skconvgp_cross"
REGISTERS = 150  # of the 255 of a thread, for maps; larger programs use memory
LARGEST_MEMORY = 2**14  # bytes of a lane, for maps behind pools of several pairs
ROWS_IN_WORK = 6  # that a displaced map takes besides those under windows
PAIRS = ((2, 2), (2, 1), (1, 1))  # images of each side of a warp: the first that fit
# Parts of the source, in an order in which each follows those that it includes.
LIBRARY = (
    *("opcodes.hpp", "coefficients.hpp", "lanes.hpp", "warp.hpp"),
    "displaced.hpp",
)


@dataclass(frozen=True)
class Layout:
    """How a warp holds the maps of a program."""

    # Number of images of each side, all pairs of which a warp computes at once.
    pairs: tuple[int, int]
    n_parts: int  # columns of a map that each lane holds
    n_rows: int  # rows of the highest map
    n_window: int  # rows of the highest window of running sums
    has_windows: bool  # whether there are windows by direct sums
    in_registers: bool  # whether all maps fit into registers
    n_bytes: int  # that a lane holds


@lru_cache(maxsize=256)
def layout_of(program: Program, *, is_double: bool) -> Layout:
    """Return the layout of a program for maps of single or double precision."""
    sizes, outputs = map(program.of_axes, (AxisColumn.SIZE, AxisColumn.OUTPUTS))
    # The windows of an average are counted, and not computed.
    outputs = np.where((program.kinds == Kind.AVERAGE)[:, None], 0, outputs)
    n_rows, n_columns = np.maximum(sizes.max(0), outputs.max(0)).tolist()
    windows = program.of_axes(AxisColumn.WINDOW)[program.kinds == Kind.BOX]
    n_window = int(windows[:, 0].max(initial=1))
    has_windows = bool((program.kinds == Kind.CONV).any())
    n_parts = -(-n_columns // LANES)
    n_bytes_each = (1 + program.n_tangents) * n_parts * (8 if is_double else 4)
    passes = passes_of(program)
    if passes:
        n_streamed = max(_n_stages(program, item) for item in passes)
        n_held = n_streamed * (n_window - 1) + ROWS_IN_WORK
        n_kept = _n_level_rows(program, passes) + (n_rows if has_windows else 0)
        if len(passes) > 1 or not all(item.is_streamed for item in passes):
            n_kept += program.n_registers * n_rows
        held, n_bytes = n_bytes_each // 4 * n_held, n_bytes_each * n_kept
        pairs = _fitting(held, n_bytes)
        if held * pairs[0] * pairs[1] > REGISTERS:
            n_bytes += n_bytes_each * n_held
        return Layout(
            *(pairs, n_parts, n_rows, n_window, has_windows),
            in_registers=n_bytes == 0,
            n_bytes=n_bytes * pairs[0] * pairs[1],
        )
    # Rows of the registers and under the window, the row in work, and the sum.
    n_rows_held = program.n_registers * n_rows + n_window + 2
    held = n_bytes_each // 4 * n_rows_held
    pairs = _fitting(held)
    fits = held * pairs[0] * pairs[1] <= REGISTERS
    if has_windows:  # direct sums need the whole map before the first window
        held += held // n_rows_held * n_rows
    n_bytes = 4 * held * pairs[0] * pairs[1]
    return Layout(pairs, n_parts, n_rows, n_window, has_windows, fits, n_bytes)


def _fitting(held: int, n_bytes: int = 0) -> tuple[int, int]:
    """Return the pairs of a warp whose registers and memory suffice, or one."""
    fitting = [
        (n_one, n_two)
        for n_one, n_two in PAIRS
        if held * n_one * n_two <= REGISTERS
        and n_bytes * n_one * n_two <= LARGEST_MEMORY
    ]
    return fitting[0] if fitting else PAIRS[-1]


def _n_stages(program: Program, passes: Passes) -> int:
    """Return through how many stages a row goes at once."""
    if not passes.is_streamed:
        return 1
    return int(np.isin(program.kinds[passes.begin : passes.end], STAGE_ENDS).sum())


def _n_level_rows(program: Program, passes: tuple[Passes, ...]) -> int:
    """Return rows of the maps behind all pools, with two rows of displacements."""
    outputs = program.of_axes(AxisColumn.OUTPUTS)[:, 0]
    pairs = pairwise(passes)
    return sum(2 * len(two.cols) * int(outputs[one.end - 1]) for one, two in pairs)


def _passes(program: Program) -> list[str]:
    """Return passes as initialisers of the struct of displaced.hpp."""
    items = passes_of(program)
    outputs = program.of_axes(AxisColumn.OUTPUTS)[:, 0]
    lists, level = 0, 0
    found: list[str] = []
    for number, item in enumerate(items):
        n_next = len(items[number + 1].cols) if number + 1 < len(items) else 0
        sizes = len(item.rows), len(item.cols), int(item.is_seamed)
        code = item.begin, item.end, *sizes, lists, level, n_next
        found.append(f"{{{', '.join(map(str, code))}}}")
        lists += len(item.numbers)
        level += 2 * n_next * int(outputs[item.end - 1]) * (1 + program.n_tangents)
    return found or ["{}"]


@lru_cache(maxsize=256)
def cuda_source(program: Program, *, is_double: bool) -> str:
    """Return the source of the kernel of a program."""
    layout = layout_of(program, is_double=is_double)
    segments, passes = _segments(program), passes_of(program)
    n_maps = 1 + program.n_tangents
    width = n_maps * layout.pairs[0] * layout.pairs[1] * layout.n_parts
    lists = lists_of(program).tolist()
    pools = program.of_axes(AxisColumn.WINDOW)[program.kinds == Kind.POOL]
    constants = {
        "n_maps": n_maps,
        "n_registers": max(program.n_registers, 1),
        "n_rows": layout.n_rows,
        "n_window": layout.n_window,
        "has_windows": int(layout.has_windows),
        "is_ntk": int(program.is_ntk),
        "PX": layout.pairs[0],
        "PY": layout.pairs[1],
        "PARTS": layout.n_parts,
        "n_ops": len(program.codes),
        "n_segments": len(segments),
        "n_passes": len(passes),
        "n_streamed": max((_n_stages(program, item) for item in passes), default=1),
        "n_levels": _n_level_rows(program, passes) * width,
        "n_pool_window": int(pools[:, 1].max(initial=1)),
    }
    library = map(_source, LIBRARY)
    is_unrolled = layout.in_registers and not passes
    unroll = "unroll" if is_unrolled else "unroll 1"
    code = [
        f"typedef {'double' if is_double else 'float'} Number;",
        "namespace skconvgp { namespace warp {",
        "struct Segment { int first, n_ops, times, table_step; };",
        "struct Code {",
        *(f"static constexpr int {name} = {n};" for name, n in constants.items()),
        f"static constexpr Op ops[] = {{{', '.join(_ops(program))}}};",
        f"static constexpr Segment segments[] = {{{', '.join(segments)}}};",
        f"static constexpr Passes passes[] = {{{', '.join(_passes(program))}}};",
        "}; } }",
        f"__constant__ int skconvgp_lists[] = {{{', '.join(map(str, lists)) or 0}}};",
    ]
    head = f'#define SKCONVGP_UNROLL_ROWS _Pragma("{unroll}")'
    return "\n".join([head, *library, *code, _source("cuda.hpp")])


@lru_cache
def _source(name: str) -> str:
    """Return a source file without its includes, since the files are concatenated."""
    text = files("skconvgp.backends").joinpath("warp", name).read_text("utf-8")
    return "\n".join(
        line
        for line in text.splitlines()
        if not line.startswith(("#include", "#pragma once"))
    )


def _ops(program: Program) -> list[str]:
    """Return the operations as initialisers of the struct of warp.hpp."""
    ops = []
    lines = zip(program.codes.tolist(), program.slopes.tolist(), strict=True)
    for index, (codes, slopes) in enumerate(lines):
        parts = (
            codes[: Column.ROWS],
            codes[Column.ROWS : Column.COLS],
            codes[Column.COLS : Column.CIRCULAR],
            [*codes[Column.CIRCULAR :], *slopes, index],
        )
        start, rows, cols, end = (", ".join(map(str, part)) for part in parts)
        ops.append(f"{{{start}, {{{rows}}}, {{{cols}}}, {end}}}")
    return ops


def _segments(program: Program) -> list[str]:
    """Divide the stages into segments that are repeated, so that less is compiled.

    Repetitions differ in the start of their tables only. A segment is written as its
    first operation, the number of operations, the number of repetitions, and the
    distance between the tables of one repetition and the next.
    """
    stages = _stages(program)
    n = len(stages)
    # From the last stage back: the fewest stages to compile from stage i on.
    costs, runs = [0] * (n + 1), [(0, 0, 0)] * n
    for i in reversed(range(n)):
        choices = [
            (length + costs[i + length * times], length, times, step)
            for length in range(1, 1 + n - i)
            for times, step in _repetitions(stages[i:], length)
        ]
        costs[i], *run = min(choices)
        runs[i] = (run[0], run[1], run[2])
    segments, i = [], 0
    while i < n:
        length, times, step = runs[i]
        n_ops = sum(stage.n_ops for stage in stages[i : i + length])
        segments.append(f"{{{stages[i].first}, {n_ops}, {times}, {step}}}")
        i += length * times
    return segments


class _Stage(NamedTuple):
    first: int  # index of its first operation
    n_ops: int
    code: bytes  # codes and slopes, with starts of tables relative to `table`
    table: int  # start of its first table; negative if it has none


def _stages(program: Program) -> list[_Stage]:
    codes = program.codes
    tables = np.where(codes[:, Column.ROOTS] > 0, codes[:, Column.TABLE], -1)
    ends = np.flatnonzero(np.isin(program.kinds, STAGE_ENDS)) + 1
    stages = []
    for first, stop in zip([0, *ends[:-1]], ends, strict=True):
        stage_codes = codes[first:stop].copy()
        starts = tables[first:stop]
        table = int(min(starts[starts >= 0], default=-1))
        stage_codes[:, Column.TABLE] = np.where(starts >= 0, starts - table, -1)
        code = stage_codes.tobytes() + program.slopes[first:stop].tobytes()
        stages.append(_Stage(int(first), int(stop - first), code, table))
    return stages


def _repetitions(stages: list[_Stage], length: int) -> Iterator[tuple[int, int]]:
    """Yield numbers of repetitions of the first stages, with the distance of tables."""
    yield 1, 0
    step = None
    for times in range(1, len(stages) // length):
        for one, two in zip(stages[:length], stages[times * length :], strict=False):
            if one.code != two.code:
                return
            if one.table >= 0:
                step = two.table - one.table if step is None else step
                if two.table - one.table != times * step:
                    return
        yield times + 1, step or 0
