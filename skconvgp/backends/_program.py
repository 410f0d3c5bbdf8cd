"""A network as the flat program that the fused backends run.

A program is a list of operations that are carried out for one pair of images after the
other, or for as many as a vector has lanes. They come in stages: what begins a stage
takes the rows of a map one by one, what follows changes the row, what ends the stage
takes in the finished row, so that a map goes through memory once a stage at most.
"""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._typing import FloatArray, ImageShape, Scalar
from skconvgp.backends._graph import Graph, Node, build_graph
from skconvgp.kernels import Kernel
from skconvgp.kernels._checks import plain_value
from skconvgp.kernels._linear import Axis

__all__ = ["Program", "lower", "lower_with_tangents"]

# Rounding errors of running sums grow with the number of positions; over more than
# these, windows are added up.
LONGEST_RUN = 1024


class Kind(IntEnum):
    """Operations; native/program.hpp says what each does."""

    INPUT = 0
    LOAD = 1
    STORE = 2
    ADD = 3
    LEAKY = 4
    ERF = 5
    AFFINE = 6
    BOX = 7
    CONV = 8
    SUM = 9
    END = 10
    RESULT = 11
    DOT = 12


@dataclass(frozen=True, eq=False)
class Program:
    """A lowered network.

    Parameters
    ----------
    codes : ndarray of shape (n_ops, 20)
        Kind, register, flag, windows along rows and columns, padding mode; where the
        numbers of an image begin and how many a position has, maps before and after.
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
    schedule = _schedule(build_graph(kernel, image_shape))
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
    theta = torch.as_tensor(kernel.theta).requires_grad_(True)
    schedule = _schedule(build_graph(kernel.with_theta(theta), image_shape))
    constants = _constants(schedule.ops, theta)
    is_known = (constants[:-1, :, 1:] != 0.0).any(1)  # without the scale of the result
    begins = np.where(is_known.any(0), is_known.argmax(0), len(is_known))
    order = np.argsort(begins, kind="stable")
    programs = []
    for start in range(0, max(len(order), 1), n_tangents):
        columns = [0, *(1 + order[start : start + n_tangents])]
        programs.append(_assemble(schedule, constants[:, :, columns], roots))
    return tuple(programs), tuple(int(place) for place in order)


@dataclass
class _Op:
    kind: Kind
    node: Node
    reg: int = 0
    flag: int = 0
    additive: Scalar = 0.0
    factor: Scalar = 1.0


@dataclass
class _Schedule:
    """Puts the nodes of a graph into stages and maps into registers."""

    n_pixels: int
    uses: Counter[Node]
    has_boxes: bool
    ops: list[_Op] = field(default_factory=list)
    current: Node | None = None  # what the row holds now
    registers: dict[Node, int] = field(default_factory=dict)
    idle: list[int] = field(default_factory=list)
    in_use: set[int] = field(default_factory=set)  # read in this stage
    n_registers: int = 0

    def emit(self, kind: Kind, node: Node, **settings: object) -> None:
        self.ops.append(_Op(kind, node, **settings))  # type: ignore[arg-type]

    def visit(self, node: Node) -> None:
        """Compute a node."""
        if node.kind == "add":
            self.add(node)
        elif node.kind in ("conv", "sum"):
            self.end_stage_with(node)
        else:
            self.take(node.inputs[0])
            self.change(node)
            self.current = node

    def take(self, node: Node) -> None:
        """Bring a node into the row and use it up once."""
        if self.current is not node:
            self.begin_stage(node)
        self.uses[node] -= 1
        if node not in self.registers:
            if self.uses[node]:
                self.registers[node] = self.new_register()
                self.emit(Kind.STORE, node, reg=self.registers[node])
        else:
            self.release(node)

    def begin_stage(self, node: Node) -> None:
        if self.current is not None:
            self.keep_current()
            self.emit(Kind.END, self.current)
            self.close()
        if node.kind in ("input", "dot"):
            kind = Kind.INPUT if node.kind == "input" else Kind.DOT
            n_positions = node.shape[0] * node.shape[1]
            if node not in self.registers:
                self.emit(kind, node, flag=self.n_pixels // n_positions)
                return
        self.emit(Kind.LOAD, node, reg=self.registers[node])

    def keep_current(self) -> None:
        node = self.current
        if node is not None and self.uses[node] and node not in self.registers:
            self.registers[node] = self.new_register()
            self.emit(Kind.STORE, node, reg=self.registers[node])

    def release(self, node: Node) -> None:
        """Note that a register was read; it is idle after the last time.

        Within a stage a map may be written over one of its size that has been read:
        its rows are read before.
        """
        self.in_use.add(self.registers[node])
        if not self.uses[node]:
            self.idle.append(self.registers.pop(node))

    def close(self) -> None:
        self.current = None
        self.in_use.clear()

    def new_register(self, *, is_apart: bool = False) -> int:
        """Return an idle register, or one that the stage has not read."""
        for reg in reversed(self.idle):
            if not (is_apart and reg in self.in_use):
                self.idle.remove(reg)
                return reg
        self.n_registers += 1
        return self.n_registers - 1

    def change(self, node: Node) -> None:
        """Apply an activation or an affine map to the row."""
        if node.kind == "affine":
            settings = {"additive": node.additive, "factor": node.factor}
            self.emit(Kind.AFFINE, node, **settings)
        elif node.kind == "leaky":
            self.emit(Kind.LEAKY, node, flag=int(node.is_positive))
        else:
            self.emit(Kind.ERF, node, factor=node.factor)

    def add(self, node: Node) -> None:
        """Add two maps, `factor` times the first plus the second."""
        scaled, other = node.inputs
        is_scaled = self.current is scaled and scaled is not other
        row, stored = (scaled, other) if is_scaled else (other, scaled)
        self.take(row)
        reg = self.registers[stored]
        self.emit(Kind.ADD, node, reg=reg, flag=int(is_scaled), factor=node.factor)
        self.uses[stored] -= 1
        self.release(stored)
        self.current = node

    def end_stage_with(self, node: Node) -> None:
        """Take windows or the sum of a map."""
        source = node.inputs[0]
        self.take(source)
        is_box = self.has_boxes and all(
            axis.is_box and axis.size <= LONGEST_RUN for axis in node.axes
        )
        kinds = {"sum": Kind.SUM, "conv": Kind.BOX if is_box else Kind.CONV}
        # Larger maps would overtake the rows that are still to be read.
        fits = all(axis.n_outputs <= axis.size for axis in node.axes)
        reg = self.new_register(is_apart=not fits)
        self.registers[node] = reg
        self.emit(kinds[node.kind], node, reg=reg, additive=node.additive)
        self.close()


def _schedule(graph: Graph) -> _Schedule:
    nodes, result = list(graph.nodes), graph.nodes[-1]
    uses = Counter(source for node in nodes for source in node.inputs)
    factor, additive = graph.scale, 0.0 * graph.scale
    while result.kind == "affine" and uses[result.inputs[0]] == 1:
        additive = additive + factor * result.additive
        factor = factor * result.factor
        result = nodes.pop().inputs[0]
        uses[result] = 0
    uses[result] += 1
    n_pixels = math.prod(graph.image_shape)
    # Errors of running sums are relative to the largest value of a map. Piecewise
    # linear activations pass them on as they are; saturating ones enlarge them, and
    # they show where the positions of the largest values are dropped.
    has_boxes = all(node.kind != "erf" for node in nodes) and _uses_all_positions(nodes)
    schedule = _Schedule(n_pixels, uses, has_boxes)
    for node in nodes:
        if node.inputs:
            schedule.visit(node)
    is_sum = result.kind == "sum"
    if is_sum:
        schedule.close()
    else:
        schedule.take(result)
    settings = {"flag": int(is_sum), "additive": additive, "factor": factor}
    schedule.emit(Kind.RESULT, result, **settings)
    return schedule


def _uses_all_positions(nodes: list[Node]) -> bool:
    """Whether each map has a reader that takes all of its positions."""
    complete: set[Node] = set()
    partial: set[Node] = set()
    for node in nodes:
        is_complete = all(axis.reaches_all for axis in node.axes)
        (complete if is_complete else partial).update(node.inputs)
    return partial <= complete


def _assemble(schedule: _Schedule, constants: FloatArray, roots: int) -> Program:
    codes = [
        [*_code(op), *place]
        for op, place in zip(
            schedule.ops, _places(schedule, constants, roots), strict=True
        )
    ]
    return Program(
        np.array(codes, dtype=np.int32),
        np.ascontiguousarray(constants),
        np.array([_slopes(op.node.slope) for op in schedule.ops]),
        schedule.n_registers,
        schedule.n_pixels,
    )


def _places(
    schedule: _Schedule, constants: FloatArray, roots: int
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


def _code(op: _Op) -> list[int]:
    kind, node = op.kind, op.node
    ends = kind in (Kind.BOX, Kind.CONV, Kind.SUM)
    height, width = node.inputs[0].shape if ends else node.shape
    rows, cols = [height, *[0] * 5], [width, *[0] * 5]
    is_circular = 0
    if kind in (Kind.BOX, Kind.CONV):
        rows, cols = (_axis_code(axis) for axis in node.axes)
        is_circular = int(node.axes[0].is_circular)
    return [int(kind), op.reg, op.flag, *rows, *cols, is_circular]


def _axis_code(axis: Axis) -> list[int]:
    windows = [axis.size, axis.kernel, axis.before]
    return [*windows, axis.stride, axis.dilation, axis.n_outputs]


def _slopes(slope: float) -> tuple[float, float]:
    """Return lambda and mu of a piecewise linear activation."""
    size = 1.0 + slope**2
    return (1.0 - slope) ** 2 / size, 2.0 * slope / size


def _constants(ops: list[_Op], theta: Tensor | None) -> FloatArray:
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
