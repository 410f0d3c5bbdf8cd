"""Weights with which pools average, along one axis of a map."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import torch
from torch import Tensor

from skconvgp._tensors import reals
from skconvgp._typing import MapShape
from skconvgp.kernels._steps import Steps, grouped, n_paired, paired
from skconvgp.kernels._windows import Axis

__all__ = ["Feeds", "Lattice", "Pool", "PoolAxis", "Windows", "feeds"]

Pairs = tuple[Tensor, Tensor]  # positions of the first and of the second image

# From each group of steps in front of a pool to those behind it that its maps are part
# of, each with the weights (n_outputs, n_inputs) of pairs.
Feeds = dict[Steps, list[tuple[Steps, Tensor]]]


class PoolAxis(Protocol):
    """Averages of a pool along one axis; axes with the same averages are equal."""

    def __hash__(self) -> int:
        """Return a hash of the settings."""
        ...

    @property
    def size(self) -> int:
        """Number of positions of the map in front of the pool."""
        ...

    @property
    def n_outputs(self) -> int:
        """Number of positions of the map behind it."""
        ...

    def weights(self, outputs: Pairs, inputs: Pairs) -> Tensor:
        """Return the weights of pairs of inputs in pairs of outputs."""
        ...


class Pool(Protocol):
    """Layer that may average covariances of different positions."""

    @property
    def in_double(self) -> bool:
        """Whether maps are added in float64."""
        ...

    def is_pool(self, shape: MapShape) -> bool:
        """Whether it does for maps of a size."""
        ...

    def pool_axes(self, shape: MapShape) -> tuple[PoolAxis, PoolAxis]:
        """Return its axes for the rows and the columns of a map of a size."""
        ...


@dataclass(frozen=True)
class Windows:
    """Averages over windows; positions outside of the map count as zeros."""

    axis: Axis

    @property
    def size(self) -> int:
        """Number of positions of the map in front of the pool."""
        return self.axis.size

    @property
    def n_outputs(self) -> int:
        """Number of windows."""
        return self.axis.n_outputs

    def weights(self, outputs: Pairs, inputs: Pairs) -> Tensor:
        """Return the weights of pairs of inputs in pairs of windows."""
        sums = self.axis.matrix(reals([]))
        first, second = (
            sums[windows][:, positions] / self.axis.kernel
            for windows, positions in zip(outputs, inputs, strict=True)
        )
        return first * second


@dataclass(frozen=True)
class Lattice:
    """Averages over positions that are a number of positions apart, then their mean."""

    size: int  # number of positions of the map
    step: int  # distance of the positions that are averaged

    @property
    def n_outputs(self) -> int:
        """One, as for `Flatten`."""
        return 1

    def weights(self, outputs: Pairs, inputs: Pairs) -> Tensor:
        """Return the weights of pairs of positions in the only output."""
        step = min(self.step, self.size)
        is_joint = (inputs[1] - inputs[0]) % step == 0
        return is_joint[None, :].to(torch.float64) * (step / self.size**2)


@lru_cache(maxsize=256)
def feeds(
    axis: PoolAxis,
    wanted: tuple[Steps, ...],
    most_pairs: int,
    is_cyclic: tuple[bool, bool],
    is_half: bool,
    dtype: torch.dtype,
    device: torch.device,
) -> Feeds:
    """Return which steps in front of a pool are part of which behind it, with weights.

    `wanted` holds groups of steps behind the pool. The keys of the result are groups of
    steps in front of it, in the order in which their maps are to be computed; a group
    of several steps has at most `most_pairs` pairs. `is_cyclic` says whether steps wrap
    around, in front of the pool and behind it. `is_half` says that images are paired
    with themselves, and that the one wanted displacement is 0 along both axes: opposite
    displacements then contribute the same. The weights have the given dtype and device.
    """
    before, behind = is_cyclic
    targets = [
        (steps, paired(axis.n_outputs, steps, is_cyclic=behind)) for steps in wanted
    ]
    steps = [
        step
        for step in _all_steps(axis.size, before, is_half)
        if any(
            axis.weights(pairs, paired(axis.size, (step,), is_cyclic=before)).any()
            for _, pairs in targets
        )
    ]
    found: Feeds = {}
    for group in grouped(steps, axis.size, most_pairs, is_cyclic=before):
        inputs = paired(axis.size, group, is_cyclic=before)
        times = torch.cat(
            [
                torch.full(
                    (n_paired(axis.size, (step,), is_cyclic=before),),
                    2.0 if is_half and not _is_alone(axis.size, step, before) else 1.0,
                    dtype=torch.float64,
                    device="cpu",
                )
                for step in group
            ]
        )
        weights = [(target, axis.weights(pairs, inputs)) for target, pairs in targets]
        found[group] = [
            (target, (values * times).to(device, dtype))
            for target, values in weights
            if values.any()
        ]
    return found


def _all_steps(size: int, is_cyclic: bool, is_half: bool) -> range:
    """Return the steps of an axis, in order."""
    if is_cyclic:
        return range(size // 2 + 1 if is_half else size)
    return range(0 if is_half else 1 - size, size)


def _is_alone(size: int, step: int, is_cyclic: bool) -> bool:
    """Whether a step is its opposite."""
    return step == 0 or (is_cyclic and 2 * step == size)
