"""A network as the flat program that the fused backends run.

A program is a list of operations that are carried out for one pair of images after the
other, or for as many pairs at once as a vector has lanes. They come in stages. The
first operation of a stage makes the rows of a map one by one, further operations change
the row, and the last one consumes the finished row. A map therefore passes through
memory at most once in a stage.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._ambient import ordinary_torch
from skconvgp._tensors import reals
from skconvgp._typing import FloatArray, ImageShape
from skconvgp.backends._graph import build_graph
from skconvgp.backends._opcodes import N_COLUMNS, AxisColumn, Column, Kind
from skconvgp.backends._schedule import Op, Schedule, schedule_of
from skconvgp.kernels import Kernel
from skconvgp.kernels._checks import plain_value
from skconvgp.kernels._keys import by_settings
from skconvgp.kernels._windows import Axis

__all__ = ["Program", "lower", "lower_with_tangents"]


# Operations that write a register.
STORING = (Kind.STORE, Kind.BOX, Kind.CONV, Kind.SUM, Kind.AVERAGE, Kind.POOL)

# With so many channels, those of a position lie side by side in the tables of the CPU.
MANY_CHANNELS = 8


@dataclass(frozen=True, eq=False)
class Program:
    """A lowered network."""

    # Operations (n_ops, N_COLUMNS) with their registers, windows, tables and maps;
    # `Column` names the columns.
    codes: NDArray[np.int32]
    constants: FloatArray  # (n_ops, 2, 1 + p): summand and factor, with p derivatives
    slopes: FloatArray  # (n_ops, 2): lambda and mu of piecewise linear activations
    n_registers: int  # number of maps that are kept at the same time
    n_pixels: int  # values of an image: channels, rows and columns

    @property
    def n_tangents(self) -> int:
        """Number of derivatives, or 1 for the map of a tangent kernel."""
        return int(self.constants.shape[2]) - 1

    @property
    def is_ntk(self) -> bool:
        """Whether there is a second map, of the tangent kernel."""
        return bool((self.kinds == Kind.JOIN).any())

    @property
    def kinds(self) -> NDArray[np.int32]:
        """Kinds of the operations, (n_ops,)."""
        return self.codes[:, Column.KIND]

    def of_axes(self, column: AxisColumn) -> NDArray[np.int32]:
        """Return a column of the windows along rows and columns, (n_ops, 2)."""
        return self.codes[:, [Column.ROWS + column, Column.COLS + column]]


@by_settings
def lower(kernel: Kernel, image_shape: ImageShape, roots: int = 2) -> Program:
    """Lower a network for images of a shape, for which it was checked.

    `roots` is the number of values for each position in the table of a piecewise linear
    activation: the standard deviation and, with 2, its inverse. With 2 many channels of
    a position lie side by side as well; with 1, planes do. Raises a `NotFusableError`
    that names the part of the kernel that cannot be lowered.
    """
    graph = build_graph(kernel, image_shape)
    schedule = schedule_of(graph)
    constants = _constants(schedule.ops, None)
    if graph.is_ntk:
        constants = _with_second_map(constants, is_rest=graph.is_rest)
    return _assemble(schedule, constants, roots)


def lower_with_tangents(
    kernel: Kernel, image_shape: ImageShape, n_tangents: int, roots: int = 2
) -> tuple[tuple[Program, ...], tuple[int, ...]]:
    """Lower a network with derivatives by its free hyperparameters, `kernel.theta`.

    Returns programs of the values, each with at most `n_tangents` of the derivatives,
    and the index in theta of each derivative. Derivatives are ordered by the operation
    at which they begin, those of the first layers first, since operations before it
    need not carry them. `roots` is as in `lower`.
    """
    with ordinary_torch():
        theta = reals(kernel.theta).requires_grad_(True)
        schedule = schedule_of(build_graph(kernel.with_theta(theta), image_shape))
        constants = _constants(schedule.ops, theta)
    # The first operation with a constant that depends on each hyperparameter. The last
    # operation has the scale of the result, to which any hyperparameter may contribute.
    has_begun = (constants[:-1, :, 1:] != 0.0).any(1)
    begins = np.where(has_begun.any(0), has_begun.argmax(0), len(has_begun))
    order = np.argsort(begins, kind="stable")
    programs = []
    for start in range(0, max(len(order), 1), n_tangents):
        columns = [0, *(1 + order[start : start + n_tangents])]
        programs.append(_assemble(schedule, constants[:, :, columns], roots))
    return tuple(programs), tuple(int(index) for index in order)


def _assemble(schedule: Schedule, constants: FloatArray, roots: int) -> Program:
    codes = np.zeros((len(schedule.ops), N_COLUMNS), dtype=np.int32)
    memory = _tables_and_maps(schedule, constants, roots)
    for code, op, item in zip(codes, schedule.ops, memory, strict=True):
        _write_code(code, op)
        code[[Column.TABLE, Column.ROOTS, Column.LOADED, Column.MAPS]] = item
    return Program(
        codes,
        np.ascontiguousarray(constants),
        np.array([_slopes(op.node.slope) for op in schedule.ops]),
        schedule.n_registers,
        schedule.n_pixels,
    )


def _tables_and_maps(
    schedule: Schedule, constants: FloatArray, roots: int
) -> Iterator[tuple[int, int, int, int]]:
    """Yield start of the table, values of a position, maps read and maps left.

    The tables of an image follow its pixels, of which the second number tells how many
    channels lie side by side. Maps are the value and the derivatives up
    to the last that has begun; the derivatives after that are zero.
    """
    is_ntk = any(op.kind == Kind.JOIN for op in schedule.ops)
    stored = dict.fromkeys(range(schedule.n_registers), 1)
    end, maps, summed = schedule.n_pixels, 1, 1
    for op, op_constants in zip(schedule.ops, constants, strict=True):
        loaded = maps
        if op.kind in (Kind.LOAD, Kind.ADD):
            loaded = stored[op.reg]
        elif op.kind == Kind.RESULT and op.flag:
            loaded = summed
        begun = _maps_begun(op.kind, op_constants)
        maps = max(_maps_read(op.kind, loaded, maps), begun)
        if op.kind in STORING:
            stored[op.reg] = maps
        if op.kind in (Kind.SUM, Kind.AVERAGE):
            summed = maps
        n_values = {Kind.LEAKY: roots, Kind.ERF: 1}.get(op.kind, 0)
        # Displaced maps read tables row by row, and from planes so many rows that they
        # push each other out of the cache.
        is_many = op.flag >= MANY_CHANNELS or (op.flag > 1 and any(op.node.steps))
        is_wide = op.kind == Kind.INPUT and roots == 2 and is_many
        yield end, op.flag if is_wide else n_values, loaded, maps
        if n_values:
            n_tangents = 0 if is_ntk else maps - 1
            end += (n_values + n_tangents) * math.prod(op.node.shape)


def _maps_read(kind: Kind, loaded: int, maps: int) -> int:
    """Return the number of maps that an operation reads."""
    if kind in (Kind.INPUT, Kind.DOT):
        return 1
    if kind == Kind.ADD:
        return max(maps, loaded)
    if kind == Kind.JOIN:
        return 2
    return loaded if kind == Kind.LOAD else maps


def _maps_begun(kind: Kind, constants: FloatArray) -> int:
    """Return the number of maps up to the last derivative of the constants."""
    known = np.flatnonzero((constants[:, 1:] != 0.0).any(0))
    return 2 + int(known[-1]) if len(known) and kind != Kind.RESULT else 1


def _write_code(code: NDArray[np.int32], op: Op) -> None:
    """Write kind, register, flag and windows of an operation into its row of codes."""
    node = op.node
    code[[Column.KIND, Column.REG, Column.FLAG]] = op.kind, op.reg, op.flag
    if op.kind in (Kind.BOX, Kind.CONV, Kind.AVERAGE, Kind.POOL):
        code[Column.CIRCULAR] = node.axes[0].is_circular
        for start, axis in zip((Column.ROWS, Column.COLS), node.axes, strict=True):
            for column, number in _axis_code(axis).items():
                code[start + column] = number
    else:
        shape = node.inputs[0].shape if op.kind == Kind.SUM else node.shape
        code[[Column.ROWS + AxisColumn.SIZE, Column.COLS + AxisColumn.SIZE]] = shape
        strides = [Column.ROWS + AxisColumn.STRIDE, Column.COLS + AxisColumn.STRIDE]
        code[strides] = node.steps


def _axis_code(axis: Axis) -> dict[AxisColumn, int]:
    return {
        AxisColumn.SIZE: axis.size,
        AxisColumn.WINDOW: axis.kernel,
        AxisColumn.BEFORE: axis.before,
        AxisColumn.STRIDE: axis.stride,
        AxisColumn.DILATION: axis.dilation,
        AxisColumn.OUTPUTS: axis.n_outputs,
    }


def _with_second_map(constants: FloatArray, *, is_rest: bool) -> FloatArray:
    """Return constants of covariances and tangent kernel, (n, 2, 2).

    No summand is part of the second map, but of the result if that is the rest: the
    scaled covariance with its summand is added to it.
    """
    both = np.concatenate([constants, np.zeros_like(constants)], axis=2)
    if is_rest:
        both[-1, :, 1] = both[-1, :, 0]
    return both


def _slopes(slope: float) -> tuple[float, float]:
    """Return lambda and mu of a piecewise linear activation."""
    size = 1.0 + slope**2
    return (1.0 - slope) ** 2 / size, 2.0 * slope / size


def _constants(ops: list[Op], theta: Tensor | None) -> FloatArray:
    """Return summand and factor of each operation with derivatives, (n, 2, 1 + p)."""
    n_tangents = 0 if theta is None else len(theta)
    constants = np.zeros((len(ops), 2, 1 + n_tangents))
    for op, rows in zip(ops, constants, strict=True):
        for item, row in zip((op.additive, op.factor), rows, strict=True):
            row[0] = plain_value(item)
            if theta is not None and isinstance(item, Tensor) and item.requires_grad:
                (slopes,) = torch.autograd.grad(item, theta, retain_graph=True)
                row[1:] = slopes.tolist()
    return constants
