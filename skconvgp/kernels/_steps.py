"""Steps between positions of two images along one axis, alone and in groups.

A step pairs the positions p and p + step of an axis. A group of steps is a tuple; its
pairs follow one another, step by step. Groups of several steps keep small maps from
costing as many calls of torch as large ones.
"""

from collections.abc import Iterable
from functools import lru_cache

import torch
from torch import Tensor

from skconvgp._tensors import int_range

__all__ = ["SAME", "Steps", "facing", "grouped", "n_paired", "paired", "whole_size"]

Steps = tuple[int, ...]

SAME: Steps = (0,)


def paired(size: int, steps: Steps, *, is_cyclic: bool) -> tuple[Tensor, Tensor]:
    """Return the positions that steps pair, of the first and of the second image.

    If positions do not wrap around, those that leave the axis of `size` positions are
    left out.
    """
    whole = int_range(size)
    first = [
        whole if is_cyclic else whole[max(0, -step) : size - max(0, step)]
        for step in steps
    ]
    second = [(one + step) % size for one, step in zip(first, steps, strict=True)]
    return torch.cat(first), torch.cat(second)


def n_paired(size: int, steps: Steps, *, is_cyclic: bool) -> int:
    """Return how many positions steps pair."""
    return sum(size - (0 if is_cyclic else abs(step)) for step in steps)


def whole_size(n_pairs: int, steps: Steps, *, is_cyclic: bool) -> int:
    """Return the number of positions of an axis, given the number of pairs."""
    left_out = 0 if is_cyclic else sum(abs(step) for step in steps)
    return (n_pairs + left_out) // len(steps)


def grouped(
    steps: Iterable[int], size: int, most_pairs: int, *, is_cyclic: bool
) -> list[Steps]:
    """Cut steps into groups of at most `most_pairs` pairs of positions, or of one step.

    The axis has `size` positions, which wrap around if `is_cyclic`.
    """
    groups: list[Steps] = []
    for step in steps:
        longer = (*groups[-1], step) if groups else ()
        if longer and n_paired(size, longer, is_cyclic=is_cyclic) <= most_pairs:
            groups[-1] = longer
        else:
            groups.append((step,))
    return groups


def facing(
    one: Tensor,
    two: Tensor,
    displacement: tuple[Steps, Steps],
    first_dim: int,
    *,
    is_cyclic: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return two maps at the positions that a displacement pairs.

    The displacement is the steps along the rows, in dimension `first_dim` of the maps,
    and those along the columns, in the next one. Positions wrap around if `is_cyclic`.
    """
    for dim, steps in enumerate(displacement, first_dim):
        if steps == SAME:
            continue
        size = one.shape[dim]
        if len(steps) == 1 and not is_cyclic:
            length = size - abs(steps[0])
            one = one.narrow(dim, max(0, -steps[0]), length)
            two = two.narrow(dim, max(0, steps[0]), length)
        else:
            first, second = _indices(size, steps, is_cyclic, one.device)
            one, two = one.index_select(dim, first), two.index_select(dim, second)
    return one, two


@lru_cache(maxsize=1024)
def _indices(
    size: int, steps: Steps, is_cyclic: bool, device: torch.device
) -> tuple[Tensor, Tensor]:
    first, second = paired(size, steps, is_cyclic=is_cyclic)
    return first.to(device), second.to(device)
