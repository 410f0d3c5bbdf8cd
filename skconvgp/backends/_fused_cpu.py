"""Programs of fused networks, run by the compiled extension."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._tensors import reals
from skconvgp.backends._program import Program
from skconvgp.exceptions import NotFusableError
from skconvgp.kernels import matern, rbf
from skconvgp.kernels._checks import as_items

__all__ = [
    "Extension",
    "extension_file",
    "has_scattering",
    "instruction_set",
    "missing_extension",
    "patch_responses",
    "scattering_bank",
    "table_size",
]

# Empty is the widest instruction set of the processor. Tests and comparisons set
# another one of `instruction_sets()`, or "lanes", the arithmetic of the GPU.
INSTRUCTION_SET = ""

MATERN_CODES = {0.5: 1, 1.5: 2, 2.5: 3}  # of nu; 0 is rbf
TANGENTS_AT_ONCE = 8  # with more derivatives, the maps of a pair leave the cache


# Without the extension there is no such name, and no function asks for it.
try:
    import skconvgp.backends._native as _native
except ImportError as error:
    _MISSING = f"the compiled extension is not installed ({error})"
else:
    _MISSING = ""


def missing_extension() -> str:
    """Say why the compiled extension cannot be used; empty if it can."""
    return _MISSING


def extension_file() -> Path | None:
    """Return the file of the loaded extension; None without it."""
    return None if _MISSING else Path(_native.__file__)


def instruction_set() -> str:
    """Return the instruction set that the extension uses; empty without it."""
    return "" if _MISSING else INSTRUCTION_SET or instruction_sets()[0]


def instruction_sets() -> list[str]:
    """Return the instruction sets that can be used here, the widest first."""
    return [] if _MISSING else _native.instruction_sets()


@dataclass(frozen=True)
class Extension:
    """Runs programs with the compiled extension; the maps of a pair stay in cache.

    The tables of an image and its variance are computed in double precision, even if
    maps are in single precision. Values are float64.
    """

    @property
    def instruction_set(self) -> str:
        """Name of the instruction set."""
        return instruction_set()

    @property
    def roots(self) -> int:
        """Values of a position in the tables of piecewise linear activations."""
        return _native.roots(INSTRUCTION_SET)

    @property
    def tangents_at_once(self) -> int:
        """Largest number of derivatives in one pass over a pair."""
        return TANGENTS_AT_ONCE

    def require_accepted(self, program: Program) -> None:
        """Raise NotFusableError if a program is too large."""
        try:
            table_size(program)
        except ValueError as error:
            reason = f"its maps or windows are too large ({error})"
            raise NotFusableError(reason) from error

    def image_bytes(self, program: Program, image: Tensor) -> int:
        """Return the bytes of the tables of an image like this one (1, c, h, w)."""
        return table_size(program) * image.itemsize

    def worker_bytes(self, program: Program, image: Tensor) -> int:
        """Return the bytes that a call holds beside its arguments and its result."""
        is_double = image.dtype == torch.float64
        sizes = *_arrays(program), program.n_pixels
        return _native.workspace_bytes(*sizes, is_double, INSTRUCTION_SET)

    def prepare(self, program: Program, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return the tables (n, t) and the variances (n, 1 + p) of images."""
        n_images, n_values = images.shape[0], table_size(program)
        pixels = images.flatten(1).contiguous()
        # numpy allocates large pages. To get memory from torch takes as long as to fill
        # it.
        precision = np.float64 if images.dtype == torch.float64 else np.float32
        tables = torch.from_numpy(np.empty((n_images, n_values), precision))
        n_columns = program.constants.shape[2]
        diag = images.new_empty((n_images, n_columns), dtype=torch.float64)
        _native.prepare(*_arrays(program), pixels, tables, diag, INSTRUCTION_SET)
        return tables, diag

    def cross(
        self,
        program: Program,
        one: tuple[Tensor, Tensor],
        two: tuple[Tensor, Tensor],
        *,
        is_upper: bool,
    ) -> Tensor:
        """Return covariances (n1, n2, 1 + p) from tables and variances of two sides."""
        shape = (len(one[0]), len(two[0]), program.constants.shape[2])
        out = one[0].new_empty(shape, dtype=torch.float64)
        head = *_arrays(program), program.n_pixels
        _native.cross(*head, *one, *two, is_upper, out, INSTRUCTION_SET)
        return out


def table_size(program: Program) -> int:
    """Return the number of values in the tables of an image."""
    return _native.table_size(*_arrays(program), program.n_pixels)


def patch_responses(
    base: rbf | matern,
    inducing: Tensor,
    patches: Tensor,
    shape: tuple[int, ...],
    factors: tuple[Tensor, Tensor, Tensor] | None,
) -> Tensor:
    """Return responses of patches to inducing patches, or sums of them, all float32.

    `inducing` is (m, c, h, w). The patches (n, y, x, c, h, w) or (n, y, x, d) stand on
    a grid and may have any strides. The result has `shape` and then m, where `shape` is
    (n, y, x) or, for sums, (n, k, l). The factors of sums are (y, x), (k, y) and
    (l, x); None is no sum.
    """
    flat = inducing.detach().flatten(1).contiguous()
    lengths = [float(item) for item in as_items(base.lengthscale)]
    scale = (1.0 / reals(lengths)).float()
    centre = flat.double().mean(0).float()
    if patches.ndim == 4:
        patches = patches[..., None, None]
    none = flat.new_empty((0, 0))
    factors = factors or (none, none, none)
    code = MATERN_CODES[base.nu] if isinstance(base, matern) else 0
    out = _aligned((*shape, len(flat)))
    scale = scale.expand_as(centre).contiguous()
    weights, rows, columns = (factor.detach().contiguous() for factor in factors)
    head = patches.detach(), flat, centre, scale, code
    _native.patch_responses(*head, weights, rows, columns, out, INSTRUCTION_SET)
    return out


def has_scattering() -> bool:
    """Return whether there is an extension whose instruction set has scattering."""
    return not _MISSING and _native.has_scattering(INSTRUCTION_SET)


def scattering_bank(*tables: Any) -> "_native.ScatteringBank":
    """Return the extension's tables of a scattering transform."""
    return _native.ScatteringBank(*tables)


def _aligned(shape: tuple[int, ...]) -> Tensor:
    """Return an array in large pages that begins where vectors may be written."""
    n, vector = math.prod(shape), 64 // 4
    whole = np.empty(n + vector, np.float32)
    first = -(whole.ctypes.data // 4) % vector
    return torch.from_numpy(whole[first : first + n].reshape(shape))


def _arrays(
    program: Program,
) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.float64], int]:
    return program.codes, program.constants, program.slopes, program.n_registers
