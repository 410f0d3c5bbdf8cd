"""A network as the flat program that the fused backends run.

A program is a list of operations that are carried out for one pair of images after the
other, or for as many as a vector has lanes. They come in stages: what begins a stage
takes the rows of a map one by one, what follows changes the row, what ends the stage
takes in the finished row, so that a map goes through memory once a stage at most.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._autograd import own_autograd
from skconvgp._typing import FloatArray, ImageShape
from skconvgp.backends._graph import build_graph
from skconvgp.backends._opcodes import N_COLUMNS, AxisColumn, Column, Kind
from skconvgp.backends._schedule import Op, Schedule, schedule_of
from skconvgp.kernels import Kernel
from skconvgp.kernels._checks import plain_value
from skconvgp.kernels._windows import Axis

__all__ = ["Program", "lower", "lower_with_tangents"]


@dataclass(frozen=True, eq=False)
class Program:
    """A lowered network.

    Parameters
    ----------
    codes : ndarray of shape (n_ops, N_COLUMNS)
        The operations, with their registers, windows, tables and maps: Column has the
        columns.
    constants : ndarray of shape (n_ops, 2, 1 + p)
        What is added and what is multiplied with, with p derivatives.
    slopes : ndarray of shape (n_ops, 2)
        Lambda and mu of piecewise linear activations.
    n_registers : int
        Maps that are kept at the same time.
    n_pixels : int
        Numbers of an image.
    """

    codes: NDArray[np.int32]
    constants: FloatArray
    slopes: FloatArray
    n_registers: int
    n_pixels: int

    @property
    def n_tangents(self) -> int:
        """Number of derivatives."""
        return int(self.constants.shape[2]) - 1

    @property
    def kinds(self) -> NDArray[np.int32]:
        """What the operations are, (n_ops,)."""
        return self.codes[:, Column.KIND]

    def of_axes(self, column: AxisColumn) -> NDArray[np.int32]:
        """Return a column of the windows along rows and columns, (n_ops, 2)."""
        return self.codes[:, [Column.ROWS + column, Column.COLS + column]]


def lower(kernel: Kernel, image_shape: ImageShape, roots: int = 2) -> Program:
    """Lower a network for images of a shape.

    Parameters
    ----------
    kernel : Kernel
        A network, checked for images of this shape.
    image_shape : (c, h, w)
        Shape of the images.
    roots : {1, 2}
        Numbers of a position of an image that a piecewise linear activation finds in
        its table: the standard deviation and, with 2, its inverse.

    Returns
    -------
    program : Program
        Computes values.

    Raises
    ------
    NotFusableError
        If a part of the kernel cannot be lowered; the message names it.
    """
    schedule = schedule_of(build_graph(kernel, image_shape))
    return _assemble(schedule, _constants(schedule.ops, None), roots)


def lower_with_tangents(
    kernel: Kernel, image_shape: ImageShape, n_tangents: int, roots: int = 2
) -> tuple[tuple[Program, ...], tuple[int, ...]]:
    """Lower a network with derivatives by its free hyperparameters.

    Parameters
    ----------
    kernel : Kernel
        A network, checked for images of this shape.
    image_shape : (c, h, w)
        Shape of the images.
    n_tangents : int
        Derivatives of one program at most.
    roots : {1, 2}
        As in :func:`lower`.

    Returns
    -------
    programs : tuple of Program
        Each computes values and some of the derivatives by `kernel.theta`. Those of the
        first layers come first: further derivatives begin further down the network.
    order : tuple of int
        The place in theta of each derivative.
    """
    with own_autograd():
        theta = torch.as_tensor(kernel.theta).requires_grad_(True)
        schedule = schedule_of(build_graph(kernel.with_theta(theta), image_shape))
        constants = _constants(schedule.ops, theta)
    is_known = (constants[:-1, :, 1:] != 0.0).any(1)  # without the scale of the result
    begins = np.where(is_known.any(0), is_known.argmax(0), len(is_known))
    order = np.argsort(begins, kind="stable")
    programs = []
    for start in range(0, max(len(order), 1), n_tangents):
        columns = [0, *(1 + order[start : start + n_tangents])]
        programs.append(_assemble(schedule, constants[:, :, columns], roots))
    return tuple(programs), tuple(int(place) for place in order)


def _assemble(schedule: Schedule, constants: FloatArray, roots: int) -> Program:
    codes = np.zeros((len(schedule.ops), N_COLUMNS), dtype=np.int32)
    places = _places(schedule, constants, roots)
    for code, op, place in zip(codes, schedule.ops, places, strict=True):
        _write_code(code, op)
        code[[Column.TABLE, Column.ROOTS, Column.LOADED, Column.MAPS]] = place
    return Program(
        codes,
        np.ascontiguousarray(constants),
        np.array([_slopes(op.node.slope) for op in schedule.ops]),
        schedule.n_registers,
        schedule.n_pixels,
    )


def _places(
    schedule: Schedule, constants: FloatArray, roots: int
) -> Iterator[tuple[int, int, int, int]]:
    """Yield what each operation finds: table, its numbers, maps before, maps after.

    Per-image numbers follow the pixels. Maps that are not zero are counted: the value
    and the derivatives up to the last that has begun.
    """
    stored = dict.fromkeys(range(schedule.n_registers), 1)
    end, maps, summed = schedule.n_pixels, 1, 1
    for op, own in zip(schedule.ops, constants, strict=True):
        loaded = maps
        if op.kind in (Kind.LOAD, Kind.ADD):
            loaded = stored[op.reg]
        elif op.kind == Kind.RESULT and op.flag:
            loaded = summed
        maps = max(_maps_of(op.kind, loaded, maps), _begun(op.kind, own))
        if op.kind in (Kind.STORE, Kind.BOX, Kind.CONV, Kind.SUM):
            stored[op.reg] = maps
        if op.kind == Kind.SUM:
            summed = maps
        numbers = {Kind.LEAKY: roots, Kind.ERF: 1}.get(op.kind, 0)
        yield end, numbers, loaded, maps
        if numbers:
            end += (numbers + maps - 1) * math.prod(op.node.shape)


def _maps_of(kind: Kind, loaded: int, maps: int) -> int:
    """Return the maps that an operation takes in."""
    if kind in (Kind.INPUT, Kind.DOT):
        return 1
    if kind == Kind.ADD:
        return max(maps, loaded)
    return loaded if kind == Kind.LOAD else maps


def _begun(kind: Kind, constants: FloatArray) -> int:
    """Return the value and the derivatives up to the last one of the constants."""
    known = np.flatnonzero((constants[:, 1:] != 0.0).any(0))
    return 2 + int(known[-1]) if len(known) and kind != Kind.RESULT else 1


def _write_code(code: NDArray[np.int32], op: Op) -> None:
    """Write what an operation is into its row of codes."""
    node = op.node
    code[[Column.KIND, Column.REG, Column.FLAG]] = op.kind, op.reg, op.flag
    if op.kind in (Kind.BOX, Kind.CONV):
        code[Column.CIRCULAR] = node.axes[0].is_circular
        for start, axis in zip((Column.ROWS, Column.COLS), node.axes, strict=True):
            for column, number in _axis_code(axis).items():
                code[start + column] = number
    else:
        shape = node.inputs[0].shape if op.kind == Kind.SUM else node.shape
        code[[Column.ROWS + AxisColumn.SIZE, Column.COLS + AxisColumn.SIZE]] = shape


def _axis_code(axis: Axis) -> dict[AxisColumn, int]:
    return {
        AxisColumn.SIZE: axis.size,
        AxisColumn.WINDOW: axis.kernel,
        AxisColumn.BEFORE: axis.before,
        AxisColumn.STRIDE: axis.stride,
        AxisColumn.DILATION: axis.dilation,
        AxisColumn.OUTPUTS: axis.n_outputs,
    }


def _slopes(slope: float) -> tuple[float, float]:
    """Return lambda and mu of a piecewise linear activation."""
    size = 1.0 + slope**2
    return (1.0 - slope) ** 2 / size, 2.0 * slope / size


def _constants(ops: list[Op], theta: Tensor | None) -> FloatArray:
    """Return what each operation adds and multiplies with, (n, 2, 1 + p)."""
    n_tangents = 0 if theta is None else len(theta)
    constants = np.zeros((len(ops), 2, 1 + n_tangents))
    for op, rows in zip(ops, constants, strict=True):
        for item, row in zip((op.additive, op.factor), rows, strict=True):
            row[0] = plain_value(item)
            if theta is not None and isinstance(item, Tensor) and item.requires_grad:
                (slopes,) = torch.autograd.grad(item, theta, retain_graph=True)
                row[1:] = slopes.tolist()
    return constants
