r"""A network as a graph of operations on covariance maps, with constants scaled out.

Instead of the covariances c of a map, the graph computes c / beta, with one number beta
for each map. Betas are chosen so that a window is a plain sum and an activation needs
no factor. With :math:`q = \sqrt{ab}`, for variances a and b in these units, a piecewise
linear activation of slope s is

.. math:: \max(c, \mu c) + \lambda q u^{3/2} P(u), \quad u = 1 - |c| / q, \quad
          \lambda = \frac{(1 - s)^2}{1 + s^2}, \quad \mu = \frac{2 s}{1 + s^2},

and leaves the variance of an image as it is. The last beta multiplies the result.
"""

import math
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from skconvgp._typing import ImageShape, Scalar
from skconvgp.backends._averages import join_averages, windows_of
from skconvgp.backends._nodes import Graph, Map, Node
from skconvgp.exceptions import NotFusableError
from skconvgp.kernels import (
    Abs,
    AvgPool2d,
    Conv2d,
    Dense,
    Erf,
    Flatten,
    FlipAverage,
    GlobalAvgPool2d,
    Identity,
    Kernel,
    LeakyReLU,
    MaxNormalization,
    OrbitAverage,
    ReLU,
    Residual,
    Scale,
    Sequential,
    Sum,
    convnet,
    convnet_gap,
    dense,
    myrtle,
    residual_convnet,
    resnet32,
    three_layer_convnet,
)
from skconvgp.kernels._checks import plain_value
from skconvgp.kernels._map_layer import NNGP, NTK
from skconvgp.kernels._normalizations import CORRELATION, FIXED

__all__ = ["build_graph"]

Network = (
    convnet
    | convnet_gap
    | dense
    | myrtle
    | residual_convnet
    | resnet32
    | three_layer_convnet
)
Leaky = ReLU | LeakyReLU | Abs

# A map that may grow beyond this power of two is scaled down. float32 ends at 2^128,
# and large pixels need a part of that range.
LARGEST_GROWTH = 50

# Larger powers of two are multiplied in steps: float32 has no number below 2^-149, and
# numbers close to it have few digits.
LARGEST_STEP = 100


def build_graph(kernel: Kernel, image_shape: ImageShape) -> Graph:
    """Return the operations of a network on images of a shape, the result last.

    The network was checked for images of this shape. Raises a `NotFusableError` that
    names the part of the kernel for which there is no operation.
    """
    graph = Graph(image_shape, is_ntk=_kind(kernel) == NTK)
    channels, height, width = image_shape
    node = graph.add(Node("input", (), (height, width)))
    end = _lower(graph, kernel, Map(node, 1.0 / channels, float(channels), False))
    graph.scale, graph.is_rest = end.beta, end.is_rest
    if end.node is not graph.nodes[-1]:
        graph.add(Node("affine", (end.node,), end.node.shape))
    join_averages(graph)
    _read_as_samples(graph)
    return graph


def _read_as_samples(graph: Graph) -> None:
    """Replace pixel products by inner products of samples if only these are needed.

    If all maps of the network have one position, the input becomes "dot".
    """
    start = graph.nodes[0]
    # A sum over positions directly behind the input is an inner product of samples.
    readers = [node for node in graph.nodes if start in node.inputs]
    if all(node.kind == "sum" for node in readers):
        for node in graph.nodes:
            node.inputs = tuple(
                start if source in readers else source for source in node.inputs
            )
        graph.nodes = [node for node in graph.nodes if node not in readers]
        start.shape = (1, 1)
    is_point = all(node.shape == (1, 1) for node in graph.nodes)
    if is_point and all(node.kind != "sum" and not node.axes for node in graph.nodes):
        start.kind = "dot"


def _kind(kernel: object) -> str:
    """Return the kind of a kernel, which its networks must agree on."""
    if isinstance(kernel, Sum):
        kinds = {_kind(part) for part in kernel.parts}
    elif isinstance(kernel, (Scale, MaxNormalization)):
        kinds = {_kind(kernel.kernel)}
    else:
        kinds = {getattr(kernel, "kind", NNGP)}
    if len(kinds) > 1:
        raise NotFusableError("there are no fused kernels for sums of both kinds")
    return kinds.pop()


def _lower(graph: Graph, layer: object, value: Map) -> Map:
    # Exact types only: a class derived from one of ours may compute something else.
    lowering = _LOWERINGS.get(type(layer))
    if lowering is None:
        raise NotFusableError(f"there are no fused kernels for {layer!r}")
    return _require_units(layer, lowering(graph, layer, value))


def _require_units(layer: object, value: Map) -> Map:
    if not sys.float_info.min <= plain_value(value.beta) < math.inf:
        raise NotFusableError(
            f"the variances up to {layer!r} multiply to {plain_value(value.beta):g}, "
            "which double precision does not hold"
        )
    return value


def _chain(graph: Graph, chain: Sequential | Residual, value: Map) -> Map:
    for i, layer in enumerate(chain.layers):
        try:
            value = _lower(graph, layer, value)
        except NotFusableError as error:
            name = f"layer{i} of a {type(chain).__name__}"
            raise NotFusableError(f"{name}: {error}") from error
    return value


def _named_network(graph: Graph, network: Network, value: Map) -> Map:
    return _chain(graph, network.built, value)


def _residual(graph: Graph, layer: Residual, value: Map) -> Map:
    return _add(graph, [value, _chain(graph, layer, value)])


def _sum(graph: Graph, layer: Sum, value: Map) -> Map:
    return _add(graph, [_lower(graph, term, value) for term in layer.parts])


def _scale(graph: Graph, layer: Scale, value: Map) -> Map:
    return _weighted(layer, _lower(graph, layer.kernel, value), layer.factor)


def _normalized(graph: Graph, layer: MaxNormalization, value: Map) -> Map:
    if layer.mode == CORRELATION:
        raise NotFusableError(f"{layer!r} is only fused if it is the whole kernel")
    value = _lower(graph, layer.kernel, value)
    # The scales of mode "exact" need no node, as betas take scales out of every map.
    return _weighted(layer, value, 1.0 / layer.scale) if layer.mode == FIXED else value


def _averaged(graph: Graph, layer: FlipAverage | OrbitAverage, value: Map) -> Map:
    raise NotFusableError(
        f"{layer!r} is only fused if it is the whole kernel, with a factor or without, "
        "or one of a sum of averages alone"
    )


def _dense(graph: Graph, layer: Dense, value: Map) -> Map:
    if layer.weighing:
        raise NotFusableError(f"{layer!r} has a number for each feature")
    value = _weighted(layer, _joined(graph, value), layer.common_weight)
    value = _biased(graph, value, layer.bias_variance)
    return replace(value, is_rest=graph.is_ntk)


def _unchanged(graph: Graph, layer: object, value: Map) -> Map:
    return value


def _pool(graph: Graph, layer: AvgPool2d | GlobalAvgPool2d, value: Map) -> Map:
    shape, is_global = value.node.shape, isinstance(layer, GlobalAvgPool2d)
    if not layer.is_pool(shape):
        return _flatten(graph, Flatten(), value) if is_global else value
    rows, cols = axes = windows_of(layer, shape)
    out_shape = (1, 1) if is_global else (rows.n_outputs, cols.n_outputs)
    if shape == out_shape == (1, 1):  # one position, and zeros around it
        share = rows.hits * cols.hits / (rows.kernel * cols.kernel)
        return _weighted(layer, value, share**2)
    if rows.kernel == cols.kernel == 1:
        kind, n_pairs = "conv", 1
    else:
        kind = "average" if out_shape == (1, 1) else "pool"
        n_pairs = (rows.kernel * cols.kernel) ** 2
    if kind == "pool":  # a factor behind it would part it from a sum that it joins
        value = _rescale(graph, value, n_pairs)
    node = graph.add(Node(kind, (value.node,), out_shape, axes=axes))
    beta, growth = value.beta / n_pairs, value.growth * n_pairs
    if is_global:
        n_lattices = rows.n_outputs * cols.n_outputs
        beta = value.beta * n_lattices / (shape[0] * shape[1]) ** 2
        growth *= n_lattices
    value = replace(value, node=node, beta=beta, growth=growth)
    return _rescale(graph, value)


def _convolve(graph: Graph, layer: Conv2d, value: Map) -> Map:
    value = replace(_joined(graph, value), is_rest=graph.is_ntk)
    rows, cols = axes = layer.axes(value.node.shape)
    shape = (rows.n_outputs, cols.n_outputs)
    n_taps = rows.kernel * cols.kernel
    weight, bias = layer.weight_variance / n_taps, layer.bias_variance
    is_point = value.node.shape == shape == (1, 1)
    hits = rows.hits * cols.hits if is_point else 0
    if hits or (rows.is_identity and cols.is_identity):
        return _biased(graph, _weighted(layer, value, weight * max(hits, 1)), bias)
    value = _make_room(graph, _weighted(layer, value, weight), bias)
    additive = _ratio(bias, value.beta)
    node = Node("conv", (value.node,), shape, additive, axes=axes)
    growth = value.growth * n_taps + plain_value(additive)
    return _rescale(graph, replace(value, node=graph.add(node), growth=growth))


def _weighted(layer: object, value: Map, weight: Scalar) -> Map:
    """Return the map times a weight, which multiplies beta."""
    if plain_value(weight) == 0.0:
        raise NotFusableError(
            f"a factor of 0 in {layer!r} leaves nothing of the images"
        )
    return _require_units(layer, replace(value, beta=value.beta * weight))


def _biased(graph: Graph, value: Map, bias: Scalar) -> Map:
    """Return the map plus a bias."""
    if plain_value(bias) == 0.0:
        return value
    value = _make_room(graph, value, bias)
    additive = _ratio(bias, value.beta)
    node = Node("affine", (value.node,), value.node.shape, additive)
    growth = value.growth + plain_value(additive)
    return _rescale(graph, replace(value, node=graph.add(node), growth=growth))


def _make_room(graph: Graph, value: Map, bias: Scalar) -> Map:
    """Scale a map down before a bias is added that would let it grow too large."""
    if plain_value(bias) == 0.0:
        return value
    exponent = _exponent(bias, value.beta)
    return _scale_down(graph, value, exponent) if exponent >= LARGEST_GROWTH else value


def _joined(graph: Graph, value: Map) -> Map:
    """Return the map with the whole tangent kernel."""
    if not value.is_rest:
        return value
    node = Node("join", (value.node,), value.node.shape)
    return replace(value, node=graph.add(node), is_rest=False)


def _flatten(graph: Graph, layer: Flatten, value: Map) -> Map:
    size = math.prod(value.node.shape)
    if size == 1:
        return value
    node = graph.add(Node("sum", (value.node,), (1, 1)))
    growth = value.growth * size
    return _rescale(
        graph, replace(value, node=node, beta=value.beta / size, growth=growth)
    )


def _leaky(graph: Graph, layer: Leaky, value: Map) -> Map:
    slope, value = float(layer.slope), _joined(graph, value)
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
    value = _make_comparable(graph, _joined(graph, value), 1.0)
    # The factor acts on the covariance itself: docs/maths.rst, "Dual activations"
    factor = value.beta * 2.0
    node = Node("erf", (value.node,), value.node.shape, factor=factor)
    return Map(graph.add(node), 2.0 / math.pi, math.pi / 2.0, value.is_positive)


def _add(graph: Graph, branches: list[Map]) -> Map:
    """Add branches in the units of the largest beta, so that none is scaled up."""
    if not all(branch.is_rest for branch in branches):
        branches = [_joined(graph, branch) for branch in branches]
    first = max(range(len(branches)), key=lambda i: plain_value(branches[i].beta))
    total = branches.pop(first)
    for other in branches:
        branch = _make_comparable(graph, other, total.beta)
        ratio = _ratio(branch.beta, total.beta)
        inputs = (branch.node, total.node)
        node = Node("add", inputs, total.node.shape, factor=ratio)
        growth = total.growth + plain_value(ratio) * branch.growth
        is_positive = total.is_positive and branch.is_positive
        total = replace(
            total, node=graph.add(node), growth=growth, is_positive=is_positive
        )
    return _rescale(graph, total)


def _make_comparable(graph: Graph, value: Map, beta: Scalar) -> Map:
    """Scale a map down if its beta is much smaller than the given one."""
    exponent = _exponent(beta, value.beta)
    return _scale_down(graph, value, exponent) if exponent > LARGEST_STEP else value


def _rescale(graph: Graph, value: Map, n_terms: int = 1) -> Map:
    """Scale a map down if sums of so many of its values may be large."""
    exponent = _exponent(value.growth * n_terms, 1.0)
    return _scale_down(graph, value, exponent) if exponent >= LARGEST_GROWTH else value


def _exponent(a: Scalar, b: Scalar) -> int:
    """Return about log2(a / b), even if a / b would overflow or underflow."""
    return math.frexp(plain_value(a))[1] - math.frexp(plain_value(b))[1]


def _ratio(a: Scalar, b: Scalar) -> Scalar:
    """Return a / b as torch divides two tensors.

    The derivative of a plain number over a tensor has 1 / b^2, which may overflow.
    """
    if not isinstance(b, Tensor):
        return a / b
    return torch.as_tensor(a, dtype=b.dtype, device=b.device) / b


def _scale_down(graph: Graph, value: Map, exponent: int) -> Map:
    """Divide a map by a power of two, in steps that float32 can hold."""
    while exponent > 0:
        power = 2.0 ** min(exponent, LARGEST_STEP)
        node = Node("affine", (value.node,), value.node.shape, factor=1.0 / power)
        beta, growth = value.beta * power, value.growth / power
        value = replace(value, node=graph.add(node), beta=beta, growth=growth)
        exponent -= LARGEST_STEP
    return value


_LOWERINGS: dict[type, Callable[[Graph, Any, Map], Map]] = {
    Abs: _leaky,
    AvgPool2d: _pool,
    Conv2d: _convolve,
    Dense: _dense,
    Erf: _erf,
    Flatten: _flatten,
    FlipAverage: _averaged,
    OrbitAverage: _averaged,
    GlobalAvgPool2d: _pool,
    Identity: _unchanged,
    LeakyReLU: _leaky,
    MaxNormalization: _normalized,
    ReLU: _leaky,
    Residual: _residual,
    Scale: _scale,
    Sequential: _chain,
    Sum: _sum,
    convnet: _named_network,
    convnet_gap: _named_network,
    dense: _named_network,
    myrtle: _named_network,
    residual_convnet: _named_network,
    resnet32: _named_network,
    three_layer_convnet: _named_network,
}
