"""What Python, C++ and the GPU agree on: the one table of operations and their numbers.

native/make_opcodes.py writes it as the C++ header warp/opcodes.hpp, which all C++
includes. A test fails where the two differ.
"""

from enum import IntEnum
from typing import Self

__all__ = [
    "LANES",
    "LARGEST_WIDTH",
    "LARGEST_WINDOW",
    "N_COLUMNS",
    "STAGE_ENDS",
    "WARPS",
    "AxisColumn",
    "Column",
    "Kind",
]


class _Explained(IntEnum):
    """Numbers, each with its meaning in words."""

    meaning: str

    def __new__(cls, number: int, meaning: str) -> Self:
        member = int.__new__(cls, number)
        member._value_ = number
        member.meaning = meaning
        return member


class Kind(_Explained):
    """Operations: they make a row of a map, in place, or take the finished row in."""

    INPUT = 0, "mean over channels of the product of pixels"
    LOAD = 1, "a row of a register"
    STORE = 2, "... to a register"
    ADD = (
        3,
        "plus factor times a row of a register, or, with the flag, factor times the "
        "row plus that of the register",
    )
    LEAKY = 4, "expectation of a piecewise linear activation"
    ERF = 5, "expectation of the error function"
    AFFINE = 6, "times a factor, plus a constant"
    BOX = 7, "windows of stride 1 and dilation 1, by running sums"
    CONV = 8, "any windows, by direct sums"
    SUM = 9, "sum over positions"
    END = 10, "nothing"
    RESULT = 11, "scale times the value, plus an offset"
    DOT = 12, "inner product of whole samples, in the place of INPUT"


# What takes the rows of a map in and ends a stage; the others make rows.
STAGE_ENDS = (Kind.BOX, Kind.CONV, Kind.SUM, Kind.END, Kind.RESULT)


class Column(_Explained):
    """Columns of the codes of a program, one line an operation."""

    KIND = 0, "the operation"
    REG = 1, "register that is read or written"
    FLAG = (
        2,
        "INPUT, DOT: channels; ADD: which one the factor is for; LEAKY: whether the "
        "map is never negative; RESULT: whether to take the last SUM in double "
        "precision",
    )
    ROWS = 3, "first column of the windows along the rows: those of AxisColumn"
    COLS = 9, "... along the columns"
    CIRCULAR = 15, "whether windows wrap around"
    TABLE = 16, "where the numbers of an image begin"
    ROOTS = 17, "numbers of a position: LEAKY: s or (s, 1 / s); ERF: 1; others: 0"
    LOADED = 18, "LOAD, ADD, RESULT: maps that were there before, others are zero"
    MAPS = 19, "value and tangents that are not zero after the operation"


N_COLUMNS = 1 + max(Column)


class AxisColumn(_Explained):
    """Columns of one axis; the window is 0 where an operation has none."""

    SIZE = 0, "of the input"
    WINDOW = 1, "positions of a window"
    BEFORE = 2, "positions before the first"
    STRIDE = 3, "from one window to the next"
    DILATION = 4, "from one position of a window to the next"
    OUTPUTS = 5, "number of windows"


# Of a GPU.
LANES = 32  # of a warp
LARGEST_WIDTH = 4 * LANES  # of a map, in columns: a lane has up to four
LARGEST_WINDOW = 127  # of running sums
WARPS = (2, 2)  # of a block, down and across the pairs
