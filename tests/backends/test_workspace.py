"""What a program needs, and programs whose sizes are too large for the extension."""

import numpy as np
import pytest
import torch

from skconvgp.backends import _fused_cpu as door
from skconvgp.backends import choose_backend
from skconvgp.backends._opcodes import AxisColumn, Column, Kind
from skconvgp.backends._program import lower
from skconvgp.kernels import Conv2d, Flatten, ReLU, Sequential, convnet
from tests.helpers.fused import lanes, needs_extension

pytestmark = needs_extension
CPU = torch.device("cpu")
ROWS, COLS, PLACES = Column.ROWS, Column.COLS, Column.TABLE
SIZE, WINDOW, BEFORE, STRIDE, DILATION, OUTPUTS = AxisColumn


def sizes(side, is_double=False, name="", kernel=None):
    """Return tables and workspace of a network on images of one channel, bytes."""
    program = lower(kernel or convnet(depth=3, kernel_size=3), (1, side, side))
    head = program.codes, program.constants, program.slopes, program.n_registers
    n_values = door._native.table_size(*head, program.n_pixels)
    workspace = door._native.workspace_bytes(*head, program.n_pixels, is_double, name)
    return n_values * (8 if is_double else 4), workspace


@pytest.mark.parametrize("is_double", [True, False])
@pytest.mark.parametrize("name", door.instruction_sets())
def test_workspace_holds_tables_of_a_group_and_a_map(name, is_double):
    n_lanes = lanes(name, torch.float64 if is_double else torch.float32)
    tables, workspace = sizes(32, is_double, name)
    a_map = 32 * 32 * n_lanes * (8 if is_double else 4)
    assert n_lanes * tables + a_map <= workspace <= n_lanes * tables + 16 * a_map


@pytest.mark.parametrize("name", door.instruction_sets())
def test_workspace_of_large_images_is_counted_and_not_held(name):
    _, workspace = sizes(5000, is_double=True, name=name)
    assert workspace > 2**32


def test_widest_instruction_set_is_the_default():
    widest = door.instruction_sets()[0]
    assert sizes(8) == sizes(8, name=widest)
    with pytest.raises(ValueError, match="'altivec' is not available"):
        sizes(8, name="altivec")


@pytest.mark.parametrize("n_tangents", [0, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_measured_costs_are_those_of_real_tables(n_tangents, dtype):
    choice = choose_backend(convnet(depth=2, kernel_size=3), (2, 7, 5), "fused", CPU)
    backend = choice.tangents() if n_tangents else choice.tiles()
    given = torch.rand(3, 2, 7, 5, dtype=dtype)
    costs, prepared = backend.measure(given[:1]), backend.prepare(given)
    pairs = prepared if n_tangents else (prepared,)
    held = sum(tables.nbytes + diag.nbytes for tables, diag in pairs)
    assert 3 * costs.image_bytes == held
    values = backend.cross(prepared, prepared)
    assert values.nbytes == 9 * costs.value_bytes
    assert tuple(values.shape[2:]) == costs.value_shape


def program_of_windows(size, window):
    """Return arguments of a program: images of one row, running sums, their sum."""
    codes = np.zeros((4, 20), np.int32)
    codes[:, 0] = Kind.INPUT, Kind.BOX, Kind.LOAD, Kind.SUM
    codes[0, 2] = 1
    codes[:, ROWS + SIZE] = 1
    codes[:, COLS + SIZE] = size
    codes[1, ROWS : ROWS + 6] = 1, 1, 0, 1, 1, 1
    codes[1, COLS : COLS + 6] = size, window, window // 2, 1, 1, size
    result = np.zeros((1, 20), np.int32)
    result[0, [0, 2, ROWS, COLS]] = Kind.RESULT, 1, 1, 1
    codes = np.vstack([codes, result])
    codes[:, PLACES:] = size, 0, 1, 1
    constants = np.zeros((5, 2, 1))
    constants[:, 1] = 1.0
    return codes, constants, np.zeros((5, 2)), 1


@pytest.mark.parametrize(
    ("size", "window", "what"),
    [
        (2**20 - 1, 17, "windows of this width"),
        (5000, 5001, "windows of this width"),
        (2**20, 1, "size"),
        (2**20 - 1, 2**20 - 1, "number of windows"),
        (10, 2**20, "window"),
    ],
)
def test_sizes_whose_products_are_too_large_are_refused(size, window, what):
    head = program_of_windows(size, window)
    for call, more in (
        (door._native.table_size, ()),
        (door._native.workspace_bytes, (True, "")),
    ):
        with pytest.raises(ValueError, match=f"malformed program: {what}"):
            call(*head, size, *more)


@pytest.mark.parametrize(
    ("place", "what"),
    [(COLS + BEFORE, "window"), (COLS + STRIDE, "steps"), (COLS + DILATION, "steps")],
)
def test_a_number_as_large_as_an_int_is_refused(place, what):
    head = program_of_windows(8, 3)
    head[0][1, 0] = Kind.CONV
    head[0][1, place] = 2**31 - 1
    with pytest.raises(ValueError, match=f"malformed program: {what}"):
        door._native.table_size(*head, 8)


def test_the_largest_windows_that_are_accepted_are_computed():
    size, window = 4000, 4001
    head = program_of_windows(size, window)
    pixels = np.random.default_rng(0).random((2, size))
    tables, diag = np.empty((2, size)), np.empty((2, 1))
    door._native.prepare(*head, pixels, tables, diag, "")
    out = np.empty((2, 2, 1))
    sides = tables, diag, tables, diag
    door._native.cross(*head, size, *sides, False, out, "")
    products = pixels[:, None] * pixels[None]
    at = np.arange(size)
    times = (np.abs(at[:, None] - at) <= window // 2).sum(1)
    np.testing.assert_allclose(out[..., 0], products @ times, rtol=1e-12)


@pytest.mark.parametrize(
    ("kernel", "shape", "reason"),
    [
        (Sequential(Conv2d((1, 5001)), ReLU(), Flatten()), (1, 1, 5000), "windows of"),
        (convnet(depth=2, kernel_size=3), (1, 8200, 8200), "map"),
        (convnet(depth=60, kernel_size=3), (1, 4000, 4000), "too large"),
    ],
    ids=["windows", "map", "tables"],
)
def test_networks_that_are_too_large_go_to_torch_with_a_reason(kernel, shape, reason):
    kernel.check(shape)
    choice = choose_backend(kernel, shape, "auto", CPU)
    assert choice.name == "torch"
    assert reason in choice.reason
    with pytest.raises(ValueError, match=r"cannot run this kernel: .* too large"):
        choose_backend(kernel, shape, "fused", CPU)
