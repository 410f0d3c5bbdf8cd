"""The door to the GPU, as far as it can be told without one."""

import re
from dataclasses import dataclass, field

import pytest
import torch

from skconvgp.backends import _choose as choose_module
from skconvgp.backends import _fused_cuda as door
from skconvgp.backends import choose_backend
from skconvgp.backends._cuda_source import KERNEL_NAME, cuda_source, layout_of
from skconvgp.backends._fused import FusedBackend, FusedTangentBackend
from skconvgp.backends._fused_cpu import Extension, table_size
from skconvgp.backends._fused_cuda import Gpu, unusable_gpu
from skconvgp.backends._program import lower, lower_with_tangents
from skconvgp.exceptions import NotFusableError
from skconvgp.kernels import (
    Conv2d,
    Dense,
    Flatten,
    ReLU,
    Sequential,
    convnet,
    residual_convnet,
)
from tests.helpers.fused import both_dtypes, images, needs_extension

CPU, GPU = torch.device("cpu"), torch.device("cuda", 1)
NETWORK, SHAPE = convnet(depth=3, kernel_size=3), (2, 9, 7)
TOO_LARGE = "at most 128 columns wide, and windows 127"


def with_window(*window):
    return Sequential(Conv2d(window), ReLU(), Flatten(), Dense())


def lowered(kernel=NETWORK, shape=SHAPE):
    """Return the program of a network, as for a GPU."""
    return lower(kernel, shape, Gpu(CPU).roots)


# ---- cards

NEW = (99, 0)  # unknown to the compiler


@pytest.fixture
def card(monkeypatch):
    """Return what puts a card of some compute capability in place."""

    def put(*capability):
        monkeypatch.setattr(door, "missing_compiler", lambda: "")
        monkeypatch.setattr(door, "knows_architecture", lambda device: capability < NEW)
        get = {GPU: capability}.__getitem__
        monkeypatch.setattr(torch.cuda, "get_device_capability", get)

    return put


@pytest.mark.parametrize(
    "capability", [(7, 0), (7, 5), (8, 0), (8, 9), (9, 0), (12, 0)]
)
def test_card_can_be_used(capability, card):
    card(*capability)
    assert unusable_gpu(GPU) == ""


def test_old_card_cannot_be_used(card):
    card(6, 1)
    assert unusable_gpu(GPU) == (
        "there are no fused kernels for device cuda:1: its compute capability is 6.1, "
        "below 7.0"
    )


def test_card_that_the_compiler_does_not_know_cannot_be_used(card):
    card(*NEW)
    assert unusable_gpu(GPU) == (
        "there are no fused kernels for device cuda:1: the compiler of torch does not "
        "know sm_990"
    )


def test_card_without_a_compiler_cannot_be_used(monkeypatch):
    monkeypatch.setattr(door, "missing_compiler", lambda: "the compiler went home")
    reason = unusable_gpu(GPU)
    assert reason == (
        "there are no fused kernels for device cuda:1: the compiler went home"
    )


def test_processor_needs_no_compiler(monkeypatch):
    monkeypatch.setattr(door, "missing_compiler", lambda: "the compiler went home")
    assert unusable_gpu(CPU) == ""


# ---- networks that are too large

LARGE = {
    "129 columns": (convnet(depth=2, kernel_size=3), (1, 4, 129)),
    "129 columns of a later layer": (
        Sequential(Conv2d(3, padding=2), ReLU(), Flatten(), Dense()),
        (1, 4, 127),
    ),
    "window of 128 rows": (with_window(128, 1), (1, 130, 4)),
    "window of 128 columns": (with_window(1, 128), (1, 4, 100)),
}
JUST_FITTING = {
    "128 columns": (convnet(depth=2, kernel_size=3), (1, 4, 128)),
    "129 rows": (convnet(depth=2, kernel_size=3), (1, 129, 4)),
    "window of 127 rows": (with_window(127, 1), (1, 130, 4)),
    "window of 127 columns": (with_window(1, 127), (1, 4, 100)),
    "no windows": (Flatten(), (1, 2, 3)),
}


@pytest.fixture
def usable(monkeypatch):
    """Make all GPUs usable."""
    monkeypatch.setattr(choose_module, "unusable_gpu", lambda device: "")


@needs_extension
@pytest.mark.parametrize("name", LARGE)
def test_network_that_is_too_large_is_refused(name, usable):
    kernel, shape = LARGE[name]
    with pytest.raises(NotFusableError, match=TOO_LARGE):
        Gpu(GPU).require_accepted(lowered(kernel, shape))
    with pytest.raises(ValueError, match=f"backend='fused' .*{TOO_LARGE}"):
        choose_backend(kernel, shape, "fused", GPU)
    choice = choose_backend(kernel, shape, "auto", GPU)
    assert choice.name == "torch"
    assert TOO_LARGE in choice.reason


@needs_extension
def test_maps_that_a_thread_cannot_hold_are_refused(usable):
    kernel, shape = convnet(depth=2, kernel_size=3), (1, 5000, 128)
    choice = choose_backend(kernel, shape, "auto", GPU)
    assert (choice.name, choice.reason) == ("torch", "on a GPU its maps are too high")


@needs_extension
@pytest.mark.parametrize(("n_rows", "n_held"), [(28, 0), (100, 100 + 9 + 2)])
def test_maps_outside_registers_have_a_place_in_each_thread(
    n_rows, n_held, monkeypatch
):
    monkeypatch.setattr(door, "_running_threads", lambda device: 1000)
    image = torch.rand(1, 1, n_rows, 10, dtype=torch.float64)
    program = lowered(convnet(depth=2, kernel_size=9), tuple(image.shape[1:]))
    # Of a lane: a map, the rows under a window, a row and its sum.
    assert Gpu(CPU).worker_bytes(program, image) == 8 * n_held * 1000


@needs_extension
@pytest.mark.parametrize("name", JUST_FITTING)
def test_network_that_just_fits_is_computed_on_the_gpu(name, usable):
    choice = choose_backend(*JUST_FITTING[name], "fused", GPU)
    assert (choice.name, choice.reason) == ("fused", "")
    assert choice.processor == Gpu(GPU)


# ---- tables


@needs_extension
@both_dtypes
@pytest.mark.parametrize("n", [1, 64, 65, 150])
def test_tables_are_those_of_the_extension(n, dtype):
    program, given = lowered(), images(n, SHAPE, seed=2).to(dtype)
    found = Gpu(CPU).prepare(program, given)
    expected = Extension().prepare(program, given)
    for one, two in zip(found, expected, strict=True):
        assert one.dtype == two.dtype
        assert torch.equal(one, two)


@needs_extension
def test_tables_have_one_number_for_a_position_of_a_layer(usable):
    backend = choose_backend(NETWORK, SHAPE, "fused", GPU).tiles()
    assert table_size(backend.program) == (2 + 3) * 9 * 7


@needs_extension
def test_tables_are_brought_to_the_device():
    elsewhere = torch.device("meta")
    prepared = Gpu(elsewhere).prepare(lowered(), images(3, SHAPE))
    assert [item.device for item in prepared] == [elsewhere, elsewhere]


@needs_extension
@both_dtypes
def test_measured_costs_are_those_of_real_tables(dtype):
    given = images(3, SHAPE).to(dtype)
    programs, order = lower_with_tangents(NETWORK, SHAPE, 1, Gpu(CPU).roots)
    assert len(programs) > 1
    for backend in (
        FusedBackend(lowered(), Gpu(CPU)),
        FusedTangentBackend(programs, order, Gpu(CPU)),
    ):
        prepared = backend.prepare(given)
        pairs = prepared if isinstance(backend, FusedTangentBackend) else [prepared]
        held = sum(tables.nbytes + diag.nbytes for tables, diag in pairs)
        assert 3 * backend.measure(given[:1]).image_bytes == held


# ---- launches


@dataclass
class Recorder:
    """Takes the place of all kernels: notes launches, and fills in results."""

    result: float = 1.5
    loaded: list = field(default_factory=list)
    launches: list = field(default_factory=list)

    def load(self, source, name, device):
        self.loaded.append((source, name, device))
        return self

    def launch(self, n_blocks, n_threads, arguments):
        self.launches.append((n_blocks, n_threads, arguments))
        arguments[6].fill_(self.result)

    @property
    def arguments(self):
        """Those of the last launch."""
        return self.launches[-1][2]


@pytest.fixture
def recorder(monkeypatch):
    recorder = Recorder()
    monkeypatch.setattr(door, "load_kernel", recorder.load)
    return recorder


def blank(program, n, dtype=torch.float32):
    """Return tables and variances of images, all zero."""
    diag = torch.zeros(n, 1 + program.n_tangents, dtype=torch.float64)
    return torch.zeros(n, table_size(program), dtype=dtype), diag


# A block has two times two warps, with the pairs of these numbers of images.
LAYOUTS = {
    (2, 2): (SHAPE, torch.float32),
    (2, 1): ((1, 28, 28), torch.float64),
    (1, 1): ((1, 50, 50), torch.float64),
}


@needs_extension
@pytest.mark.parametrize(
    ("pairs", "n1", "n2", "n_blocks"),
    [
        ((2, 2), 1, 1, 1),
        ((2, 2), 4, 4, 1),
        ((2, 2), 5, 4, 2),
        ((2, 2), 4, 9, 3),
        ((2, 2), 13, 6, 8),
        ((2, 1), 4, 2, 1),
        ((2, 1), 5, 3, 4),
        ((2, 1), 3, 5, 3),
        ((1, 1), 2, 2, 1),
        ((1, 1), 5, 9, 15),
    ],
)
def test_blocks_of_a_launch_cover_all_pairs(pairs, n1, n2, n_blocks, recorder):
    shape, dtype = LAYOUTS[pairs]
    program = lowered(NETWORK, shape)
    assert layout_of(program, is_double=dtype == torch.float64).pairs == pairs
    sides = blank(program, n1, dtype), blank(program, n2, dtype)
    values = Gpu(CPU).cross(program, *sides, is_upper=False)
    assert values.shape == (n1, n2, 1)
    assert [launch[:2] for launch in recorder.launches] == [(n_blocks, 128)]


@needs_extension
@pytest.mark.parametrize(("n1", "n2"), [(0, 3), (3, 0), (0, 0)])
def test_tile_without_pairs_launches_nothing(n1, n2, recorder):
    program = lowered()
    sides = blank(program, n1), blank(program, n2)
    values = Gpu(CPU).cross(program, *sides, is_upper=False)
    assert (values.shape, values.dtype) == ((n1, n2, 1), torch.float64)
    assert recorder.launches == []


@needs_extension
@both_dtypes
@pytest.mark.parametrize("is_upper", [False, True])
def test_arguments_of_a_launch(is_upper, dtype, recorder):
    program, given = lowered(), images(5, SHAPE, seed=4).to(dtype)
    gpu = Gpu(CPU)
    one, two = gpu.prepare(program, given), gpu.prepare(program, given[:3])
    values = gpu.cross(program, one, two, is_upper=is_upper)
    assert values.dtype == torch.float64
    assert torch.equal(values, torch.full((5, 3, 1), 1.5, dtype=torch.float64))
    *tensors, n_one, n_two, n_values, n_pixels, upper = recorder.arguments
    constants = torch.from_numpy(program.constants)
    expected = [one[0], two[0], one[1], two[1], constants.to(dtype), constants[-1]]
    expected += [values, torch.zeros(1)]  # no positions are averaged
    for found, wanted in zip(tensors, expected, strict=True):
        assert found.dtype == wanted.dtype
        assert found.is_contiguous()
        assert torch.equal(found, wanted)
    assert (n_one, n_two, n_values) == (5, 3, table_size(program))
    assert (n_pixels, upper) == (2 * 9 * 7, is_upper)


@needs_extension
@both_dtypes
def test_kernel_is_that_of_the_program_and_takes_these_arguments(dtype, recorder):
    programs, order = lower_with_tangents(NETWORK, SHAPE, 1, Gpu(CPU).roots)
    backend = FusedTangentBackend(programs, order, Gpu(CPU))
    backend.gram(backend.prepare(images(3, SHAPE).to(dtype)))
    is_double = dtype == torch.float64
    c_names = {torch.float32: "float", torch.float64: "double"}
    sources = [cuda_source(program, is_double=is_double) for program in programs]
    assert recorder.loaded == [(source, KERNEL_NAME, CPU) for source in sources]
    head = re.search(rf"{KERNEL_NAME}\(([^)]*)\)", sources[0]).group(1)
    parameters = head.replace("Number", c_names[dtype]).replace("const ", "").split(",")
    given = [
        f"{c_names[item.dtype]}*" if isinstance(item, torch.Tensor) else "int"
        for item in recorder.arguments
    ]
    assert given == [parameter.split()[0] for parameter in parameters]


@needs_extension
def test_rows_that_lie_apart_are_put_side_by_side(recorder):
    (program,), _ = lower_with_tangents(NETWORK, SHAPE, 3, Gpu(CPU).roots)
    backend, given = FusedBackend(program, Gpu(CPU)), images(6, SHAPE, seed=5)
    tables, diag = backend.prepare(given)
    order = torch.tensor([4, 0, 2])
    part = tables[:, order], diag[:, order]
    for sides in [(part, (tables, diag)), ((tables, diag), part)]:
        backend.cross(*sides)
        found = recorder.arguments[:4]
        expected = [side[k].mT for k in (0, 1) for side in sides]
        for one, two in zip(found, expected, strict=True):
            assert one.is_contiguous()
            assert torch.equal(one, two)


@needs_extension
def test_constants_are_brought_to_the_device_once_for_a_program(recorder):
    def constants(program, dtype=torch.float32):
        sides = blank(program, 2, dtype), blank(program, 3, dtype)
        Gpu(CPU).cross(program, *sides, is_upper=False)
        return recorder.arguments[4:6]

    program, other = lowered(), lowered(convnet(3, 3, weight_variance=0.7))
    first, again = constants(program), constants(program)
    assert all(one is two for one, two in zip(first, again, strict=True))
    assert not torch.equal(constants(other)[0], first[0])
    assert constants(program, torch.float64)[0].dtype == torch.float64


@needs_extension
def test_derivatives_of_one_pass_are_a_few_of_many(usable):
    kernel = residual_convnet(depth=2).unshared()
    n_free = len(kernel.theta)
    backend = choose_backend(kernel, SHAPE, "fused", GPU).tangents()
    numbers = [program.n_tangents for program in backend.programs]
    assert sum(numbers) == n_free
    assert max(numbers) == 3
