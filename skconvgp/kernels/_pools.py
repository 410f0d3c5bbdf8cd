"""Weights with which pools average, along one axis of a map."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from skconvgp._typing import FloatArray, MapShape
from skconvgp.kernels._windows import Axis

__all__ = ["Feeds", "Lattice", "Pool", "PoolAxis", "Windows", "feeds"]

Indices = np.ndarray

# From each displacement of maps in front of a pool, to those of the maps behind it that
# it is a part of, each with the weights (n_outputs, n_inputs) of positions.
Feeds = dict[int, list[tuple[int, Tensor]]]


class PoolAxis(Protocol):
    """What a pool does along one axis."""

    @property
    def size(self) -> int:
        """Number of positions of the map in front of the pool."""
        ...

    @property
    def n_outputs(self) -> int:
        """Number of positions of the map behind it."""
        ...

    def weights(
        self, outputs: tuple[Indices, Indices], inputs: tuple[Indices, Indices]
    ) -> FloatArray:
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
        """Return what it does along the rows and the columns of a map of a size."""
        ...


@dataclass(frozen=True)
class Windows:
    """Averages over windows.

    Parameters
    ----------
    axis : Axis
        The windows; positions outside of the map count as zeros.
    """

    axis: Axis

    @property
    def size(self) -> int:
        """Number of positions of the map in front of the pool."""
        return self.axis.size

    @property
    def n_outputs(self) -> int:
        """Number of windows."""
        return self.axis.n_outputs

    def weights(
        self, outputs: tuple[Indices, Indices], inputs: tuple[Indices, Indices]
    ) -> FloatArray:
        """Return the weights of pairs of inputs in pairs of windows."""
        shares = self.axis.matrix(torch.empty(0, dtype=torch.float64)).numpy()
        first, second = (
            shares[np.ix_(windows, positions)] / self.axis.kernel
            for windows, positions in zip(outputs, inputs, strict=True)
        )
        return first * second


@dataclass(frozen=True)
class Lattice:
    """Averages over positions that are a number of positions apart, then their mean.

    Parameters
    ----------
    size : int
        Number of positions of the map.
    step : int
        Distance of the positions that are averaged.
    """

    size: int
    step: int

    @property
    def n_outputs(self) -> int:
        """One, as for `Flatten`."""
        return 1

    def weights(
        self, outputs: tuple[Indices, Indices], inputs: tuple[Indices, Indices]
    ) -> FloatArray:
        """Return the weights of pairs of positions in the only output."""
        step = min(self.step, self.size)
        is_joint = (inputs[1] - inputs[0]) % step == 0
        return is_joint[None, :] * (step / self.size**2)


@lru_cache(maxsize=256)
def feeds(
    axis: PoolAxis,
    wanted: tuple[int, ...],
    is_cyclic: tuple[bool, bool],
    is_half: bool,
    dtype: torch.dtype,
    device: torch.device,
) -> Feeds:
    """Return which displacements in front of a pool are part of which behind it.

    Parameters
    ----------
    axis : PoolAxis
        The pool along one axis.
    wanted : tuple of int
        Displacements behind the pool.
    is_cyclic : tuple of bool
        Whether displacements wrap around, in front of the pool and behind it.
    is_half : bool
        Whether images are paired with themselves and the one wanted displacement is 0
        along both axes: opposite displacements then contribute the same.
    dtype, device : torch.dtype, torch.device
        Of the weights.

    Returns
    -------
    feeds : dict of int to list of (int, Tensor)
        In the order in which displacements are to be computed.
    """
    found: Feeds = {}
    for step in _steps(axis.size, is_cyclic[0], is_half):
        inputs = _pairs(axis.size, step, is_cyclic[0])
        is_alone = not is_half or step == 0 or (is_cyclic[0] and 2 * step == axis.size)
        for target in wanted:
            outputs = _pairs(axis.n_outputs, target, is_cyclic[1])
            weights = axis.weights(outputs, inputs)
            if weights.any():
                weights = weights if is_alone else 2.0 * weights
                tensor = torch.as_tensor(weights, dtype=dtype, device=device)
                found.setdefault(step, []).append((target, tensor))
    return found


def _steps(size: int, is_cyclic: bool, is_half: bool) -> range:
    """Return the displacements of a map, in order."""
    if is_cyclic:
        return range(size // 2 + 1 if is_half else size)
    return range(0 if is_half else 1 - size, size)


def _pairs(size: int, step: int, is_cyclic: bool) -> tuple[Indices, Indices]:
    """Return the positions that a displacement pairs, in the order of maps."""
    if is_cyclic:
        first = np.arange(size)
        return first, (first + step) % size
    first = np.arange(max(0, -step), size - max(0, step))
    return first, first + step
