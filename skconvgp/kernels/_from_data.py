"""Settings of a kernel that follow from training samples."""

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from skconvgp._parts import Part
from skconvgp._tensors import int_range

__all__ = [
    "MEDIAN",
    "digests",
    "median_distance",
    "settings_from_data",
    "smallest_digests",
]

MEDIAN = "median"  # instead of a number as lengthscale
MEDIAN_ROWS = 1000  # different samples whose distances are compared
BLOCK = 2**20  # numbers whose digest is computed at once

# Odd multipliers of splitmix64 (Steele, Lea and Flood, 2014), as signed numbers.
MULTIPLIERS = (-0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15)


@runtime_checkable
class FollowsData(Protocol):
    """A kernel with settings that may follow from training samples."""

    def settings_from(self, images: Tensor) -> dict[str, object]:
        """Return these settings by name, from images (n, c, h, w) or vectors (n, d)."""
        ...


def settings_from_data(
    part: Part, images: Tensor, prefix: str = ""
) -> Iterator[tuple[str, object]]:
    """Yield names and values of settings, also of nested parts.

    A nested part that is itself such a setting is not asked: it sees other samples.
    """
    values = part.settings_from(images) if isinstance(part, FollowsData) else {}
    for name, value in values.items():
        yield prefix + name, value
    for name, value in part.get_params(deep=False).items():
        if isinstance(value, Part) and name not in values:
            yield from settings_from_data(value, images, f"{prefix}{name}__")


def median_distance(vectors: Tensor) -> float:
    """Return the median Euclidean distance of different vectors (n, d).

    Equal vectors count once, so that a vector may come several times, and the order
    of vectors does not matter. Of more than `MEDIAN_ROWS` those with the smallest
    digests are taken. Where all are equal, it is 1.
    """
    chosen = smallest_digests(vectors, MEDIAN_ROWS)
    distances = torch.pdist(vectors[chosen].to(torch.float64))
    is_apart = distances > 0.0
    apart = distances if bool(is_apart.all()) else distances[is_apart]
    return _median(apart) if len(apart) else 1.0


def _median(values: Tensor) -> float:
    """Return the median, without the whole order."""
    middle = (len(values) + 1) // 2
    lower = values.kthvalue(middle).values
    above = values > lower
    if len(values) % 2 or len(values) - int(above.sum()) > middle:
        return float(lower)
    return float(lower.lerp(values[above].min(), 0.5))


def smallest_digests(vectors: Tensor, count: int) -> Tensor:
    """Return indices of at most `count` different vectors (n, d).

    Which vectors depends neither on their order nor on how often each one comes.
    """
    order, keys = digests(vectors).sort()
    different = torch.ones_like(keys, dtype=torch.bool)
    different[1:] = order[1:] != order[:-1]
    return keys[different][:count]


def digests(vectors: Tensor) -> Tensor:
    """Return a 64-bit digest of each vector, which does not depend on its position."""
    n, d = vectors.shape
    weights = 2 * _mix(int_range(d, vectors.device)) + 1
    size = max(1, BLOCK // d)
    parts = (vectors[i : i + size] for i in range(0, n, size))
    bits = ((part.to(torch.float64) + 0.0).view(torch.int64) for part in parts)
    # The bits of whole numbers lie in the upper half of a float64.
    return torch.cat([_mix(((b ^ (b >> 32)) * weights).sum(1)) for b in bits])


def _mix(bits: Tensor) -> Tensor:
    """Spread each bit over all of a 64-bit number."""
    for shift, multiplier in zip((30, 27), MULTIPLIERS, strict=True):
        bits = (bits ^ (bits >> shift)) * multiplier
    return bits ^ (bits >> 31)
