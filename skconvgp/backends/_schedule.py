"""A graph of operations put into stages, and its maps into registers."""

import math
from collections import Counter
from dataclasses import dataclass, field

from skconvgp._typing import Scalar
from skconvgp.backends._graph import Graph, Node
from skconvgp.backends._opcodes import Kind
from skconvgp.exceptions import NotFusableError

__all__ = ["Op", "Schedule", "schedule_of"]

# Rounding errors of running sums grow with the number of positions; over more than
# these, windows are added up.
LONGEST_RUN = 1024

# Channels are added up one after the other: single precision gives the promised digits
# for this many and some more.
MOST_CHANNELS = 8192


@dataclass
class Op:
    kind: Kind
    node: Node
    reg: int = 0
    flag: int = 0
    additive: Scalar = 0.0
    factor: Scalar = 1.0


@dataclass
class Schedule:
    """Puts the nodes of a graph into stages and maps into registers."""

    n_pixels: int
    uses: Counter[Node]
    has_boxes: bool
    ops: list[Op] = field(default_factory=list)
    current: Node | None = None  # what the row holds now
    registers: dict[Node, int] = field(default_factory=dict)
    idle: list[int] = field(default_factory=list)
    in_use: set[int] = field(default_factory=set)  # read in this stage
    n_registers: int = 0

    def emit(self, kind: Kind, node: Node, **settings: object) -> None:
        self.ops.append(Op(kind, node, **settings))  # type: ignore[arg-type]

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


def schedule_of(graph: Graph) -> Schedule:
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
    schedule = Schedule(n_pixels, uses, has_boxes)
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
    _begin_with_input(schedule)
    return schedule


def _begin_with_input(schedule: Schedule) -> None:
    """Take whole samples as images of one position where there are several stages.

    Inner products of rows of samples are for programs of a single stage.
    """
    begin = schedule.ops[0]
    if any(op.kind == Kind.END for op in schedule.ops):
        begin.kind = Kind.INPUT
    if begin.kind == Kind.INPUT and begin.flag > MOST_CHANNELS:
        raise NotFusableError(
            f"a position has {begin.flag} channels; in single precision the sum of "
            f"more than {MOST_CHANNELS} is not exact enough"
        )


def _uses_all_positions(nodes: list[Node]) -> bool:
    """Whether each map has a reader that takes all of its positions."""
    complete: set[Node] = set()
    partial: set[Node] = set()
    for node in nodes:
        is_complete = all(axis.reaches_all for axis in node.axes)
        (complete if is_complete else partial).update(node.inputs)
    return partial <= complete
