"""Chains of layers in front of pools and behind them."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

from torch import Tensor

from skconvgp._typing import MapShape, Prepared
from skconvgp.kernels._map_layer import MapLayer, Maps
from skconvgp.kernels._pools import Feeds, Pool
from skconvgp.kernels._steps import Steps, n_paired

__all__ = [
    "Segment",
    "first_pool",
    "image_pass",
    "is_pool",
    "largest_map",
    "leaves",
    "most_open",
    "n_layers",
    "pair_pass",
    "require_displaceable",
    "require_no_pool",
    "segment_of",
    "strides_of",
    "unrolled",
]


def leaves(layer: Any, shape: MapShape) -> Iterator[tuple[Any, MapShape]]:
    """Yield the layers that a layer consists of, each with the size of its input."""
    inner = getattr(layer, "leaves", None)
    yield from inner(shape) if inner else ((layer, shape),)


def unrolled(layer: Any) -> Iterator[Any]:
    """Yield the layers of a chain, and of chains in it; otherwise the layer itself."""
    inner = getattr(layer, "unrolled", None)
    yield from inner() if inner else (layer,)


def n_layers(parts: Iterable[Any]) -> int:
    """Return how many layers parts are: a convolution and its activation are one."""
    return max(1, sum(1 for _ in parts) // 2)


def first_pool(layer: Any, shape: MapShape) -> Any | None:
    """Return the first layer that averages over positions; None without one."""
    return next((one for one, size in leaves(layer, shape) if is_pool(one, size)), None)


def is_pool(layer: Any, shape: MapShape) -> bool:
    """Whether a layer averages over positions of maps of a size."""
    return hasattr(layer, "is_pool") and bool(layer.is_pool(shape))


@dataclass(frozen=True)
class Segment:
    """Layers between two pools."""

    layers: tuple[MapLayer, ...]
    shape: MapShape  # size of the maps in front of the layers
    out: MapShape  # size of the maps behind them
    strides: tuple[int, int]  # rows and columns in front for each row and column behind
    is_cyclic: bool  # whether displacements wrap around, as circular padding needs

    @property
    def depth(self) -> int:
        """Layers that a pair of positions passes."""
        size, parts = self.shape, list[Any]()
        for layer in self.layers:
            parts.extend(leaves(layer, size))
            size = layer.out_shape(size)
        return n_layers(parts)

    def n_paired(self, steps: Steps, axis: int) -> int:
        """Return how many positions behind it steps pair along an axis."""
        return n_paired(self.out[axis], steps, is_cyclic=self.is_cyclic)

    def image_pass(self, var: Tensor) -> tuple[Tensor, Prepared]:
        """Pass variance maps (h, w, n)."""
        return image_pass(self.layers, var)

    def pair_pass(self, maps: Maps, one: Prepared, two: Prepared) -> Maps:
        """Pass covariance maps."""
        return pair_pass(self.layers, maps, one, two)


def image_pass(layers: Iterable[MapLayer], var: Tensor) -> tuple[Tensor, Prepared]:
    """Pass variance maps (h, w, n) through layers in order."""
    traces: list[Prepared] = []
    for layer in layers:
        var, trace = layer.image_pass(var)
        traces.append(trace)
    return var, tuple(traces)


def pair_pass(
    layers: Iterable[MapLayer], maps: Maps, one: Prepared, two: Prepared
) -> Maps:
    """Pass covariance maps through layers in order."""
    first, second = cast(tuple[Prepared, ...], one), cast(tuple[Prepared, ...], two)
    for layer, a, b in zip(layers, first, second, strict=True):
        maps = layer.pair_pass(maps, a, b)
    return maps


def segment_of(layers: list[Any], start: MapShape, out: MapShape) -> Segment:
    """Return layers in front of a pool, given the sizes of their first and last map."""
    strides = [strides_of(layer) for layer in layers]
    total = 1, 1
    for rows, cols in strides:
        total = total[0] * rows, total[1] * cols
    is_cyclic, size = False, start
    for layer in layers:
        parts = leaves(layer, size)
        is_cyclic |= any(getattr(part, "is_circular", False) for part, _ in parts)
        size = layer.out_shape(size)
    return Segment(tuple(layers), start, out, total, is_cyclic)


def strides_of(layer: Any) -> tuple[int, int]:
    """Return rows and columns of the input of a layer for each of its output."""
    if not hasattr(layer, "map_strides"):
        raise ValueError(
            f"{layer!r} stands in front of a pool, and does not say at which distance "
            "in its input two positions of its output lie: give its class the "
            "attribute `map_strides`, (1, 1) for an activation, and read tables in "
            "`pair_pass` by `maps.sides`."
        )
    return cast(tuple[int, int], layer.map_strides)


def require_no_pool(layer: Any, shape: MapShape) -> None:
    """Raise if a layer that is no chain has a pool inside."""
    pool = first_pool(layer, shape)
    if pool is not None:
        raise ValueError(
            f"{pool!r} averages over positions within {layer!r}: maps of different "
            "positions are not added across a pool. Put one pool into the chain, in "
            "front of this layer or behind it; behind a sum whose branches all end "
            "with this pool it is the same network."
        )


def require_displaceable(segment: Segment, pool: Pool) -> None:
    """Raise if maps of different positions cannot pass through layers."""
    size = segment.shape
    for layer in segment.layers:
        for part, shape in leaves(layer, size):
            require = getattr(part, "require_displaceable", None)
            if require is not None:
                require(shape, segment.is_cyclic, pool)
        size = layer.out_shape(size)


def largest_map(segment: Segment, rows: Feeds, cols: Feeds) -> int:
    """Return the positions of the largest map in front of layers."""
    sizes = zip(segment.shape, segment.strides, (rows, cols), strict=True)
    is_cyclic = segment.is_cyclic
    return math.prod(
        max(
            n_paired(size, tuple(stride * step for step in steps), is_cyclic=is_cyclic)
            for steps in feed
        )
        for size, stride, feed in sizes
    )


def most_open(behind: Segment, rows: Feeds, cols: Feeds) -> int:
    """Return the most positions of maps behind a pool that are held at once.

    `rows` and `cols` say which displacements in front of the pool are part of which
    behind it, in the order in which they come.
    """
    height, width = behind.shape
    spans: dict[Steps, tuple[int, int]] = {}  # first and last row that is part of one
    for i, targets in enumerate(rows.values()):
        for target, _ in targets:
            spans[target] = spans.get(target, (i, i))[0], i
    n_open = [0] * len(rows)
    for target, (first, last) in spans.items():
        for i in range(first, last + 1):
            n_open[i] += n_paired(height, target, is_cyclic=behind.is_cyclic)
    by_col = {target for targets in cols.values() for target, _ in targets}
    n_cols = sum(n_paired(width, one, is_cyclic=behind.is_cyclic) for one in by_col)
    return max(n_open) * n_cols
