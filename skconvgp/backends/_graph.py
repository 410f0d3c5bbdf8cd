r"""A network as a graph of operations on covariance maps, constants scaled out.

What is carried is c / beta, with one number beta for each map, chosen so that a window
is a plain sum and an activation needs no factor. With :math:`q = \sqrt{ab}` a piecewise
linear activation of slope s is in these units

.. math:: \max(c, \mu c) + \lambda q u^{3/2} P(u), \quad u = 1 - |c| / q, \quad
          \lambda = \frac{(1 - s)^2}{1 + s^2}, \quad \mu = \frac{2 s}{1 + s^2},

and keeps the variance of an image. The last beta multiplies the result.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from skconvgp._typing import ImageShape, MapShape, Scalar
from skconvgp.kernels import (
    Abs,
    AvgPool2d,
    Conv2d,
    Dense,
    Erf,
    Flatten,
    GlobalAvgPool2d,
    Identity,
    Kernel,
    LeakyReLU,
    ReLU,
    Residual,
    Scale,
    Sequential,
    Sum,
    convnet,
    dense,
    residual_convnet,
    resnet32,
    three_layer_convnet,
)
from skconvgp.kernels._checks import plain_value
from skconvgp.kernels._linear import Axis

__all__ = ["Graph", "Node", "NotFusableError", "build_graph"]

Network = convnet | dense | residual_convnet | resnet32 | three_layer_convnet
Leaky = ReLU | LeakyReLU | Abs

# A map that may have grown beyond this is scaled down: float32 ends at 3e38, and what
# the images bring needs room too.
LARGEST_GROWTH = 2.0**50


class NotFusableError(Exception):
    """A kernel has a part that the fused backends cannot run."""


@dataclass(eq=False)
class Node:
    """An operation on maps.

    Parameters
    ----------
    kind : str
        "input" or, of whole samples, "dot"; "leaky", "erf", "affine", "add", "conv",
        "sum".
    inputs : tuple of Node
        The maps it takes. "add" gives `factor` times the first plus the second.
    shape : (h, w)
        Size of the map that it makes.
    additive, factor : float or Tensor
        Constants: what is added, what is multiplied with.
    slope : float
        Of a piecewise linear activation.
    is_positive : bool
        Whether an activation meets no negative covariance.
    axes : tuple of Axis
        Windows along rows and columns.
    """

    kind: str
    inputs: tuple["Node", ...]
    shape: MapShape
    additive: Scalar = 0.0
    factor: Scalar = 1.0
    slope: float = 0.0
    is_positive: bool = False
    axes: tuple[Axis, ...] = ()


@dataclass(frozen=True)
class Map:
    """A covariance map: what a node makes, times `beta`.

    Parameters
    ----------
    node : Node
        The node.
    beta : float or Tensor
        Factor.
    growth : float
        How large the numbers of the node are at most, for images of unit variance.
    is_positive : bool
        Whether no covariance is negative.
    """

    node: Node
    beta: Scalar
    growth: float
    is_positive: bool


@dataclass
class Graph:
    """Operations in an order in which they can be computed.

    Parameters
    ----------
    image_shape : (c, h, w)
        Shape of the images.
    nodes : list of Node
        The operations; the first is the input.
    scale : float or Tensor
        Factor of the result.
    """

    image_shape: ImageShape
    nodes: list[Node] = field(default_factory=list)
    scale: Scalar = 1.0

    def add(self, node: Node) -> Node:
        """Append a node and return it."""
        self.nodes.append(node)
        return node


def build_graph(kernel: Kernel, image_shape: ImageShape) -> Graph:
    """Return the operations of a network on images of a shape.

    Parameters
    ----------
    kernel : Kernel
        A network, checked for images of this shape.
    image_shape : (c, h, w)
        Shape of the images.

    Returns
    -------
    graph : Graph
        The operations; the last node is the result.

    Raises
    ------
    NotFusableError
        If there is no operation for a part; the message names it.
    """
    graph = Graph(image_shape)
    channels, height, width = image_shape
    node = graph.add(Node("input", (), (height, width)))
    end = _lower(graph, kernel, Map(node, 1.0 / channels, float(channels), False))
    graph.scale = end.beta
    if end.node is not graph.nodes[-1]:
        graph.add(Node("affine", (end.node,), end.node.shape))
    _read_as_samples(graph)
    return graph


def _read_as_samples(graph: Graph) -> None:
    """Take inner products of whole samples where only these are needed."""
    start = graph.nodes[0]
    readers = [node for node in graph.nodes if start in node.inputs]
    if all(node.kind == "sum" for node in readers):
        for node in graph.nodes:
            node.inputs = tuple(
                start if source in readers else source for source in node.inputs
            )
        graph.nodes = [node for node in graph.nodes if node not in readers]
        start.shape = (1, 1)
    is_point = all(node.shape == (1, 1) for node in graph.nodes)
    if is_point and all(node.kind not in ("conv", "sum") for node in graph.nodes):
        start.kind = "dot"


def _lower(graph: Graph, layer: object, value: Map) -> Map:
    # Exact types: what a class derived from one of ours computes is not known here.
    lowering = _LOWERINGS.get(type(layer))
    if lowering is None:
        raise NotFusableError(f"there are no fused kernels for {layer!r}")
    return lowering(graph, layer, value)


def _chain(graph: Graph, chain: Sequential | Residual, value: Map) -> Map:
    for i, layer in enumerate(chain.layers):
        try:
            value = _lower(graph, layer, value)
        except NotFusableError as error:
            where = f"layer{i} of a {type(chain).__name__}"
            raise NotFusableError(f"{where}: {error}") from error
    return value


def _named_network(graph: Graph, network: Network, value: Map) -> Map:
    return _chain(graph, network.layers, value)


def _residual(graph: Graph, layer: Residual, value: Map) -> Map:
    return _add(graph, [value, _chain(graph, layer, value)])


def _sum(graph: Graph, layer: Sum, value: Map) -> Map:
    return _add(graph, [_lower(graph, term, value) for term in layer.parts])


def _scale(graph: Graph, layer: Scale, value: Map) -> Map:
    return _affine(graph, _lower(graph, layer.kernel, value), layer.factor, 0.0)


def _dense(graph: Graph, layer: Dense, value: Map) -> Map:
    return _affine(graph, value, layer.weight_variance, layer.bias_variance)


def _unchanged(graph: Graph, layer: object, value: Map) -> Map:
    return value  # pools are of single positions: others are refused before


def _affine(graph: Graph, value: Map, weight: Scalar, bias: Scalar) -> Map:
    """Return weight c + bias: the weight goes into beta."""
    beta = value.beta * _require_present(weight)
    if plain_value(bias) == 0.0:
        return replace(value, beta=beta)
    additive = bias / beta
    node = Node("affine", (value.node,), value.node.shape, additive)
    growth = value.growth + plain_value(additive)
    return _rescale(graph, Map(graph.add(node), beta, growth, value.is_positive))


def _convolve(graph: Graph, layer: Conv2d, value: Map) -> Map:
    rows, cols = axes = layer.axes(value.node.shape)
    shape = (rows.n_outputs, cols.n_outputs)
    n_taps = rows.kernel * cols.kernel
    weight = layer.weight_variance / n_taps
    is_point = value.node.shape == shape == (1, 1)
    hits = rows.hits * cols.hits if is_point else 0
    if hits or (rows.is_identity and cols.is_identity):
        return _affine(graph, value, weight * max(hits, 1), layer.bias_variance)
    beta = value.beta * _require_present(weight)
    additive = layer.bias_variance / beta
    node = Node("conv", (value.node,), shape, additive, axes=axes)
    growth = value.growth * n_taps + plain_value(additive)
    return _rescale(graph, Map(graph.add(node), beta, growth, value.is_positive))


def _require_present(weight: Scalar) -> Scalar:
    if plain_value(weight) == 0.0:
        raise NotFusableError("a weight variance of 0 leaves nothing of the images")
    return weight


def _flatten(graph: Graph, layer: Flatten, value: Map) -> Map:
    size = math.prod(value.node.shape)
    if size == 1:
        return value
    node = graph.add(Node("sum", (value.node,), (1, 1)))
    growth = value.growth * size
    return _rescale(graph, Map(node, value.beta / size, growth, value.is_positive))


def _leaky(graph: Graph, layer: Leaky, value: Map) -> Map:
    slope = float(layer.slope)
    node = Node(
        "leaky",
        (value.node,),
        value.node.shape,
        slope=slope,
        is_positive=value.is_positive,
    )
    beta = value.beta * ((1.0 + slope**2) / 2.0)
    is_positive = value.is_positive or slope <= 0.0
    return Map(graph.add(node), beta, value.growth, is_positive)


def _erf(graph: Graph, layer: Erf, value: Map) -> Map:
    factor = value.beta * 2.0  # maths.md 2.3: of the covariance itself
    node = Node("erf", (value.node,), value.node.shape, factor=factor)
    return Map(graph.add(node), 2.0 / math.pi, math.pi / 2.0, value.is_positive)


def _add(graph: Graph, branches: list[Map]) -> Map:
    """Add branches in the units of the largest, so that none grows."""
    first = max(range(len(branches)), key=lambda i: plain_value(branches[i].beta))
    total = branches.pop(first)
    for branch in branches:
        ratio = branch.beta / total.beta
        inputs = (branch.node, total.node)
        node = Node("add", inputs, total.node.shape, factor=ratio)
        growth = total.growth + plain_value(ratio) * branch.growth
        is_positive = total.is_positive and branch.is_positive
        total = Map(graph.add(node), total.beta, growth, is_positive)
    return _rescale(graph, total)


def _rescale(graph: Graph, value: Map) -> Map:
    """Scale a map down by a power of two if it may have grown large."""
    if value.growth < LARGEST_GROWTH:
        return value
    power = 2.0 ** math.floor(math.log2(value.growth))
    node = Node("affine", (value.node,), value.node.shape, factor=1.0 / power)
    return replace(
        value,
        node=graph.add(node),
        beta=value.beta * power,
        growth=value.growth / power,
    )


_LOWERINGS: dict[type, Callable[[Graph, Any, Map], Map]] = {
    Abs: _leaky,
    AvgPool2d: _unchanged,
    Conv2d: _convolve,
    Dense: _dense,
    Erf: _erf,
    Flatten: _flatten,
    GlobalAvgPool2d: _unchanged,
    Identity: _unchanged,
    LeakyReLU: _leaky,
    ReLU: _leaky,
    Residual: _residual,
    Scale: _scale,
    Sequential: _chain,
    Sum: _sum,
    convnet: _named_network,
    dense: _named_network,
    residual_convnet: _named_network,
    resnet32: _named_network,
    three_layer_convnet: _named_network,
}
