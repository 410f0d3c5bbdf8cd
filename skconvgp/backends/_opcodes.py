"""The table of operations, and their numbers, for Python, C++ and the GPU.

native/make_opcodes.py writes it as the C++ header warp/opcodes.hpp, which all C++
includes. A test fails if the two differ.
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
    """Integers, each with its meaning in words."""

    meaning: str

    def __new__(cls, number: int, meaning: str) -> Self:
        member = int.__new__(cls, number)
        member._value_ = number
        member.meaning = meaning
        return member


class Kind(_Explained):
    """Operations that make a row of a map, change it, or consume the finished row."""

    INPUT = 0, "make a row: mean over channels of the product of pixels"
    LOAD = 1, "make a row: that of the map in a register"
    STORE = 2, "copy the row to a register"
    ADD = (
        3,
        "add factor times the row of a register; with the flag, multiply the row by "
        "the factor and add the row of the register",
    )
    LEAKY = 4, "replace by the expectation of a piecewise linear activation"
    ERF = 5, "replace by the expectation of the error function"
    AFFINE = 6, "multiply by a factor, then add a constant"
    BOX = 7, "consume: windows of stride 1 and dilation 1, by running sums"
    CONV = 8, "consume: any windows, by direct sums"
    SUM = 9, "consume: sum over positions"
    END = 10, "consume: end the stage, nothing else"
    RESULT = 11, "consume: scale times the value, plus an offset"
    DOT = 12, "make a row: inner product of whole samples, instead of INPUT"
    AVERAGE = (
        13,
        "consume: sum over pairs of positions of two images, each as often as windows "
        "have both",
    )
    POOL = (
        14,
        "consume: add to windows of the map behind it, each pair of positions to the "
        "pairs of windows that have it",
    )
    JOIN = (
        15,
        "tangent kernel, whose part behind an affine layer that is not the covariance "
        "is the second map: add the first map to the second one",
    )


# Operations that consume the rows of a map, and so end a stage.
STAGE_ENDS = (
    Kind.BOX,
    Kind.CONV,
    Kind.SUM,
    Kind.END,
    Kind.RESULT,
    Kind.AVERAGE,
    Kind.POOL,
)


class Column(_Explained):
    """Columns of the codes of a program, which have a row for each operation."""

    KIND = 0, "the operation"
    REG = 1, "register that is read or written"
    FLAG = (
        2,
        "INPUT, DOT: number of channels; ADD: whether the factor is for the row; "
        "LEAKY: whether the map is never negative; RESULT: whether to use the last SUM "
        "or AVERAGE in double precision",
    )
    ROWS = 3, "first column of the windows along the rows: those of AxisColumn"
    COLS = 9, "first column of the windows along the columns"
    CIRCULAR = 15, "whether windows wrap around"
    TABLE = 16, "start of the values of the operation in the table of an image"
    ROOTS = (
        17,
        "values of a position that lie side by side: LEAKY: s or (s, 1 / s); ERF: 1; "
        "INPUT: all channels, or 0: planes; others: 0",
    )
    LOADED = 18, "LOAD, ADD, RESULT: number of maps read that are not zero"
    MAPS = 19, "number of maps (value, tangents) that are not zero afterwards"


N_COLUMNS = 1 + max(Column)


class AxisColumn(_Explained):
    """Columns of one axis; WINDOW is 0 if an operation has no windows.

    An AVERAGE and all operations before it are computed on maps of the covariances of
    positions p and p + d, for one displacement d after the other. Each POOL ends a
    segment of operations with the same displacements.
    """

    SIZE = 0, "size of the input"
    WINDOW = 1, "number of positions of a window"
    BEFORE = 2, "number of positions of padding before the input"
    STRIDE = (
        3,
        "distance from one window to the next; before an AVERAGE, without windows: "
        "displacement of the map for each position by which the map at the end of the "
        "segment is displaced",
    )
    DILATION = 4, "distance from one position of a window to the next"
    OUTPUTS = 5, "number of windows"


# Sizes of the kernels for GPUs:
LANES = 32  # of a warp
LARGEST_WIDTH = 4 * LANES  # of a map, in columns: a lane has up to four
LARGEST_WINDOW = 127  # of running sums
WARPS = (2, 2)  # of a block of threads, down and across the pairs
