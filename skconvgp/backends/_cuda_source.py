"""CUDA source of a lowered network: its sizes are constants of the compiler.

Hyperparameters are not: a network with other ones runs the same code.
"""

from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from skconvgp.backends._program import Kind, Program

__all__ = ["KERNEL_NAME", "Layout", "cuda_source", "layout_of"]

KERNEL_NAME = "skconvgp_cross"
LANES = 32
REGISTERS = 176  # of the 255 of a thread, for maps; what is more lies in memory
PAIRS = ((2, 2), (2, 1), (1, 1))  # of a warp: the first that fit
SOURCES = ("coefficients.hpp", "lanes.hpp", "warp.hpp", "cuda.hpp")

Stages = list[tuple[int, int]]


@dataclass(frozen=True)
class Layout:
    """How a warp holds the maps of a program.

    Parameters
    ----------
    pairs : (int, int)
        Images of each side whose pairs a warp holds.
    n_parts : int
        Columns of a lane.
    n_rows : int
        Rows of the highest map.
    n_window : int
        Rows of the highest window of running sums.
    has_windows : bool
        Whether there are windows of other kinds.
    in_registers : bool
        Whether all maps fit into registers.
    """

    pairs: tuple[int, int]
    n_parts: int
    n_rows: int
    n_window: int
    has_windows: bool
    in_registers: bool


def layout_of(program: Program, *, is_double: bool) -> Layout:
    """Return the layout of a program for numbers of single or double precision."""
    codes = program.codes
    sizes, outputs = codes[:, [3, 9]], codes[:, [8, 14]]
    n_rows, n_columns = np.maximum(sizes.max(0), outputs.max(0)).tolist()
    n_window = int(max(codes[codes[:, 0] == Kind.BOX, 4], default=1))
    has_windows = bool((codes[:, 0] == Kind.CONV).any())
    n_parts = -(-n_columns // LANES)
    n_rows_held = (program.n_registers + has_windows) * n_rows + n_window + 2
    held = (1 + program.n_tangents) * n_parts * n_rows_held * (2 if is_double else 1)
    fitting = [pairs for pairs in PAIRS if held * pairs[0] * pairs[1] <= REGISTERS]
    pairs = fitting[0] if fitting else PAIRS[-1]
    return Layout(pairs, n_parts, n_rows, n_window, has_windows, bool(fitting))


def cuda_source(program: Program, *, is_double: bool) -> str:
    """Return the source of the kernel of a program."""
    layout = layout_of(program, is_double=is_double)
    segments = _segments(program.codes)
    constants = {
        "n_maps": 1 + program.n_tangents,
        "n_registers": max(program.n_registers, 1),
        "n_rows": layout.n_rows,
        "n_window": layout.n_window,
        "has_windows": int(layout.has_windows),
        "PX": layout.pairs[0],
        "PY": layout.pairs[1],
        "PARTS": layout.n_parts,
        "n_ops": len(program.codes),
        "n_segments": len(segments),
    }
    coefficients, lanes, warp, cuda = (_source(name) for name in SOURCES)
    unroll = "unroll" if layout.in_registers else "unroll 1"
    code = [
        f"typedef {'double' if is_double else 'float'} Number;",
        "namespace skconvgp { namespace warp {",
        "struct Segment { int first, n_ops, times, table_step; };",
        "struct Code {",
        *(f"static constexpr int {name} = {n};" for name, n in constants.items()),
        f"static constexpr Op ops[] = {{{', '.join(_ops(program))}}};",
        f"static constexpr Segment segments[] = {{{', '.join(segments)}}};",
        "}; } }",
    ]
    head = f'#define SKCONVGP_UNROLL_ROWS _Pragma("{unroll}")'
    return "\n".join([head, coefficients, lanes, warp, *code, cuda])


@lru_cache
def _source(name: str) -> str:
    """Return a file without what puts files together."""
    text = files("skconvgp.backends").joinpath("warp", name).read_text("utf-8")
    return "\n".join(
        line
        for line in text.splitlines()
        if not line.startswith(("#include", "#pragma once"))
    )


def _ops(program: Program) -> list[str]:
    ops = []
    lines = zip(program.codes.tolist(), program.slopes.tolist(), strict=True)
    for place, (codes, slopes) in enumerate(lines):
        rows, cols = (", ".join(map(str, codes[i : i + 6])) for i in (3, 9))
        start = ", ".join(map(str, codes[:3]))
        rest = ", ".join(map(str, [*codes[15:], *slopes, place]))
        ops.append(f"{{{start}, {{{rows}}}, {{{cols}}}, {rest}}}")
    return ops


def _segments(codes: NDArray[np.int32]) -> list[str]:
    """Find stages that are repeated with other tables only: they need one code.

    Each is given by its first operation, the number of operations, how often they run,
    and the distance of tables from one time to the next.
    """
    stages = _stages(codes)
    found, i = [], 0
    while i < len(stages):
        lengths = range(1, 1 + (len(stages) - i) // 2)
        runs = [(1, 1, 0)]
        runs += [(n, *_repeats(codes, stages[i:], n)) for n in lengths]
        length, times, step = max(
            runs, key=lambda run: run[0] * run[1] if run[1] > 1 else 1
        )
        first, stop = stages[i][0], stages[i + length - 1][1]
        found.append(f"{{{first}, {stop - first}, {times}, {step}}}")
        i += length * times
    return found


def _stages(codes: NDArray[np.int32]) -> Stages:
    """Return the first operation of each stage, and the one after its last."""
    kinds = codes[:, 0]
    ends = np.flatnonzero((kinds >= Kind.BOX) & (kinds != Kind.DOT)) + 1
    return list(zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True))


def _repeats(codes: NDArray[np.int32], stages: Stages, length: int) -> tuple[int, int]:
    """Return how often the first stages follow each other, and the step of tables."""
    tables, others = codes[:, 16], np.delete(codes, 16, axis=1)
    start, stop = stages[0][0], stages[length - 1][1]
    n_ops, times, step = stop - start, 1, 0
    while length * (times + 1) <= len(stages):
        here = slice(start + times * n_ops, stop + times * n_ops)
        if not np.array_equal(others[here], others[start:stop]):
            break
        distances = (tables[here] - tables[start:stop]) // times
        step = step or int(distances[0])
        if (distances != step).any():
            break
        times += 1
    return times, step
