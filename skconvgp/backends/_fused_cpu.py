"""Door to the compiled extension."""

import math
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor

from skconvgp._protocols import TileCosts
from skconvgp._typing import Prepared
from skconvgp.backends._program import Program
from skconvgp.exceptions import NotFusableError

__all__ = [
    "FusedBackend",
    "FusedTangentBackend",
    "instruction_set",
    "missing_extension",
    "require_accepted",
    "roots",
]

# Results of a pair that are held while its tile is put together: those of several
# programs, joined, and mirrored at the diagonal.
LIVE_VALUES = 4

# Empty: the widest that the processor has. Another one of `instruction_sets()`, and
# "lanes", the arithmetic of the GPU, are for tests and comparisons.
INSTRUCTION_SET = ""


def _load() -> tuple[Any, str]:
    try:
        return import_module("skconvgp.backends._native"), ""
    except ImportError as error:
        return None, f"the compiled extension is not installed ({error})"


_NATIVE, _MISSING = _load()


def missing_extension() -> str:
    """Say why the compiled extension cannot be used; empty if it can."""
    return _MISSING


def instruction_set() -> str:
    """Return the instruction set that the extension uses; empty without it."""
    return "" if _MISSING else INSTRUCTION_SET or instruction_sets()[0]


def instruction_sets() -> list[str]:
    """Return the instruction sets that can be used here, the widest first."""
    return [] if _MISSING else list(_NATIVE.instruction_sets())


def roots() -> int:
    """Return how many numbers of a position the tables of activations have."""
    return int(_NATIVE.roots(INSTRUCTION_SET))


def require_accepted(program: Program) -> None:
    """Raise NotFusableError if the extension refuses a program: it is too large."""
    try:
        _table_size(program)
    except ValueError as error:
        raise NotFusableError(f"its maps or windows are too large ({error})") from error


@dataclass(frozen=True)
class FusedBackend:
    """Tiles of a network; all layers of a pair are computed in cache.

    The tables of an image and its variance are computed in double precision, whatever
    the precision of the maps is. Values are float64.

    Parameters
    ----------
    program : Program
        The lowered network.
    """

    program: Program

    def measure(self, image: Tensor) -> TileCosts:
        """Return the bytes that images like this one (1, c, h, w) need."""
        return _measure((self.program,), (), image)

    def prepare(self, images: Tensor) -> Prepared:
        """Return the tables (t, n) and the variances (1, n) of images (n, c, h, w)."""
        tables, diag = _prepare(self.program, images)
        return tables.mT, diag.mT

    def cross(self, one: Prepared, two: Prepared) -> Tensor:
        """Return the covariances (n1, n2) of a tile."""
        return _cross(self.program, one, two, is_upper=False).squeeze(-1)

    def gram(self, one: Prepared) -> Tensor:
        """Return the covariances (n, n) of a set; right on and above the diagonal."""
        return _cross(self.program, one, one, is_upper=True).squeeze(-1)

    def diag(self, one: Prepared) -> Tensor:
        """Return the prior variances (n,)."""
        return _pair(one)[1][0]


@dataclass(frozen=True)
class FusedTangentBackend:
    """Tiles with their derivatives by each free hyperparameter, in the same pass.

    A value is followed by its derivatives by ``kernel.theta`` in one more dimension of
    size 1 + p.

    Parameters
    ----------
    programs : tuple of Program
        The lowered network, each with some of the derivatives.
    order : tuple of int
        The place in theta of each derivative.
    """

    programs: tuple[Program, ...]
    order: tuple[int, ...]

    def measure(self, image: Tensor) -> TileCosts:
        """Return the bytes that images like this one (1, c, h, w) need."""
        return _measure(self.programs, (1 + len(self.order),), image)

    def prepare(self, images: Tensor) -> Prepared:
        """Return tables (t, n) and variances (1 + p, n) of images (n, c, h, w)."""
        pairs = [_prepare(program, images) for program in self.programs]
        return tuple((tables.mT, diag.mT) for tables, diag in pairs)

    def cross(self, one: Prepared, two: Prepared) -> Tensor:
        """Return covariances and derivatives (n1, n2, 1 + p) of a tile."""
        return self._parts(one, two, is_upper=False)

    def gram(self, one: Prepared) -> Tensor:
        """Return them for one set (n, n, 1 + p); right on and above the diagonal."""
        return self._parts(one, one, is_upper=True)

    def diag(self, one: Prepared) -> Tensor:
        """Return prior variances and derivatives (n, 1 + p)."""
        assert isinstance(one, tuple)
        return self._joined([_pair(part)[1].mT for part in one])

    def _parts(self, one: Prepared, two: Prepared, *, is_upper: bool) -> Tensor:
        assert isinstance(one, tuple)
        assert isinstance(two, tuple)
        parts = zip(self.programs, one, two, strict=True)
        return self._joined([_cross(*part, is_upper=is_upper) for part in parts])

    def _joined(self, parts: list[Tensor]) -> Tensor:
        """Put the derivatives in their places behind the first value."""
        if len(parts) == 1 and self.order == tuple(range(len(self.order))):
            return parts[0]
        joined = parts[0].new_empty((*parts[0].shape[:-1], 1 + len(self.order)))
        joined[..., 0] = parts[0][..., 0]
        places = torch.tensor(self.order, dtype=torch.long) + 1
        joined[..., places] = torch.cat([part[..., 1:] for part in parts], dim=-1)
        return joined


def _pair(prepared: Prepared) -> tuple[Tensor, Tensor]:
    assert isinstance(prepared, tuple)
    tables, diag = prepared
    assert isinstance(tables, Tensor)
    assert isinstance(diag, Tensor)
    return tables, diag


def _arrays(program: Program) -> tuple[object, ...]:
    return program.codes, program.constants, program.slopes, program.n_registers


def _table_size(program: Program) -> int:
    return int(_NATIVE.table_size(*_arrays(program), program.n_pixels))


def _measure(
    programs: tuple[Program, ...], value_shape: tuple[int, ...], image: Tensor
) -> TileCosts:
    """Count the bytes that programs need, which are carried out one by one."""
    in_double = torch.float64.itemsize
    value_bytes = in_double * math.prod(value_shape)
    is_double = image.dtype == torch.float64
    return TileCosts(
        image_bytes=sum(
            _table_size(program) * image.itemsize + (1 + program.n_tangents) * in_double
            for program in programs
        ),
        pair_bytes=LIVE_VALUES * value_bytes,
        value_bytes=value_bytes,
        value_shape=value_shape,
        worker_bytes=max(_workspace_bytes(program, is_double) for program in programs),
    )


def _workspace_bytes(program: Program, is_double: bool) -> int:
    sizes = *_arrays(program), program.n_pixels
    return int(_NATIVE.workspace_bytes(*sizes, is_double, INSTRUCTION_SET))


def _prepare(program: Program, images: Tensor) -> tuple[Tensor, Tensor]:
    n_images, n_values = images.shape[0], _table_size(program)
    pixels = images.flatten(1).contiguous()
    # Arrays of numpy lie in large pages; torch's take as long to get as to fill.
    precision = np.float64 if images.dtype == torch.float64 else np.float32
    tables = torch.from_numpy(np.empty((n_images, n_values), precision))
    n_columns = program.constants.shape[2]
    diag = images.new_empty((n_images, n_columns), dtype=torch.float64)
    _NATIVE.prepare(*_arrays(program), pixels, tables, diag, INSTRUCTION_SET)
    return tables, diag


def _cross(program: Program, one: Prepared, two: Prepared, *, is_upper: bool) -> Tensor:
    (first, first_diag), (second, second_diag) = _sides(one), _sides(two)
    shape = (first.shape[0], second.shape[0], program.constants.shape[2])
    out = first.new_empty(shape, dtype=torch.float64)
    _NATIVE.cross(
        *_arrays(program),
        program.n_pixels,
        first,
        first_diag,
        second,
        second_diag,
        is_upper,
        out,
        INSTRUCTION_SET,
    )
    return out


def _sides(prepared: Prepared) -> tuple[Tensor, Tensor]:
    """Return tables and variances with the images in the first dimension."""
    tables, diag = _pair(prepared)
    return tables.mT, diag.mT
