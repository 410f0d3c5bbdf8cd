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
    """Join a pool and the sum that reads it, and note how maps are displaced.

    Raises
    ------
    NotFusableError
        If positions are averaged other than once, behind all maps of positions.
    """
    for node in graph.nodes:
        _join(graph, node)
    pools = [node for node in graph.nodes if node.kind in ("pool", "average")]
    if not pools:
        return
    head = pools[0]
    place = graph.nodes.index(head)
    before, after = graph.nodes[:place], graph.nodes[place + 1 :]
    if head.kind == "pool" or len(pools) > 1:
        raise NotFusableError(
            "there are fused kernels for averages over positions only where one "
            "average is directly in front of the dense layers"
        )
    if any(source in before for node in after for source in node.inputs):
        raise NotFusableError(
            "there are no fused kernels for branches of which one averages over "
            "positions"
        )
    _displace([*before, head])


def _join(graph: Graph, node: Node) -> None:
    """Make a sum an average over windows if it alone reads a pool."""
    if node.kind != "sum" or node.inputs[0].kind != "pool":
        return
    pool = node.inputs[0]
    if sum(pool in other.inputs for other in graph.nodes) > 1:
        return
    node.kind, node.inputs, node.axes = "average", pool.inputs, pool.axes
    graph.nodes = [other for other in graph.nodes if other is not pool]


def _displace(nodes: list[Node]) -> None:
    """Set the steps of the nodes, of which the last one is the average."""
    head = nodes[-1]
    steps = {head.inputs[0]: (1, 1)}
    for node in reversed(nodes[:-1]):
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
    farthest = [
        min(axis.dilation * (axis.kernel - 1), axis.size - 1) for axis in head.axes
    ]
    for node in nodes[:-1]:
        sizes = zip(node.shape, node.steps, farthest, strict=True)
        if any(step * far >= size for size, step, far in sizes):
            raise NotFusableError(
                "there are no fused kernels for averages over positions of maps that "
                "padding has made larger"
            )
