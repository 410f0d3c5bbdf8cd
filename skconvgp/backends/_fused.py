"""Tiles of a lowered network, on any processor that runs its programs."""

import math
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from skconvgp._protocols import TileCosts
from skconvgp._typing import Prepared
from skconvgp.backends._program import Program

__all__ = ["FusedBackend", "FusedTangentBackend", "Processor"]

# Copies of the results of a pair that are held while its tile is put together: those
# of single programs, the joined ones, and those mirrored at the diagonal.
LIVE_VALUES = 4


class Processor(Protocol):
    """Runs programs: the compiled extension, or a GPU."""

    @property
    def instruction_set(self) -> str:
        """Name of the instruction set."""
        ...

    @property
    def roots(self) -> int:
        """Values of a position in the tables of piecewise linear activations."""
        ...

    @property
    def tangents_at_once(self) -> int:
        """Largest number of derivatives in one pass over a pair.

        More derivatives share the work for the value; with fewer, all maps of a pair
        stay in cache or registers.
        """
        ...

    def require_accepted(self, program: Program) -> None:
        """Raise NotFusableError if a program is too large."""
        ...

    def image_bytes(self, program: Program, image: Tensor) -> int:
        """Return the bytes of the tables of an image like this one (1, c, h, w)."""
        ...

    def worker_bytes(self, program: Program, image: Tensor) -> int:
        """Return the bytes that a call holds beside its arguments and its result."""
        ...

    def prepare(self, program: Program, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return the tables (n, t) and the variances (n, 1 + p) of images."""
        ...

    def cross(
        self,
        program: Program,
        one: tuple[Tensor, Tensor],
        two: tuple[Tensor, Tensor],
        *,
        is_upper: bool,
    ) -> Tensor:
        """Return covariances (n1, n2, 1 + p) from tables and variances of two sides."""
        ...


@dataclass(frozen=True)
class FusedBackend:
    """Tiles of a network; all layers of a pair are computed in cache.

    The last map of the program is the result: of two the tangent kernel.

    The tables of an image and its variance are computed in double precision, even if
    maps are in single precision. Values are float64.
    """

    program: Program
    processor: Processor
    # Maps that a value of a pair takes, one for each displacement and layer.
    n_passes: int = 1

    def measure(self, image: Tensor) -> TileCosts:
        """Return the bytes that images like this one (1, c, h, w) need."""
        costs = _measure(self.processor, (self.program,), (), image)
        return replace(costs, n_passes=self.n_passes)

    def prepare(self, images: Tensor) -> Prepared:
        """Return the tables (t, n) and variances (1 or 2, n) of images (n, c, h, w)."""
        tables, diag = self.processor.prepare(self.program, images)
        return tables.mT, diag.mT

    def cross(self, one: Prepared, two: Prepared) -> Tensor:
        """Return the covariances (n1, n2) of a tile."""
        return self._values(one, two, is_upper=False)

    def gram(self, one: Prepared) -> Tensor:
        """Return the covariances (n, n); those below the diagonal are undefined."""
        return self._values(one, one, is_upper=True)

    def diag(self, one: Prepared) -> Tensor:
        """Return the prior variances (n,)."""
        return _tables_and_diag(one)[1][-1]

    def _values(self, one: Prepared, two: Prepared, *, is_upper: bool) -> Tensor:
        sides = _by_image(one), _by_image(two)
        values = self.processor.cross(self.program, *sides, is_upper=is_upper)
        return values[..., -1]


@dataclass(frozen=True)
class FusedTangentBackend:
    """Tiles with their derivatives by each free hyperparameter, in the same pass.

    A value is followed by its derivatives by ``kernel.theta`` in one more dimension of
    size 1 + p.
    """

    # The lowered network, each with a part of the derivatives.
    programs: tuple[Program, ...]
    order: tuple[int, ...]  # index in theta of each derivative
    processor: Processor
    # Maps that a value of a pair takes, one for each displacement and layer.
    n_passes: int = 1

    def measure(self, image: Tensor) -> TileCosts:
        """Return the bytes that images like this one (1, c, h, w) need."""
        value_shape = (1 + len(self.order),)
        costs = _measure(self.processor, self.programs, value_shape, image)
        return replace(costs, n_passes=self.n_passes * value_shape[0])

    def prepare(self, images: Tensor) -> Prepared:
        """Return tables (t, n) and variances (1 + p, n) of images (n, c, h, w)."""
        pairs = [self.processor.prepare(program, images) for program in self.programs]
        return tuple((tables.mT, diag.mT) for tables, diag in pairs)

    def cross(self, one: Prepared, two: Prepared) -> Tensor:
        """Return covariances and derivatives (n1, n2, 1 + p) of a tile."""
        return self._parts(one, two, is_upper=False)

    def gram(self, one: Prepared) -> Tensor:
        """Return covariances and derivatives (n, n, 1 + p) of a diagonal tile.

        Those below the diagonal are undefined.
        """
        return self._parts(one, one, is_upper=True)

    def diag(self, one: Prepared) -> Tensor:
        """Return prior variances and derivatives (n, 1 + p)."""
        assert isinstance(one, tuple)
        return self._joined([_tables_and_diag(part)[1].mT for part in one])

    def _parts(self, one: Prepared, two: Prepared, *, is_upper: bool) -> Tensor:
        assert isinstance(one, tuple)
        assert isinstance(two, tuple)
        parts = zip(self.programs, one, two, strict=True)
        values = [
            self.processor.cross(
                program, _by_image(first), _by_image(second), is_upper=is_upper
            )
            for program, first, second in parts
        ]
        return self._joined(values)

    def _joined(self, parts: list[Tensor]) -> Tensor:
        """Join the derivatives of all programs, in the order of theta, to the value."""
        if len(parts) == 1 and self.order == tuple(range(len(self.order))):
            return parts[0]
        joined = parts[0].new_empty((*parts[0].shape[:-1], 1 + len(self.order)))
        joined[..., 0] = parts[0][..., 0]
        columns = torch.tensor(self.order, dtype=torch.long, device=joined.device) + 1
        joined[..., columns] = torch.cat([part[..., 1:] for part in parts], dim=-1)
        return joined


def _tables_and_diag(prepared: Prepared) -> tuple[Tensor, Tensor]:
    assert isinstance(prepared, tuple)
    tables, diag = prepared
    assert isinstance(tables, Tensor)
    assert isinstance(diag, Tensor)
    return tables, diag


def _measure(
    processor: Processor,
    programs: tuple[Program, ...],
    value_shape: tuple[int, ...],
    image: Tensor,
) -> TileCosts:
    """Return the costs of programs that run one after the other."""
    in_double = torch.float64.itemsize
    value_bytes = in_double * math.prod(value_shape)
    return TileCosts(
        image_bytes=sum(
            processor.image_bytes(program, image) + (1 + program.n_tangents) * in_double
            for program in programs
        ),
        pair_bytes=LIVE_VALUES * value_bytes,
        value_bytes=value_bytes,
        value_shape=value_shape,
        worker_bytes=max(
            processor.worker_bytes(program, image) for program in programs
        ),
    )


def _by_image(prepared: Prepared) -> tuple[Tensor, Tensor]:
    """Return tables (n, t) and variances (n, q) with the images in the first axis."""
    tables, diag = _tables_and_diag(prepared)
    return tables.mT, diag.mT
