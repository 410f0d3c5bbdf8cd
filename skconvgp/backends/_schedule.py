"""Puts the operations of a graph into stages, and its maps into registers."""

import math
from collections import Counter
from dataclasses import dataclass, field

from skconvgp._typing import Scalar
from skconvgp.backends._nodes import Graph, Node
from skconvgp.backends._opcodes import Kind
from skconvgp.exceptions import NotFusableError

__all__ = ["Op", "Schedule", "schedule_of"]

# Rounding errors of running sums grow with the number of positions. For more positions
# than this, each window is summed directly.
LONGEST_RUN = 1024

# Channels are added one after the other. For more channels than this, single precision
# would not give the promised digits.
MOST_CHANNELS = 8192


@dataclass
class Op:
    """An operation of the program, with its register and constants."""

    kind: Kind
    node: Node
    reg: int = 0
    flag: int = 0
    additive: Scalar = 0.0
    factor: Scalar = 1.0


@dataclass
class Schedule:
    """Puts nodes into stages and maps into registers, by a simulated run.

    Like the program, it works on a row: the rows of one map, which operations change.
    A map that is needed again later is stored in a register.
    """

    n_pixels: int
    uses: Counter[Node]  # how often a node's map will still be read
    has_boxes: bool  # whether windows may be running sums
    ops: list[Op] = field(default_factory=list)
    current: Node | None = None  # the node whose map is in the row now
    registers: dict[Node, int] = field(default_factory=dict)
    idle: list[int] = field(default_factory=list)
    in_use: set[int] = field(default_factory=set)  # registers read in this stage
    n_registers: int = 0

    def emit(self, kind: Kind, node: Node, **settings: object) -> None:
        self.ops.append(Op(kind, node, **settings))  # type: ignore[arg-type]

    def visit(self, node: Node) -> None:
        """Compute a node."""
        if node.kind == "add":
            self.add(node)
        elif node.kind in ("conv", "sum", "average", "pool"):
            self.end_stage_with(node)
        else:
            self.take(node.inputs[0])
            self.change(node)
            self.current = node

    def take(self, node: Node) -> None:
        """Bring the map of a node into the row, and count one use of it."""
        if self.current is not node:
            self.begin_stage(node)
        self.uses[node] -= 1
        if node in self.registers:
            self.release(node)
        else:
            self.keep(node)

    def begin_stage(self, node: Node) -> None:
        """End the present stage, and begin one with the rows of a node's map."""
        if self.current is not None:
            self.keep(self.current)
            self.emit(Kind.END, self.current)
            self.close()
        if node.kind in ("input", "dot"):
            kind = Kind.INPUT if node.kind == "input" else Kind.DOT
            n_positions = node.shape[0] * node.shape[1]
            if node not in self.registers:
                self.emit(kind, node, flag=self.n_pixels // n_positions)
                return
        self.emit(Kind.LOAD, node, reg=self.registers[node])

    def keep(self, node: Node) -> None:
        """Store the row, a node's map, in a register if it is needed again."""
        if self.uses[node] and node not in self.registers:
            self.registers[node] = self.new_register()
            self.emit(Kind.STORE, node, reg=self.registers[node])

    def release(self, node: Node) -> None:
        """Note that a register was read; after its last use it is idle.

        A stage may write a map over one of the same size that it reads, because each
        row is read before it is written.
        """
        self.in_use.add(self.registers[node])
        if not self.uses[node]:
            self.idle.append(self.registers.pop(node))

    def close(self) -> None:
        """Note that a stage has ended."""
        self.current = None
        self.in_use.clear()

    def new_register(self, *, is_apart: bool = False) -> int:
        """Return an idle or new register; if apart, one that the stage has not read."""
        for reg in reversed(self.idle):
            if not (is_apart and reg in self.in_use):
                self.idle.remove(reg)
                return reg
        self.n_registers += 1
        return self.n_registers - 1

    def change(self, node: Node) -> None:
        """Apply an activation, an affine map or a join to the row."""
        if node.kind == "affine":
            settings = {"additive": node.additive, "factor": node.factor}
            self.emit(Kind.AFFINE, node, **settings)
        elif node.kind == "join":
            self.emit(Kind.JOIN, node)
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
        """End the stage with the windows or the sum of a map."""
        source = node.inputs[0]
        self.take(source)
        is_box = self.has_boxes and all(
            axis.is_box and axis.size <= LONGEST_RUN for axis in node.axes
        )
        kinds = {
            "sum": Kind.SUM,
            "average": Kind.AVERAGE,
            "pool": Kind.POOL,
            "conv": Kind.BOX if is_box else Kind.CONV,
        }
        # If the output is larger than the input, its rows would overwrite rows of the
        # input that have not been read yet.
        fits = all(axis.n_outputs <= axis.size for axis in node.axes)
        reg = self.new_register(is_apart=not fits)
        self.registers[node] = reg
        self.emit(kinds[node.kind], node, reg=reg, additive=node.additive)
        self.close()


def schedule_of(graph: Graph) -> Schedule:
    """Return the schedule of a graph, whose final affine maps go into the result."""
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
    # linear activations do not enlarge them, but saturating ones do. They also become
    # visible if a later window leaves out the positions of the largest values.
    has_boxes = all(node.kind != "erf" for node in nodes) and _uses_all_positions(nodes)
    schedule = Schedule(n_pixels, uses, has_boxes)
    for node in nodes:
        if node.inputs:
            schedule.visit(node)
    is_sum = result.kind in ("sum", "average")
    if is_sum:
        schedule.close()
    else:
        schedule.take(result)
    settings = {"flag": int(is_sum), "additive": additive, "factor": factor}
    schedule.emit(Kind.RESULT, result, **settings)
    _begin_with_input(schedule)
    return schedule


def _begin_with_input(schedule: Schedule) -> None:
    """Replace "dot" by images of one position if there are several stages.

    Only programs of a single stage can compute rows of inner products of samples.
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
    """Say whether each map has a reader that uses all of its positions."""
    complete: set[Node] = set()
    partial: set[Node] = set()
    for node in nodes:
        is_complete = all(axis.reaches_all for axis in node.axes)
        (complete if is_complete else partial).update(node.inputs)
    return partial <= complete
