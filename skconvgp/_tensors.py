"""Tensors whose precision and device do not depend on torch's defaults."""

from collections.abc import Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

__all__ = [
    "int_range",
    "integers",
    "native",
    "normals",
    "nothing",
    "permutation",
    "random_ints",
    "reals",
    "uniforms",
]

HOST = torch.device("cpu")


def int_range(end: int, device: torch.device | str = HOST) -> Tensor:
    """Return the integers from 0 to end - 1."""
    return torch.arange(end, dtype=torch.int64, device=device)


def reals(values: object, device: torch.device | str = HOST) -> Tensor:
    """Return numbers in double precision, in memory of their own."""
    return torch.tensor(values, dtype=torch.float64, device=device)


def integers(values: object) -> Tensor:
    """Return whole numbers, in memory of their own, on the host."""
    return torch.tensor(values, dtype=torch.int64, device=HOST)


def nothing(*shape: int) -> Tensor:
    """Return a tensor without numbers, for results that were not asked for."""
    return torch.empty(shape, dtype=torch.float64, device=HOST)


def permutation(n: int, generator: Generator) -> Tensor:
    """Return the integers from 0 to n - 1 in random order, on the host."""
    return torch.randperm(n, generator=generator, dtype=torch.int64, device=HOST)


def random_ints(end: int, size: Sequence[int], generator: Generator) -> Tensor:
    """Return draws of the integers from 0 to end - 1, on the host."""
    return torch.randint(end, size, generator=generator, dtype=torch.int64, device=HOST)


def native(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array in the byte order of the machine: torch knows no other."""
    if array.dtype.isnative:
        return array
    return array.astype(array.dtype.newbyteorder("="), order="C")


def normals(
    size: Sequence[int], generator: Generator, dtype: torch.dtype = torch.float64
) -> Tensor:
    """Return draws of a standard normal variable, on the host."""
    return torch.randn(size, generator=generator, dtype=dtype, device=HOST)


def uniforms(
    size: Sequence[int], generator: Generator, dtype: torch.dtype = torch.float64
) -> Tensor:
    """Return draws between 0 and 1, on the host."""
    return torch.rand(size, generator=generator, dtype=dtype, device=HOST)
