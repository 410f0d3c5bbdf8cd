"""Types of the compiled extension, which native/module.cpp defines."""

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray
from torch import Tensor

_Array = Tensor | NDArray[Any]

def instruction_sets() -> list[str]: ...
def roots(instruction_set: str) -> int: ...
def has_scattering(instruction_set: str) -> bool: ...
def table_size(
    codes: _Array,
    constants: _Array,
    slopes: _Array,
    n_registers: int,
    n_pixels: int,
) -> int: ...
def workspace_bytes(
    codes: _Array,
    constants: _Array,
    slopes: _Array,
    n_registers: int,
    n_pixels: int,
    is_double: bool,
    instruction_set: str,
) -> int: ...
def prepare(
    codes: _Array,
    constants: _Array,
    slopes: _Array,
    n_registers: int,
    images: _Array,
    tables: _Array,
    diag: _Array,
    instruction_set: str,
) -> None: ...
def cross(
    codes: _Array,
    constants: _Array,
    slopes: _Array,
    n_registers: int,
    n_pixels: int,
    one: _Array,
    diag_one: _Array,
    two: _Array,
    diag_two: _Array,
    upper: bool,
    out: _Array,
    instruction_set: str,
) -> None: ...
def patch_responses(
    patches: _Array,
    inducing: _Array,
    centre: _Array,
    scale: _Array,
    covariance: int,
    weights: _Array,
    rows: _Array,
    columns: _Array,
    out: _Array,
    instruction_set: str,
) -> None: ...

class ScatteringBank:
    def __init__(
        self,
        height: int,
        width: int,
        n_angles: int,
        order: int,
        row_of: _Array,
        column_of: _Array,
        rows: Sequence[_Array],
        columns: Sequence[_Array],
        waves: Sequence[_Array],
    ) -> None: ...
    def scatter(
        self, images: _Array, units: _Array, out: _Array, instruction_set: str
    ) -> None: ...
