r"""Networks with pools: covariance maps of one displacement after another.

The formulas: docs/maths.rst, "Pooling".

A pool averages over positions, so its covariances need those of different positions in
front of it. They are computed for one displacement d at a time, as maps of
:math:`\mathrm{Cov}(x_p, x'_{p+d})` over the positions p for which both exist. Such a
map passes through layers like that of a smaller image; behind a pool it is added to the
maps that it is a part of, and these go on as soon as they are complete. The map of all
pairs of positions never exists.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from skconvgp._typing import MapShape, Prepared
from skconvgp.kernels._keys import by_settings
from skconvgp.kernels._map_layer import NNGP, NTK, Maps
from skconvgp.kernels._pools import Feeds, Pool, feeds
from skconvgp.kernels._prepared import take
from skconvgp.kernels._recompute import (
    Swap,
    recomputed,
    settings_of,
    swapped,
    tensors_of,
)
from skconvgp.kernels._segments import (
    Segment,
    is_pool,
    largest_map,
    most_open,
    require_displaceable,
    require_no_pool,
    segment_of,
    unrolled,
)
from skconvgp.kernels._steps import SAME, Steps, facing
from skconvgp.kernels._tangents import same_images, started

__all__ = ["Stages", "stages_of"]

# Images whose maps with themselves are computed at once. On a GPU the calls of torch
# take as long for one image as for these.
SELF_CHUNK = {"cpu": 64, "cuda": 1024}
GROUP_COLUMNS = 64  # of maps of several displacements that pass through layers at once
WORKING_COPIES = 8  # maps of the size of one that is computed; others are held once


@dataclass(frozen=True)
class Stages:
    """A network cut at its pools."""

    # Layers in front of each pool, and behind the last one.
    segments: tuple[Segment, ...]
    pools: tuple[Pool, ...]
    kind: str  # "nngp" or "ntk"

    @property
    def n_positions(self) -> int:
        """Positions of a pair in work: the largest map, and a part of those held."""
        levels = list(zip(self.segments, self._feeds(), strict=False))
        largest = max(
            *(largest_map(segment, rows, cols) for segment, (rows, cols) in levels),
            math.prod(self.tail.shape),
        )
        held = sum(
            most_open(behind, rows, cols)
            for behind, (_, (rows, cols)) in zip(self.segments[1:], levels, strict=True)
        )
        return largest + -(-held // WORKING_COPIES)

    @property
    def n_position_pairs(self) -> int:
        """Pairs of positions whose covariances a pair of images needs."""
        return sum(self._n_paired())

    @property
    def depth(self) -> int:
        """Layers that a pair of positions passes in the mean, the last ones ignored."""
        n_paired = self._n_paired()
        deep = zip(n_paired, self.segments, strict=False)
        return -(-sum(n * segment.depth for n, segment in deep) // sum(n_paired))

    def _n_paired(self) -> list[int]:
        """Return the pairs of positions in front of each pool."""
        levels = zip(self._feeds(), self.segments, strict=False)
        return [
            math.prod(
                sum(segment.n_paired(steps, axis) for steps in feed)
                for axis, feed in enumerate(feeds_of_level)
            )
            for feeds_of_level, segment in levels
        ]

    def _feeds(self) -> list[tuple[Feeds, Feeds]]:
        return self.feeds(
            len(self.pools) - 1,
            is_half=False,
            dtype=torch.float32,
            device=torch.device("cpu"),
        )

    @property
    def tail(self) -> Segment:
        """The layers behind the last pool."""
        return self.segments[-1]

    def prepare(self, pixels: Tensor) -> Prepared:
        """Return the tables of all segments, for pixels (h, w, c, n)."""
        n_images = pixels.shape[-1]
        size = SELF_CHUNK[pixels.device.type]
        starts = range(0, max(n_images, 1), size)
        parts = [self._tables(pixels[..., i : i + size]) for i in starts]
        return parts[0] if len(parts) == 1 else _joined(parts)

    def cross(
        self, one: tuple[Tensor, Prepared], two: tuple[Tensor, Prepared]
    ) -> Tensor:
        """Return the covariances (n1, n2) of images, given as pixels and tables."""
        (pixels1, tables1), (pixels2, tables2) = one, two
        n_channels = pixels1.shape[2]

        def read(displacement: tuple[Steps, Steps], is_cyclic: bool) -> Maps:
            first, second = facing(
                pixels1, pixels2, displacement, 0, is_cyclic=is_cyclic
            )
            nngp = torch.matmul(first.mT / n_channels, second)
            maps = Maps(nngp, displacement=displacement, is_cyclic=is_cyclic)
            return started(maps, self.kind, is_same)

        is_same = same_images(pixels1, pixels2) if self.kind == NTK else None
        last = len(self.pools) - 1
        stream = _Stream(self, last, read, _branches(tables1), _branches(tables2))
        maps = stream.result(is_half=False, like=pixels1)
        tail1, tail2 = _branches(tables1)[-1], _branches(tables2)[-1]
        return self.tail.pair_pass(maps, tail1, tail2).of_kind(self.kind)[0, 0]

    def diag(self, pixels: Tensor, tables: Prepared) -> Tensor:
        """Return the prior variances (n,) of images, given as pixels and tables."""
        n_images = pixels.shape[-1]
        size = SELF_CHUNK[pixels.device.type]
        parts = [slice(i, i + size) for i in range(0, n_images, size)]
        values = []
        for part in parts or [slice(0, 0)]:
            traces = _branches(take(tables, part))
            maps = self._self_maps(pixels[..., part], traces, self.kind)
            if self.kind == NTK:
                out = self.tail.pair_pass(maps, traces[-1], traces[-1]).of_kind(NTK)
            else:
                out = self.tail.image_pass(maps.nngp)[0]
            values.append(out.reshape(-1))
        return torch.cat(values)

    def _tables(self, pixels: Tensor) -> tuple[Prepared, ...]:
        tables: list[Prepared] = []
        var = (pixels * pixels).mean(2)
        for segment in self.segments[:-1]:
            _, trace = segment.image_pass(var)
            tables.append(trace)
            if len(tables) < len(self.pools) or self._tail_has_tables(var):
                var = self._self_maps(pixels, tuple(tables), NNGP).nngp
        if self._tail_has_tables(var):
            return (*tables, self.tail.image_pass(var)[1])
        return (*tables, (None,) * len(self.tail.layers))

    def _tail_has_tables(self, like: Tensor) -> bool:
        """Whether the layers behind the last pool need variances."""
        var = like.new_ones((*self.tail.shape, 1))
        return any(True for _ in tensors_of(self.tail.image_pass(var)[1]))

    def _self_maps(
        self, pixels: Tensor, tables: tuple[Prepared, ...], kind: str
    ) -> Maps:
        """Return variances (h, w, n) behind the pool after the given tables."""

        def read(displacement: tuple[Steps, Steps], is_cyclic: bool) -> Maps:
            one, two = facing(pixels, pixels, displacement, 0, is_cyclic=is_cyclic)
            nngp = (one * two).mean(2)
            maps = Maps(nngp, displacement=displacement, is_cyclic=is_cyclic)
            return started(replace(maps, is_self=True), kind)

        last = min(len(tables), len(self.pools)) - 1
        stream = _Stream(self, last, read, tables, tables)
        return stream.result(is_half=True, like=pixels)

    def feeds(
        self, last: int, *, is_half: bool, dtype: torch.dtype, device: torch.device
    ) -> list[tuple[Feeds, Feeds]]:
        """Return which displacements each pool up to the last one reads, backwards.

        Behind pool `last` only equal positions are wanted. `is_half` says that images
        are paired with themselves. The weights have the given dtype and device.
        """
        found: list[tuple[Feeds, Feeds]] = []
        wanted: list[tuple[Steps, ...]] = [(SAME,), (SAME,)]
        for level in range(last, -1, -1):
            segment, behind = self.segments[level : level + 2]
            is_cyclic = segment.is_cyclic, behind.is_cyclic
            half = is_half and level == last
            rows, cols = (
                feeds(axis, steps, most, is_cyclic, part, dtype, device)
                for axis, steps, most, part in zip(
                    self.pools[level].pool_axes(segment.out),
                    wanted,
                    (0, GROUP_COLUMNS),
                    (half, False),
                    strict=True,
                )
            )
            found.insert(0, (rows, cols))
            wanted = [
                tuple(tuple(stride * step for step in steps) for steps in feed)
                for stride, feed in zip(segment.strides, (rows, cols), strict=True)
            ]
        return found


class _Stream:
    """The maps of a network, displacement by displacement.

    `read` returns the input maps of a displacement. `one` and `two` are tables of the
    images of both sides, for each segment. Behind pool `last` only equal positions are
    wanted.
    """

    def __init__(
        self,
        stages: Stages,
        last: int,
        read: Callable[[tuple[Steps, Steps], bool], Maps],
        one: tuple[Prepared, ...],
        two: tuple[Prepared, ...],
    ) -> None:
        self.stages, self.last, self.read = stages, last, read
        self.one, self.two = one, two
        layers = stages.segments[0].layers
        settings = (value for layer in layers for value in settings_of(layer))
        self.inputs = [*settings, *tensors_of(one[0]), *tensors_of(two[0])]

    def result(self, *, is_half: bool, like: Tensor) -> Maps:
        """Return the maps of equal positions behind the last pool."""
        self.feeds = self.stages.feeds(
            self.last, is_half=is_half, dtype=like.dtype, device=like.device
        )
        (maps,) = self._behind_pool(self.last)
        return maps

    def _behind_pool(self, level: int) -> Iterator[Maps]:
        """Yield maps behind a pool as soon as all that they consist of is added."""
        rows, cols = self.feeds[level]
        missing = Counter(row for targets in rows.values() for row, _ in targets)
        missing = Counter({row: n * len(cols) for row, n in missing.items()})
        sums: dict[Steps, dict[Steps, Maps]] = {row: {} for row in missing}
        is_cyclic = self.stages.segments[level + 1].is_cyclic
        in_double = self.stages.pools[level].in_double
        for maps in self._before_pool(level):
            row_step, col_step = maps.displacement
            for row, by_row in rows[row_step]:
                part = maps.linear(partial(_product, by_row, dim=0))
                _add(sums[row], part, cols[col_step], in_double)
                del part
                missing[row] -= 1
                if not missing[row]:
                    by_steps = sums.pop(row)
                    for col in sorted(by_steps):
                        whole = by_steps.pop(col)
                        yield replace(
                            whole, displacement=(row, col), is_cyclic=is_cyclic
                        )
                        del whole
            del maps  # not held while the next ones are computed

    def _before_pool(self, level: int) -> Iterator[Maps]:
        """Yield the maps in front of a pool, by rows of displacements."""
        segment = self.stages.segments[level]
        if level > 0:
            for maps in self._behind_pool(level - 1):
                yield segment.pair_pass(maps, self.one[level], self.two[level])
                del maps
            return
        rows, cols = self.feeds[0]
        for row in rows:
            for col in cols:
                yield self._finest((row, col))

    def _finest(self, displacement: tuple[Steps, Steps]) -> Maps:
        """Return the maps in front of the first pool."""
        segment = self.stages.segments[0]
        rows, cols = (
            tuple(stride * step for step in steps)
            for stride, steps in zip(segment.strides, displacement, strict=True)
        )

        maps = self.read((rows, cols), segment.is_cyclic)

        def compute(swap: Swap) -> Tensor:
            values = segment.layers, self.one[0], self.two[0]
            layers, one, two = swapped(values, swap) if swap else values
            start = replace(maps, nngp=swap.get(id(maps.nngp), maps.nngp))
            out = replace(segment, layers=layers).pair_pass(start, one, two)
            return out.nngp if out.ntk is None else torch.stack([out.nngp, out.ntk])

        # Kept for the backward pass, all maps of a pair would fill the memory.
        out = recomputed(compute, [maps.nngp, *self.inputs])
        nngp, ntk = (out, None) if maps.ntk is None else out.unbind()
        return replace(maps, nngp=nngp, ntk=ntk, displacement=displacement)


@by_settings
def stages_of(network: Any, shape: MapShape) -> Stages:
    """Return a network with pools, cut at these; raise if it cannot be computed.

    `shape` is the size (h, w) of the images, for which the network was checked.
    """
    segments: list[Segment] = []
    pools: list[Pool] = []
    layers: list[Any] = []
    start = shape
    for layer in unrolled(network):
        if is_pool(layer, shape):
            segments.append(segment_of(layers, start, shape))
            pools.append(layer)
            layers, start = [], layer.out_shape(shape)
        else:
            require_no_pool(layer, shape)
            layers.append(layer)
        shape = layer.out_shape(shape)
    tail = Segment(tuple(layers), start, shape, (1, 1), False)
    for segment, pool in zip(segments, pools, strict=True):
        require_displaceable(segment, pool)
    return Stages((*segments, tail), tuple(pools), network.kind)


def _add(
    sums: dict[Steps, Maps],
    part: Maps,
    targets: list[tuple[Steps, Tensor]],
    in_double: bool,
) -> None:
    """Add maps, whose rows are averaged, to the sums of all that they are a part of."""
    for col, by_col in targets:
        value = part.linear(partial(_product, by_col, dim=1))
        if in_double:
            value = value.linear(torch.Tensor.double)
        before = sums.get(col)
        sums[col] = value if before is None else before.plus(value)


def _product(weights: Tensor, maps: Tensor, dim: int) -> Tensor:
    """Multiply one axis of maps (h, w, ...) by a matrix."""
    lead = maps.shape[:dim]
    out = weights @ maps.reshape(*lead, maps.shape[dim], -1)
    return out.reshape(*lead, len(weights), *maps.shape[dim + 1 :])


def _branches(tables: Prepared) -> tuple[Prepared, ...]:
    assert isinstance(tables, tuple)
    return tables


def _joined(parts: list[Any]) -> Prepared:
    """Return the tables of several sets of images as tables of one set."""
    if isinstance(parts[0], tuple):
        return tuple(_joined(list(branches)) for branches in zip(*parts, strict=True))
    return None if parts[0] is None else torch.cat(parts, -1)
