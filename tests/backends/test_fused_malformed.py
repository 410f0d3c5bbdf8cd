"""Programs and arrays that are wrong: the extension refuses them and never crashes."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from hypothesis import event, given, settings
from hypothesis import strategies as st

from skconvgp.backends import _fused_cpu as door
from skconvgp.backends._opcodes import AxisColumn, Column, Kind
from skconvgp.backends._program import lower, lower_with_tangents
from skconvgp.kernels import (
    Abs,
    AvgPool2d,
    Conv2d,
    Dense,
    Erf,
    Flatten,
    GlobalAvgPool2d,
    ReLU,
    Residual,
    Sequential,
    convnet,
    dense,
)
from tests.helpers.fused import needs_extension

pytestmark = needs_extension
SHAPE = (2, 5, 4)
N_PIXELS = 40
MIXED = Sequential(
    Conv2d(3, bias_variance=0.1),
    Residual(ReLU(), Conv2d(2, padding="circular")),
    Conv2d(2, stride=2, padding=1),
    Abs(),
    Conv2d((2, 3)),
    Flatten(),
    Dense(bias_variance=0.1),
)
WITH_ERF = Sequential(Conv2d(2, padding=1), Erf(), Conv2d(3, dilation=2), Flatten())
WITH_AVERAGE = Sequential(
    *(Conv2d(3), Residual(ReLU(), Conv2d(3, bias_variance=0.1))),
    *(Conv2d(2, stride=2), ReLU(), AvgPool2d(2), Flatten(), Dense(), Erf()),
)
WITH_POOL = Sequential(
    *(Conv2d(3), ReLU(), AvgPool2d(2), Conv2d(2), Abs(), GlobalAvgPool2d()),
    *(Dense(bias_variance=0.1), ReLU()),
)
KERNELS = {
    "convnet": convnet(2, 3),
    "mixed": MIXED,
    "erf": WITH_ERF,
    "dense": dense(),
    "average": WITH_AVERAGE,
    "pool": WITH_POOL,
}
KIND, REGISTER, FLAG, ROWS, COLS, CIRCULAR, TABLE, ROOTS, LOADED, MAPS = Column
SIZE, WINDOW, BEFORE, STRIDE, DILATION, OUTPUTS = AxisColumn


class Call:
    """Arguments of the extension for a network, each of which can be changed."""

    def __init__(
        self, kernel=MIXED, dtype=np.float64, n_one=5, n_two=3, tangents=0, roots=2
    ):
        kernel.check(SHAPE)
        program = lower(kernel, SHAPE, roots)
        if tangents:
            program = lower_with_tangents(kernel, SHAPE, tangents, roots)[0][0]
        self.codes = program.codes.copy()
        self.constants = program.constants.copy()
        self.slopes = program.slopes.copy()
        self.n_registers, self.n_pixels = program.n_registers, N_PIXELS
        self.n_columns = program.constants.shape[2]
        rng = np.random.default_rng(0)
        self.pixels = rng.normal(size=(n_one, N_PIXELS)).astype(dtype)
        n_values = self.table_size()
        self.tables = np.empty((n_one, n_values), dtype)
        self.diag = np.empty((n_one, self.n_columns))
        self.prepare()
        self.one, self.two = self.tables, self.tables[:n_two]
        self.diag_one, self.diag_two = self.diag, self.diag[:n_two]
        self.out = np.full((n_one, n_two, self.n_columns), np.nan)

    @property
    def head(self):
        return self.codes, self.constants, self.slopes, self.n_registers

    def table_size(self):
        return door._native.table_size(*self.head, self.n_pixels)

    def prepare(self, name=""):
        door._native.prepare(*self.head, self.pixels, self.tables, self.diag, name)

    def cross(self, name=""):
        sides = self.one, self.diag_one, self.two, self.diag_two
        door._native.cross(*self.head, self.n_pixels, *sides, False, self.out, name)

    def find(self, kind):
        """Return the first operation of a kind, to be changed in place."""
        return self.codes[np.flatnonzero(self.codes[:, KIND] == kind)[0]]


def assert_refused(call, match="malformed program", steps=("table_size", "cross")):
    for step in steps:
        with pytest.raises(ValueError, match=match):
            getattr(call, step)()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arguments_as_they_should_be(dtype):
    call = Call(dtype=dtype)
    call.cross()
    assert np.isfinite(call.out).all()


def set_code(kind, place, value):
    def change():
        call = Call(
            {Kind.ERF: WITH_ERF, Kind.AVERAGE: WITH_AVERAGE, Kind.POOL: WITH_POOL}.get(
                kind, MIXED
            )
        )
        call.find(kind)[place] = value
        return call

    return change


def set_displaced(kind, place, value, kernel=WITH_AVERAGE):
    def change():
        call = Call(kernel)
        call.find(kind)[place] = value
        return call

    return change


def set_attribute(name, make):
    def change():
        call = Call()
        setattr(call, name, make(getattr(call, name)))
        return call

    return change


def last_first(array):
    return np.roll(array, 1, axis=0)


def swapped(array):
    """Return the array in the other precision."""
    return array.astype(np.float32 if array.dtype == np.float64 else np.float64)


MALFORMED = {
    "no operation": set_attribute("codes", lambda codes: codes[:0].copy()),
    "short codes": set_attribute("codes", lambda codes: codes[:, :16].copy()),
    "long codes": set_attribute("codes", lambda codes: np.pad(codes, [(0, 0), (0, 1)])),
    "codes without constants": set_attribute("constants", lambda a: a[:-1].copy()),
    "one constant": set_attribute("constants", lambda a: a[:, :1].copy()),
    "no value": set_attribute("constants", lambda a: a[:, :, :0].copy()),
    "65 derivatives": set_attribute("constants", lambda a: np.repeat(a, 66, axis=2)),
    "codes without slopes": set_attribute("slopes", lambda a: a[1:].copy()),
    "three slopes": set_attribute("slopes", lambda a: np.pad(a, [(0, 0), (0, 1)])),
    "negative registers": set_attribute("n_registers", lambda n: -1),
    "too many registers": set_attribute("n_registers", lambda n: 1024),
    "too few registers": set_attribute("n_registers", lambda n: n - 1),
    "no pixels": set_attribute("n_pixels", lambda n: 0),
    "other pixels": set_attribute("n_pixels", lambda n: n + 1),
    "no result": set_attribute(
        "codes", lambda codes: np.vstack([codes[1:], codes[:1]])
    ),
    "two results": set_code(Kind.INPUT, KIND, Kind.RESULT),
    "unknown kind": set_code(Kind.LEAKY, KIND, len(Kind)),
    "negative kind": set_code(Kind.LEAKY, KIND, -1),
    "register out of range": set_code(Kind.LOAD, REGISTER, 1000),
    "negative register": set_code(Kind.LOAD, REGISTER, -1),
    "register of a window": set_code(Kind.BOX, REGISTER, 1000),
    "register of a sum": set_code(Kind.SUM, REGISTER, 1000),
    "register of a branch": set_code(Kind.ADD, REGISTER, -5),
    "table in the pixels": set_code(Kind.LEAKY, TABLE, N_PIXELS - 1),
    "negative table": set_code(Kind.ERF, TABLE, -1),
    "table far away": set_code(Kind.LEAKY, TABLE, 2**31 - 1),
    "no root": set_code(Kind.LEAKY, ROOTS, 0),
    "three roots": set_code(Kind.LEAKY, ROOTS, 3),
    "two numbers for erf": set_code(Kind.ERF, ROOTS, 2),
    "no map before": set_code(Kind.LOAD, LOADED, 0),
    "more maps before": set_code(Kind.ADD, LOADED, 2),
    "no map after": set_code(Kind.LEAKY, MAPS, 0),
    "more maps after": set_code(Kind.BOX, MAPS, 2),
    "a part of the channels side by side": set_code(Kind.INPUT, ROOTS, 1),
    "more channels side by side": set_code(Kind.INPUT, ROOTS, 3),
    "no channel": set_code(Kind.INPUT, FLAG, 0),
    "more channels": set_code(Kind.INPUT, FLAG, 3),
    "many channels": set_code(Kind.INPUT, FLAG, 2**31 - 1),
    "no rows": set_code(Kind.LEAKY, ROWS + SIZE, 0),
    "negative columns": set_code(Kind.LEAKY, COLS + SIZE, -4),
    "other rows": set_code(Kind.LEAKY, ROWS + SIZE, 6),
    "other columns": set_code(Kind.LEAKY, COLS + SIZE, 5),
    "huge map": set_code(Kind.LEAKY, COLS + SIZE, 2**31 - 1),
    "no window": set_code(Kind.BOX, ROWS + WINDOW, 0),
    "negative window": set_code(Kind.CONV, COLS + WINDOW, -2),
    "negative start": set_code(Kind.CONV, ROWS + BEFORE, -1),
    "start beyond the window": set_code(Kind.BOX, ROWS + BEFORE, 3),
    "no stride": set_code(Kind.CONV, ROWS + STRIDE, 0),
    "negative dilation": set_code(Kind.CONV, COLS + DILATION, -1),
    "huge stride": set_code(Kind.CONV, COLS + STRIDE, 2**30),
    "largest stride": set_code(Kind.CONV, ROWS + STRIDE, 2**31 - 1),
    "huge dilation": set_code(Kind.CONV, ROWS + DILATION, 2**30),
    "windows that reach too far": set_code(Kind.CONV, COLS + DILATION, 2**28),
    "huge stride of a pool": set_code(Kind.POOL, ROWS + STRIDE, 2**30),
    "huge dilation of an average": set_code(Kind.AVERAGE, COLS + DILATION, 2**30),
    "strided running sum": set_code(Kind.BOX, ROWS + STRIDE, 2),
    "dilated running sum": set_code(Kind.BOX, COLS + DILATION, 2),
    "circular running sum": set_code(Kind.BOX, CIRCULAR, 1),
    "no outputs": set_code(Kind.CONV, ROWS + OUTPUTS, 0),
    "too few outputs of a running sum": set_code(Kind.BOX, ROWS + OUTPUTS, 3),
    "too many outputs of a running sum": set_code(Kind.BOX, COLS + OUTPUTS, 9),
    "huge outputs": set_code(Kind.CONV, COLS + OUTPUTS, 2**31 - 1),
    "result of a map": set_code(Kind.RESULT, ROWS + SIZE, 2),
    "inner product in between": set_code(Kind.ADD, KIND, Kind.DOT),
    "windows of samples": set_code(Kind.INPUT, KIND, Kind.DOT),
    "stage without rows": set_code(Kind.LOAD, KIND, Kind.LEAKY),
    "average without windows": set_code(Kind.AVERAGE, ROWS + WINDOW, 0),
    "average that wraps around": set_code(Kind.AVERAGE, CIRCULAR, 1),
    "average of nothing": set_code(Kind.AVERAGE, COLS + BEFORE, 9),
    "average over huge windows": set_code(Kind.AVERAGE, COLS + WINDOW, 2**20 - 1),
    "register of an average": set_code(Kind.AVERAGE, REGISTER, 1000),
    "two averages": set_displaced(Kind.CONV, KIND, Kind.AVERAGE),
    "sum before an average": set_displaced(Kind.CONV, KIND, Kind.SUM),
    "map that is not displaced": set_displaced(Kind.LOAD, ROWS + STRIDE, 0),
    "maps displaced apart": set_displaced(Kind.LEAKY, COLS + STRIDE, 1),
    "maps displaced too far": set_displaced(Kind.INPUT, ROWS + STRIDE, 5),
    "displaced circular windows": set_displaced(Kind.CONV, CIRCULAR, 1),
    "displacement between windows": set_displaced(Kind.CONV, COLS + STRIDE, 3),
    "padding beyond the windows of a pool": set_code(Kind.POOL, COLS + BEFORE, 2),
    "huge windows of a pool": set_code(Kind.POOL, ROWS + WINDOW, 2**20 - 1),
    "huge steps in windows of a pool": set_code(Kind.POOL, COLS + DILATION, 2**20),
    "windows of a pool beyond the map": set_code(Kind.POOL, ROWS + STRIDE, 9),
    "circular pool": set_code(Kind.POOL, CIRCULAR, 1),
    "register of a pool": set_code(Kind.POOL, REGISTER, 1000),
    "pool without average": set_displaced(Kind.AVERAGE, KIND, Kind.SUM, WITH_POOL),
    "pool behind an average": set_displaced(Kind.AVERAGE, KIND, Kind.POOL, WITH_POOL),
    "map behind an average": set_displaced(Kind.ERF, ROWS + SIZE, 2),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_program_is_refused(name):
    call = MALFORMED[name]()
    assert_refused(call)
    if call.n_pixels == N_PIXELS:  # `prepare` sees them in the images
        assert_refused(call, steps=["prepare"])


@pytest.mark.parametrize(
    ("step", "name", "make"),
    [
        ("prepare", "pixels", lambda a: a[:, :-1].copy()),
        ("prepare", "pixels", np.asfortranarray),
        ("prepare", "pixels", lambda a: a[::2]),
        ("prepare", "tables", lambda a: a[:, :-1].copy()),
        ("prepare", "tables", lambda a: np.pad(a, [(0, 0), (0, 1)])),
        ("prepare", "tables", lambda a: a[:-1]),
        ("prepare", "diag", lambda a: a[:-1]),
        ("prepare", "diag", lambda a: np.repeat(a, 2, axis=1)),
        ("cross", "one", lambda a: a[:, :-1].copy()),
        ("cross", "two", lambda a: np.pad(a, [(0, 0), (0, 1)])),
        ("cross", "two", np.asfortranarray),
        ("cross", "one", lambda a: np.repeat(a, 2, axis=1)[:, ::2]),
        ("cross", "one", lambda a: a[:-1]),
        ("cross", "diag_one", lambda a: a[:-1]),
        ("cross", "diag_two", lambda a: np.repeat(a, 2, axis=0)),
        ("cross", "diag_two", lambda a: np.repeat(a, 2, axis=1)),
        ("cross", "diag_one", lambda a: np.repeat(a, 2, axis=0)[::2]),
        ("cross", "out", lambda a: a[:-1]),
        ("cross", "out", lambda a: a[:, :-1].copy()),
        ("cross", "out", lambda a: np.repeat(a, 2, axis=2)),
    ],
)
def test_array_of_the_wrong_shape_is_refused(step, name, make):
    call = Call()
    setattr(call, name, make(getattr(call, name)))
    assert_refused(call, steps=[step])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("step", "name", "make"),
    [
        ("cross", "out", lambda a: a.astype(np.float32)),
        ("cross", "out", np.asfortranarray),
        ("cross", "out", lambda a: np.repeat(a, 2, axis=1)[:, ::2]),
        ("cross", "out", lambda a: a[..., 0]),
        ("cross", "out", lambda a: torch.from_numpy(a).to(torch.float16)),
        ("cross", "two", lambda a: a.astype(np.float16)),
        ("cross", "two", lambda a: a.astype(np.int64)),
        ("cross", "one", swapped),
        ("cross", "two", swapped),
        ("cross", "diag_one", lambda a: a.astype(np.float32)),
        ("cross", "diag_two", lambda a: a[:, 0]),
        ("cross", "one", lambda a: a[0]),
        ("cross", "one", lambda a: None),
        ("prepare", "pixels", swapped),
        ("prepare", "pixels", lambda a: a.astype(np.int32)),
        ("prepare", "tables", np.asfortranarray),
        ("prepare", "tables", swapped),
        ("prepare", "diag", lambda a: a.astype(np.float32)),
        ("prepare", "diag", lambda a: np.repeat(a, 2, axis=0)[::2]),
        ("cross", "codes", lambda a: a.astype(np.float64)),
        ("cross", "codes", lambda a: a[0]),
    ],
)
def test_array_of_another_type_or_layout_is_not_converted(step, name, make, dtype):
    # A converted copy would take results that nobody sees, or lose precision.
    call = Call(dtype=dtype)
    setattr(call, name, make(getattr(call, name)))
    with pytest.raises((TypeError, ValueError)):
        getattr(call, step)()


@pytest.mark.parametrize(
    ("step", "name"), [("cross", "out"), ("prepare", "tables"), ("prepare", "diag")]
)
def test_array_that_must_not_be_written_is_refused(step, name):
    call = Call()
    array = getattr(call, name)
    before = array.copy()
    array.flags.writeable = False
    with pytest.raises((TypeError, ValueError)):
        getattr(call, step)()
    np.testing.assert_array_equal(array, before)


def test_tables_for_another_instruction_set_are_refused():
    for roots, name in [(1, ""), (2, "lanes")]:
        with pytest.raises(ValueError, match="malformed program: numbers"):
            Call(roots=roots).cross(name)
    call = Call(roots=1)
    call.codes[0, ROOTS] = call.codes[0, FLAG]  # channels side by side
    with pytest.raises(ValueError, match="malformed program: numbers"):
        call.cross("lanes")


def test_instruction_set_that_is_not_there_is_refused():
    call = Call()
    for step in (call.prepare, call.cross):
        with pytest.raises(ValueError, match="'altivec' is not available here"):
            step("altivec")


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize(("n_one", "n_two"), [(0, 0), (3, 0), (0, 3)])
def test_nothing_to_compute(kernel, n_one, n_two):
    call = Call(kernel)
    call.one, call.two = call.tables[:n_one], call.tables[:n_two]
    call.diag_one, call.diag_two = call.diag[:n_one], call.diag[:n_two]
    call.out = np.full((n_one, n_two, 1), np.nan)
    call.cross()
    call.pixels, call.tables = call.pixels[:n_one], call.tables[:n_one].copy()
    call.diag = call.diag[:n_one]
    call.prepare()


def test_tables_may_be_rows_of_a_larger_array():
    call = Call(n_two=5)
    call.cross()
    expected = call.out.copy()
    call.one = np.pad(call.tables, [(0, 0), (0, 7)])[:, :-7]
    call.two = call.tables[::-1]  # a negative stride
    call.diag_two = call.diag[::-1].copy()
    call.cross()
    np.testing.assert_array_equal(call.out, expected[:, ::-1])


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_nothing_beyond_the_arrays_is_written(kernel):
    for name in [*door.instruction_sets(), "lanes"]:
        call = Call(kernel, roots=1 if name == "lanes" else 2)
        n_values = call.tables.shape[1]
        guarded = {}
        for what, shape in [
            ("tables", (5, n_values)),
            ("diag", (5, 1)),
            ("out", (5, 3, 1)),
        ]:
            size = int(np.prod(shape))
            guarded[what] = np.full(size + 128, 77.0)
            setattr(call, what, guarded[what][64:-64].reshape(shape))
        call.prepare(name)
        call.one, call.two = call.tables, call.tables[:3]
        call.diag_one, call.diag_two = call.diag, call.diag[:3]
        call.cross(name)
        for array in guarded.values():
            assert (array[:64] == 77.0).all()
            assert (array[-64:] == 77.0).all()
            assert not (array[64:-64] == 77.0).any()


changes = st.tuples(st.integers(0, 40), st.integers(0, 19), st.integers(-3, 33))


@settings(deadline=None, max_examples=300)
@given(
    st.sampled_from(list(KERNELS)),
    st.lists(changes, min_size=1, max_size=4),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from([0, 2]),
    st.sampled_from([*door.instruction_sets(), "lanes"]),
)
def test_changed_programs_never_crash(name, changed, dtype, tangents, instructions):
    roots = 1 if instructions == "lanes" else 2
    call = Call(KERNELS[name], dtype, tangents=tangents, roots=roots)
    for row, place, value in changed:
        call.codes[row % len(call.codes), place] = value
    try:
        n_values = call.table_size()
    except ValueError:
        event("refused")
        return
    event("runs")
    n_columns = call.constants.shape[2]
    call.tables = np.ones((5, n_values), dtype)
    call.diag = np.empty((5, n_columns))
    call.prepare(instructions)
    call.one, call.two = call.tables, call.tables[:3]
    call.diag_one, call.diag_two = call.diag, call.diag[:3]
    call.out = np.empty((5, 3, n_columns))
    has_roots = all(call.codes[call.codes[:, KIND] == Kind.LEAKY, ROOTS] == roots)
    kind, side_by_side = call.codes[0, [KIND, ROOTS]]
    has_roots &= roots == 2 or kind != Kind.INPUT or side_by_side == 0
    refused = pytest.raises(ValueError, match="numbers")
    with nullcontext() if has_roots else refused:
        call.cross(instructions)
