"""Rows that are known by features, and a random subset of them."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from skconvgp._tensors import uniforms
from skconvgp.engine import to_numpy
from skconvgp.inference import EqualInputs

EVERY = slice(None)  # each sample has a row of its own


def taken(value: Any, indices: Any) -> Any:
    """Return a dataclass of tensors, or None, with some of their rows."""
    held = {one.name: getattr(value, one.name) for one in fields(value)}
    parts = {name: one[indices] for name, one in held.items() if one is not None}
    return replace(value, **parts)


def joined(one: Any, other: Any) -> Any:
    """Return a dataclass of tensors, or None, with the rows of two."""
    held = [field.name for field in fields(one)]
    names = [name for name in held if getattr(one, name) is not None]
    pairs = {name: [getattr(part, name) for part in (one, other)] for name in names}
    return replace(one, **{name: torch.cat(pair) for name, pair in pairs.items()})


@dataclass(frozen=True)
class FeatureRows:
    """Rows given by features, for a mean prior variance of 1."""

    features: Tensor  # (m, r), F
    residual_diag: Tensor  # (m,), prior variances minus the diagonal of F F^T


@dataclass(frozen=True)
class Observed:
    """Samples with their observations, and which have equal inputs."""

    targets: Tensor  # (s, k), scaled
    weights: Tensor  # (s,)
    # (s,), weight that stays at its input if a sample is left out, over `shares`
    staying: Tensor
    inputs: EqualInputs
    of: Any  # row (s,) of each sample, or `EVERY`
    codes: Any  # tensor (s,) of codes of classes; None without classes
    # (s,), noise variances as shares of their mean; None for one noise.
    shares: Tensor | None = None


def whole_groups(
    order: NDArray[np.intp], groups: NDArray[np.intp], n_most: int
) -> NDArray[np.intp]:
    """Return rows of the first groups (m,) of a random order, as a whole.

    A group has the place of its first row, so that its size says nothing about whether
    it is kept. If the first group has more than so many rows it is kept alone.
    """
    place, (first, own, sizes) = order.argsort(), _members(groups)
    ranks = place[first].argsort().argsort()
    # Sizes in the order of groups.
    ends = sizes[ranks.argsort()].cumsum()
    n_groups = max(1, int(np.searchsorted(ends, n_most, side="right")))
    return np.flatnonzero(ranks[own] < n_groups)


def shared_keys(
    keys: NDArray[np.floating], units: NDArray[np.intp]
) -> NDArray[np.floating]:
    """Return keys (m,) that all rows of a unit share: that of its first row."""
    first, own, _ = _members(units)
    shared: NDArray[np.floating] = keys[first][own]
    return shared


def _members(groups: NDArray[np.intp]) -> tuple[NDArray[np.intp], ...]:
    """Return the first row of each group, the group of each row, and sizes."""
    _, first, own, sizes = np.unique(
        groups, return_index=True, return_inverse=True, return_counts=True
    )
    return first, own.ravel(), sizes


class Rows(Protocol):
    """Rows of which a random subset is kept."""

    def take(self, chosen: NDArray[np.intp]) -> Self:
        """Return some of the rows."""
        ...

    def join(self, other: Self) -> Self:
        """Return the rows of both; rows of the other follow."""
        ...


Kept = TypeVar("Kept", bound=Rows)


@dataclass(frozen=True)
class Reservoir(Generic[Kept]):
    """A random subset of all rows so far, of a bounded size.

    Each row gets a random key, and those with the smallest keys are kept: then a subset
    of two parts follows from subsets of each.
    """

    keys: NDArray[np.floating]  # (m,)
    rows: Kept

    def smallest(self, size: int, units: NDArray[np.intp] | None = None) -> Self:
        """Return at most so many of the rows, in their order; units (m,) as a whole."""
        order = self.keys.argsort(kind="stable")
        chosen = np.sort(order[:size])
        if units is not None:
            chosen = whole_groups(order, units, size)
        return replace(self, keys=self.keys[chosen], rows=self.rows.take(chosen))

    def join(self, other: Self, size: int) -> Self:
        """Return at most so many rows of both."""
        keys = np.concatenate([self.keys, other.keys])
        return type(self)(keys, self.rows.join(other.rows)).smallest(size)


def draw_keys(n_before: int, n_rows: int, generator: Generator) -> NDArray[np.floating]:
    """Return random keys (m,) of rows that follow earlier samples.

    The keys of earlier ones are drawn again: a seed gives each sample the same key,
    however samples are cut into batches.
    """
    keys = uniforms((n_before + n_rows,), generator, torch.float32)[n_before:]
    return to_numpy(keys)
