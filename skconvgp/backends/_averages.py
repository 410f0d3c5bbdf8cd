"""Averages over positions in a graph, which need maps of displaced images.

The covariances of positions p of an image and p + d of another one form a map for each
displacement d: a rectangle, with the windows and borders of whole images. An average
over positions is a sum over positions and displacements. All operations before it are
computed for one displacement after the other.
"""

from skconvgp._typing import MapShape
from skconvgp.backends._nodes import Graph, Node
from skconvgp.exceptions import NotFusableError
from skconvgp.kernels import AvgPool2d, GlobalAvgPool2d
from skconvgp.kernels._windows import Axis

__all__ = ["join_averages", "windows_of"]

LARGEST_SEGMENTS = 16  # as in native/program.hpp


def windows_of(
    layer: AvgPool2d | GlobalAvgPool2d, shape: MapShape
) -> tuple[Axis, Axis]:
    """Return the windows over whose positions a pool averages on a map of a size."""
    if isinstance(layer, AvgPool2d):
        return layer.axes(shape)
    rows, cols = (_lattice(size, min(layer.lattice, size)) for size in shape)
    return rows, cols


def _lattice(size: int, step: int) -> Axis:
    """Return windows of positions that agree modulo a step."""
    n_elements = -(-size // step)
    return Axis(size, n_elements, 1, 0, step * n_elements - size, step, False)


def join_averages(graph: Graph) -> None:
    """Cut a graph at averages over positions, and note how maps are displaced.

    The last average is a sum over all positions, which a pool directly before it joins.
    It and the pools before it end segments: operations that are computed for the same
    displacements. No map of a segment may be read by a later one.

    Raises a `NotFusableError` if branches of different segments meet, or if positions
    are averaged in front of windows or behind a sum over positions.
    """
    for node in list(graph.nodes):
        _join(graph, node)
    ends = [node for node in graph.nodes if node.kind in ("pool", "average")]
    if not ends:
        return
    if ends[-1].kind == "pool":
        ends.append(_flattened(graph, ends[-1]))
    if len(ends) > LARGEST_SEGMENTS:
        raise NotFusableError(
            f"there are fused kernels for at most {LARGEST_SEGMENTS} averages one "
            "after the other"
        )
    _require_chain(graph, ends)
    begin = 0
    for end in ends:
        stop = graph.nodes.index(end)
        _displace(graph.nodes[begin : stop + 1])
        begin = stop + 1


def _join(graph: Graph, node: Node) -> None:
    """Make a sum an average over windows if it alone reads a pool."""
    if node.kind != "sum" or node.inputs[0].kind != "pool":
        return
    pool = node.inputs[0]
    if sum(pool in other.inputs for other in graph.nodes) > 1:
        return
    node.kind, node.inputs, node.axes = "average", pool.inputs, pool.axes
    graph.nodes = [other for other in graph.nodes if other is not pool]


def _flattened(graph: Graph, pool: Node) -> Node:
    """Make the sum behind the last pool an average over single positions."""
    for node in graph.nodes[graph.nodes.index(pool) :]:
        if node.kind == "sum":
            node.kind = "average"
            node.axes = tuple(
                Axis(size, 1, 1, 0, 0, 1, False) for size in node.inputs[0].shape
            )
            return node
    raise NotFusableError(
        "there are no fused kernels for averages over windows without a sum over "
        "positions behind them"
    )


def _require_chain(graph: Graph, ends: list[Node]) -> None:
    for end in ends:
        place = graph.nodes.index(end)
        before, after = graph.nodes[:place], graph.nodes[place + 1 :]
        if any(source in before for node in after for source in node.inputs):
            raise NotFusableError(
                "there are no fused kernels for branches of which one averages over "
                "positions"
            )
    first = next(place for place, end in enumerate(ends) if end.kind == "average")
    if any(node.axes for node in graph.nodes[graph.nodes.index(ends[first]) + 1 :]):
        raise NotFusableError(
            "there are no fused kernels for windows behind an average over positions"
        )


def _displace(nodes: list[Node]) -> None:
    """Set the steps of the nodes of a segment, of which the last one averages."""
    end = nodes[-1]
    steps = {end.inputs[0]: (1, 1)}
    for node in reversed(nodes[:-1]):
        if node.kind == "sum":
            raise NotFusableError(
                "there are no fused kernels for averages over positions behind a sum "
                "over all positions"
            )
        down, across = node.steps = steps[node]
        if node.kind == "conv":
            rows, cols = node.axes
            down, across = down * rows.stride, across * cols.stride
            if rows.is_circular:
                raise NotFusableError(
                    "there are no fused kernels for averages over positions behind "
                    "windows that wrap around"
                )
        for source in node.inputs:
            if steps.setdefault(source, (down, across)) != (down, across):
                raise NotFusableError(
                    "there are no fused kernels for averages over positions of "
                    "branches with different strides"
                )
    if nodes[0].inputs:  # the pool of the segment before
        nodes[0].inputs[0].steps = steps[nodes[0].inputs[0]]
